package adapt

import (
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

// Refusal is a failure in the vendor's own words.
type Refusal struct {
	Vendor string
	// Status is the HTTP status; zero for a failure that was told in the middle of a stream.
	Status int
	Header http.Header
	// Code and Message are the vendor's.
	Code, Message string
	// Kind is what the code says, if it says more than the status.
	Kind model.Kind
}

// tooLong matches the ways in which the vendors, vLLM, llama.cpp and Ollama say that a
// request does not fit the context window.
var tooLong = regexp.MustCompile(`(?i)prompt is too long|input is too long|too many input tokens|context.(length|window|size|limit)|exceed_context|request_too_large`)

// Failed makes the *model.Error of a call that failed with err. ctx is the caller's: if
// that has ended, nothing else matters. refusal reads the vendor's words out of err, if
// there are any; what remains is a connection that timed out or broke.
func Failed(ctx context.Context, err error, refusal func(error) (Refusal, bool)) error {
	if ctx.Err() != nil {
		return &model.Error{Kind: model.Ended, Err: context.Cause(ctx)}
	}
	if failed, ok := errors.AsType[*model.Error](err); ok {
		return failed
	}
	if r, ok := refusal(err); ok {
		return r.failure()
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

func (r Refusal) failure() *model.Error {
	return &model.Error{Kind: r.kind(), After: retryAfter(r.Header), Err: r}
}

func (r Refusal) kind() model.Kind {
	kind := r.Kind
	if kind == "" {
		kind = byStatus(r.Status)
	}
	if kind == model.Invalid && (tooLong.MatchString(r.Code) || tooLong.MatchString(r.Message)) {
		return model.TooLong
	}
	_, retryable := model.Retryable(&model.Error{Kind: kind})
	switch r.Header.Get("X-Should-Retry") {
	case "false":
		if retryable {
			return model.Invalid
		}
	case "true":
		if !retryable {
			return model.Overloaded
		}
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
func (r Refusal) Error() string {
	text := r.Vendor + " answered"
	if r.Status >= 400 {
		text += " " + strconv.Itoa(r.Status)
	}
	if r.Code != "" {
		text += " " + r.Code
	}
	if r.Message != "" {
		text += ": " + r.Message
	}
	for _, name := range []string{"Request-Id", "X-Request-Id", "X-Amzn-Requestid"} {
		if id := r.Header.Get(name); id != "" {
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
