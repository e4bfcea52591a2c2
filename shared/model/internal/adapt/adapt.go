// Package adapt holds what the vendors' adapters have in common: how a failure is
// classified (failure.go), how an answer is put together and taken apart again when the
// next request repeats it (answer.go), which schemas vendors can enforce (schema.go), and
// how words are put that a vendor's API would not take as they are.
package adapt

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/errand-dev/errand/shared/model"
)

// defaultTimeout is what the vendors' SDKs recommend for one call.
const defaultTimeout = 10 * time.Minute

// Bound gives ctx the timeout of one call; zero means ten minutes. A connection that
// hangs would otherwise hold its run until the run's budget of silence is used up.
func Bound(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, cmp.Or(timeout, defaultTimeout))
}

// ModelName is the model that a request is for.
func ModelName(req model.Request, fallback string) (string, error) {
	if name := cmp.Or(req.Model, fallback); name != "" {
		return name, nil
	}
	return "", Invalid("no model is named: set Options.Model, or the ModelName of the agent")
}

// Object returns arguments as a JSON object, for the APIs that take no other: those that
// a model garbled are wrapped into one.
func Object(arguments json.RawMessage) json.RawMessage {
	if len(arguments) == 0 {
		return json.RawMessage("{}")
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(arguments, &fields) == nil && fields != nil {
		return arguments
	}
	raw, _ := json.Marshal(map[string]string{"malformed": string(arguments)}) // a string always encodes
	return raw
}

// Blank reports whether text is what the APIs refuse as an empty block.
func Blank(text string) bool { return strings.TrimSpace(text) == "" }

// Output is a tool's result in words that no API refuses.
func Output(text string) string {
	if Blank(text) {
		return "(no output)"
	}
	return text
}

// CheckURL refuses an address that no call could reach: better now than as a connection
// that seems to break each time.
func CheckURL(base string) error {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("the address %q is not like https://host/path", base)
	}
	return nil
}
