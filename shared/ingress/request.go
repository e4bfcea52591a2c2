package ingress

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/errand-dev/errand/shared/api"
	"github.com/errand-dev/errand/shared/subagent"
)

const (
	// maxBody is the largest request. It leaves room for escapes in a message or input
	// of the largest size.
	maxBody = 2 << 20
	// bodyWithin is how long a client may take to send its body.
	bodyWithin = 30 * time.Second
)

// call is one request under way.
type call struct {
	w     http.ResponseWriter
	r     *http.Request
	owner subagent.Owner
	query url.Values
}

// pathID returns the id that the path has under name. Dots alone are ids nowhere: a
// URL cannot carry them.
func (c *call) pathID(name string) (string, error) {
	id := c.r.PathValue(name)
	return id, checkID(id)
}

func checkID(id string) error {
	if id == "." || id == ".." {
		return fmt.Errorf("%w: %q cannot stand in a URL", subagent.ErrInvalidID, id)
	}
	return subagent.CheckID(id)
}

// body decodes the request's body into v. optional allows there to be none.
func (c *call) body(v any, optional bool) error {
	raw, err := c.read()
	if err != nil {
		return err
	}
	if len(raw) == 0 && optional {
		return nil
	}
	if kind, _, err := mime.ParseMediaType(c.r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return errMediaType
	}
	if len(raw) == 0 {
		return fmt.Errorf("%w: it is empty", errInvalidBody)
	}
	if !utf8.Valid(raw) {
		// The decoder would put U+FFFD for what it cannot read: not what was said.
		return fmt.Errorf("%w: it is not UTF-8", errInvalidBody)
	}
	err = api.Decode(raw, v)
	var field *api.FieldError
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &field):
		return fmt.Errorf("%w: %w", errInvalidBody, err)
	case field.Unknown:
		return atFault(field.Field, fmt.Errorf("%w as %q", errUnknownField, field.Field))
	}
	return atFault(field.Field, fmt.Errorf("%w: %w", errInvalidBody, err))
}

func (c *call) read() ([]byte, error) {
	conn := http.NewResponseController(c.w)
	// A writer without deadlines is a test's, or Lambda's: there the body is here already.
	_ = conn.SetReadDeadline(time.Now().Add(bodyWithin))
	raw, err := io.ReadAll(http.MaxBytesReader(c.w, c.r.Body, maxBody))
	_ = conn.SetReadDeadline(time.Time{})
	if errors.As(err, new(*http.MaxBytesError)) {
		return nil, fmt.Errorf("%w: at most %d bytes are read", errTooLarge, maxBody)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: it could not be read", errInvalidBody)
	}
	return raw, nil
}

// allow refuses query parameters that the call does not know, and repeated ones.
func (c *call) allow(names ...string) error {
	query, err := url.ParseQuery(c.r.URL.RawQuery)
	if err != nil {
		return fmt.Errorf("%w: the query is broken", errInvalidParameter)
	}
	for name, values := range query {
		if !slices.Contains(names, name) {
			return atFault(name, fmt.Errorf("%w as query parameter %q", errUnknownField, name))
		}
		if len(values) > 1 {
			return atFault(name, fmt.Errorf("%w: query parameter %s comes %d times", errInvalidParameter, name, len(values)))
		}
	}
	c.query = query
	return nil
}

// number returns a query parameter between low and high, or absent if it is not there.
func (c *call) number(name string, low, high, absent int64) (int64, error) {
	if !c.query.Has(name) {
		return absent, nil
	}
	n, err := strconv.ParseInt(c.query.Get(name), 10, 64)
	if err != nil || n < low || n > high {
		return 0, atFault(name, fmt.Errorf("%w: %s must be a whole number from %d to %d", errInvalidParameter, name, low, high))
	}
	return n, nil
}

const maxSeq = 1 << 52

func (c *call) after() (int64, error) { return c.number("after", 0, maxSeq, 0) }

func (c *call) limit() (int, error) {
	n, err := c.number("limit", 1, api.MaxLimit, api.DefaultLimit)
	return int(n), err
}

// key returns the Idempotency-Key, quoted (RFC 8941) or bare; empty if there is none.
func (c *call) key() (string, error) {
	values := c.r.Header.Values("Idempotency-Key")
	if len(values) == 0 {
		return "", nil
	}
	key, ok := unquote(values[0])
	switch {
	case len(values) > 1:
		return "", fmt.Errorf("%w: the header comes %d times", errInvalidKey, len(values))
	case !ok || key == "":
		return "", fmt.Errorf("%w: it must be visible ASCII characters, in quotes or bare", errInvalidKey)
	case len(key) > api.MaxKey:
		return "", fmt.Errorf("%w: it has %d characters, at most %d are allowed", errInvalidKey, len(key), api.MaxKey)
	}
	return key, nil
}

// unquote takes the quotes and escapes off a quoted key; a bare one stays as it is.
func unquote(key string) (string, bool) {
	quoted := strings.HasPrefix(key, `"`)
	if quoted {
		if len(key) < 2 || key[len(key)-1] != '"' {
			return "", false
		}
		key = key[1 : len(key)-1]
	}
	var plain strings.Builder
	for i := 0; i < len(key); i++ {
		if quoted && key[i] == '\\' {
			i++
			if i == len(key) || key[i] != '\\' && key[i] != '"' {
				return "", false
			}
		} else if quoted && key[i] == '"' {
			return "", false
		}
		if key[i] < ' ' || key[i] > '~' || key[i] == ' ' && !quoted {
			return "", false
		}
		plain.WriteByte(key[i])
	}
	return plain.String(), true
}
