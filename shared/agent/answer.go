package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/errand-dev/errand/shared/subagent"
)

// Answers come from outside: people's decisions, and callbacks of whoever works for a run
// elsewhere. The first one stands.

// Question is what people are asked.
type Question struct {
	// Name tells it from others of the run or turn: letters, digits and . _ : -
	Name string `json:"name"`
	// Title is the question, in a sentence: at most 1 KB.
	Title string `json:"title"`
	// Detail is JSON that helps to decide, at most MaxDetail.
	Detail json.RawMessage `json:"detail,omitempty"`
	// Until is when nobody waits for an answer any more; zero means never.
	Until time.Time `json:"until,omitzero"`
}

// Decision answers a Question.
type Decision struct {
	Approved bool `json:"approved"`
	// Note is what whoever decided says about it.
	Note string `json:"note,omitempty"`
}

// MaxDetail is the largest detail of a question, in bytes of JSON.
const MaxDetail = 16 << 10

const maxTitle = 1 << 10

// Ask makes a question known, once, and goes on: Approve waits for the decision. within is
// how long somebody will wait for it, zero means without end.
func (w *Work) Ask(ctx context.Context, q Question, within time.Duration) error {
	_, err := w.ask(ctx, q, within)
	return err
}

func (w *Work) ask(ctx context.Context, q Question, within time.Duration) (until subagent.Time, err error) {
	if err := subagent.CheckID(q.Name); err != nil {
		return 0, fmt.Errorf("question %q: %w", q.Name, err)
	}
	if len(q.Title) > maxTitle {
		return 0, fmt.Errorf("the title of question %s has %d bytes, at most %d are allowed; put the rest into its detail", q.Name, len(q.Title), maxTitle)
	}
	if len(q.Detail) > MaxDetail {
		return 0, fmt.Errorf("the detail of question %s has %d bytes, at most %d are allowed", q.Name, len(q.Detail), MaxDetail)
	}
	if until, err = w.until(ctx, q.Name, within); err != nil {
		return 0, err
	}
	q.Until = until.Time()
	return until, w.backend.Ask(ctx, q)
}

// Approve asks people and waits for their decision: through the API, or `errand approve`.
// within bounds the wait; without an answer in time it returns ErrTimedOut.
func (w *Work) Approve(ctx context.Context, q Question, within time.Duration) (Decision, error) {
	var d Decision
	until, err := w.ask(ctx, q, within)
	if err != nil {
		return d, err
	}
	raw, err := w.signal(ctx, q.Name, until)
	if err != nil {
		return d, err
	}
	if err := json.Unmarshal(raw, &d); err != nil {
		return d, fmt.Errorf("decoding the decision on %s: %w", q.Name, err)
	}
	return d, nil
}

// Callback returns a token by which somebody outside, who has no other credential, ends the
// wait of WaitCallback under the same key: POST /v1/callbacks/{token}. It is the same
// each time.
func (w *Work) Callback(ctx context.Context, key string) (token string, err error) {
	if err := subagent.CheckID(key); err != nil {
		return "", fmt.Errorf("callback %q: %w", key, err)
	}
	return w.backend.Callback(ctx, key)
}

// CallbackError is what whoever was called back reports instead of an output.
type CallbackError struct{ Message string }

func (e *CallbackError) Error() string { return "the callback reports: " + e.Message }

// CallbackResult is how a callback ends the wait for it: with one of the two.
type CallbackResult struct {
	Output json.RawMessage `json:"output,omitempty"`
	Error  string          `json:"error,omitempty"`
}

// WaitCallback waits until somebody outside has used the token that Callback returned for
// the key, and returns the output that came with it. Errors: *CallbackError, and ErrTimedOut
// after within (zero means no bound but that of a turn).
func (w *Work) WaitCallback(ctx context.Context, key string, within time.Duration) (json.RawMessage, error) {
	if err := subagent.CheckID(key); err != nil {
		return nil, fmt.Errorf("callback %q: %w", key, err)
	}
	until, err := w.until(ctx, key, within)
	if err != nil {
		return nil, err
	}
	raw, err := w.signal(ctx, key, until)
	if err != nil {
		return nil, err
	}
	var result CallbackResult
	if err := json.Unmarshal(raw, &result); err != nil {
		return nil, fmt.Errorf("decoding callback %s: %w", key, err)
	}
	if result.Error != "" {
		return nil, &CallbackError{result.Error}
	}
	return result.Output, nil
}

// signal waits for a signal and returns its body. That none has come in time is kept, too:
// one that comes later changes nothing.
func (w *Work) signal(ctx context.Context, name string, until subagent.Time) (json.RawMessage, error) {
	type answer struct {
		Body json.RawMessage `json:"body,omitempty"`
		Come bool            `json:"come"`
	}
	a, err := keep(ctx, w, "#signal:"+name, func(ctx context.Context) (a answer, err error) {
		if err := w.backend.Wait(ctx, subagent.Wait{Signal: name, Until: until}); err != nil {
			return a, err
		}
		a.Body, a.Come, err = w.backend.Signal(ctx, name)
		return a, err
	})
	if err == nil && !a.Come {
		err = fmt.Errorf("%w: nobody has answered %s", ErrTimedOut, name)
	}
	return a.Body, err
}
