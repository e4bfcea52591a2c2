package adapt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"time"

	"github.com/errand-dev/errand/shared/model"
)

// Complaint is a failure in the vendor's own words.
type Complaint struct {
	Vendor string
	// Status is the HTTP status; zero for a failure that was told in the middle of a stream.
	Status int
	Header http.Header
	// Code and Message are the vendor's.
	Code, Message string
	// Kind is what the code says, if it says more than the status; it then stands.
	Kind model.Kind
}

// tooLong matches the ways in which the vendors, vLLM, llama.cpp and Ollama say that a
// request does not fit the context window.
var tooLong = regexp.MustCompile(`(?i)prompt is too long|input is too long|too many input tokens|input tokens exceed|context.(length|window|size|limit)|exceed_context|request_too_large`)

// Failed makes the *model.Error of a call that failed with err. ctx is the caller's: if
// that has ended, nothing else matters. complaint reads the vendor's words out of err, if
// there are any; what remains is a connection that timed out or broke.
func Failed(ctx context.Context, err error, complaint func(error) (Complaint, bool)) error {
	if ctx.Err() != nil {
		return &model.Error{Kind: model.Ended, Err: context.Cause(ctx)}
	}
	if failed, ok := errors.AsType[*model.Error](err); ok {
		return failed
	}
	if c, ok := complaint(err); ok {
		return c.failure()
	}
	timeout, ok := errors.AsType[net.Error](err)
	if errors.Is(err, context.DeadlineExceeded) || ok && timeout.Timeout() {
		return &model.Error{Kind: model.Timeout, Err: err}
	}
	return &model.Error{Kind: model.Broken, Err: err}
}

// Invalid is a request that need not be sent.
func Invalid(why string) error { return &model.Error{Kind: model.Invalid, Err: errors.New(why)} }

// Cut is an answer without its end.
func Cut(why string) error { return &model.Error{Kind: model.Broken, Err: errors.New(why)} }

func (c Complaint) failure() *model.Error {
	return &model.Error{Kind: c.kind(), After: retryAfter(c.Header), Err: c}
}

func (c Complaint) kind() model.Kind {
	kind := cmp.Or(c.Kind, byStatus(c.Status))
	if kind == model.Invalid && (tooLong.MatchString(c.Code) || tooLong.MatchString(c.Message)) {
		return model.TooLong
	}
	if c.Kind != "" {
		return kind
	}
	// The vendors' SDKs let this header overrule the status.
	_, retryable := model.Retryable(&model.Error{Kind: kind})
	switch should := c.Header.Get("X-Should-Retry"); {
	case should == "false" && retryable:
		return model.Invalid
	case should == "true" && !retryable:
		return model.Overloaded
	}
	return kind
}

func byStatus(status int) model.Kind {
	switch {
	case status < 400:
		return model.Broken // told in the middle of a stream
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return model.Unauthorized
	case status == http.StatusNotFound:
		return model.NotFound
	case status == http.StatusRequestEntityTooLarge:
		return model.TooLong
	case status == http.StatusTooManyRequests:
		return model.RateLimited
	case status == http.StatusRequestTimeout, status == http.StatusGatewayTimeout:
		return model.Timeout
	case status == http.StatusConflict, status >= 500:
		return model.Overloaded
	}
	return model.Invalid
}

// Error names the vendor, its code and its request id, which its support asks for.
func (c Complaint) Error() string {
	text := c.Vendor + " answered"
	if c.Status >= 400 {
		text += " " + strconv.Itoa(c.Status)
	}
	if c.Code != "" {
		text += " " + c.Code
	}
	if c.Message != "" {
		text += ": " + c.Message
	}
	for _, name := range []string{"Request-Id", "X-Request-Id", "X-Amzn-Requestid"} {
		if id := c.Header.Get(name); id != "" {
			return fmt.Sprintf("%s (request %s)", text, id)
		}
	}
	return text
}

// retryAfter is how long the vendor asks us to wait. A date is measured against the Date
// of the same response, so that no clock of ours has to agree with it.
func retryAfter(h http.Header) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil {
		return span(ms, time.Millisecond)
	}
	value := h.Get("Retry-After")
	if seconds, err := strconv.ParseFloat(value, 64); err == nil {
		return span(seconds, time.Second)
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	said, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		return 0
	}
	return max(at.Sub(said), 0)
}

// longest is the most that we believe a vendor asks for; more would overflow.
const longest = 24 * time.Hour

func span(n float64, unit time.Duration) time.Duration {
	if !(n > 0) { // NaN too
		return 0
	}
	if n >= float64(longest/unit) {
		return longest
	}
	return time.Duration(n * float64(unit))
}
