package harness

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/errand-dev/errand/shared/agent"
)

// Tool is a function that a model may call.
type Tool struct {
	name        string
	description string
	args        *schema
	call        func(ctx context.Context, s *session, args json.RawMessage) (string, error)
	// asks is the subagent that the tool waits for: it is called in two steps.
	asks *Subagent
	// waits: the tool may suspend the run, so it is called when nothing else is under way.
	waits bool
	// free: a model call that only makes such calls does not count as an iteration.
	free bool
	err  error
}

// Name is the tool's name.
func (t Tool) Name() string { return t.name }

// NewTool makes a tool of a function. In is a struct: the schema of the arguments is
// derived from it as SchemaOf does, and arguments that do not follow it never reach fn.
// An Out that is a string is shown to the model as it is, any other as JSON.
//
// An error of fn is told to the model, which goes on, unless it is Terminal (the run ends)
// or agent.Retryable (the run is put off, and fn called again). fn is called once and its result
// kept; a crash before it is kept calls it again, with the same CallKey.
//
// A type without a schema makes a tool that Register refuses.
func NewTool[In, Out any](name, description string, fn func(context.Context, In) (Out, error)) Tool {
	args, err := argumentsOf[In]()
	if err != nil {
		return Tool{name: name, err: fmt.Errorf("tool %q: %w", name, err)}
	}
	call := func(ctx context.Context, _ *session, raw json.RawMessage) (string, error) {
		var in In
		if err := json.Unmarshal(raw, &in); err != nil {
			return "", err
		}
		out, err := fn(ctx, in)
		if err != nil {
			return "", err
		}
		return textOf(out)
	}
	return Tool{name: name, description: description, args: args, call: call}
}

func argumentsOf[In any]() (*schema, error) {
	raw, err := SchemaOf[In]()
	if err != nil {
		return nil, err
	}
	s, err := compile(raw)
	if err != nil {
		return nil, err
	}
	return s, s.object()
}

func textOf(out any) (string, error) {
	if text, ok := out.(string); ok {
		return text, nil
	}
	raw, err := json.Marshal(out)
	if err != nil {
		return "", fmt.Errorf("encoding the result: %w", err)
	}
	return string(raw), nil
}

// Terminal marks an error of a tool that ends the run.
func Terminal(err error) error { return &terminalError{err} }

type terminalError struct{ err error }

func (e *terminalError) Error() string { return e.err.Error() }
func (e *terminalError) Unwrap() error { return e.err }

func isTerminal(err error) bool {
	_, ok := errors.AsType[*terminalError](err)
	return ok
}

func terminalf(format string, args ...any) error { return Terminal(fmt.Errorf(format, args...)) }

type callContext struct{}

// callInfo is what a tool finds in its context.
type callInfo struct {
	key  string
	run  *agent.Run
	work *agent.Work
}

// CallWork returns the run or turn that the tool call belongs to, for its agent's state and
// the like; nil outside of a call. A tool must not wait by it: other calls may be under way.
func CallWork(ctx context.Context) *agent.Work {
	info, _ := ctx.Value(callContext{}).(callInfo)
	return info.work
}

// CallKey returns the idempotency key of the tool call that ctx belongs to: the same
// however often the call is made again, and that of no other call. Empty outside of one.
func CallKey(ctx context.Context) string {
	info, _ := ctx.Value(callContext{}).(callInfo)
	return info.key
}

// ReportProgress reports progress of the run that the tool call belongs to. In a turn
// of a conversation, which has no progress, it does nothing.
func ReportProgress(ctx context.Context, p agent.Progress) error {
	info, _ := ctx.Value(callContext{}).(callInfo)
	if info.run == nil {
		return nil
	}
	return info.run.Progress(ctx, p)
}

// Milestone records a durable named point of the run that the tool call belongs to. In a
// turn of a conversation, which has none, it does nothing.
func Milestone(ctx context.Context, name string, data any) error {
	info, _ := ctx.Value(callContext{}).(callInfo)
	if info.run == nil {
		return nil
	}
	return info.run.Milestone(ctx, name, data)
}

// idempotencyKey names a step over all runs of all conversations.
func idempotencyKey(w *agent.Work, step string) string {
	sum := sha256.Sum256([]byte(w.Owner.Tenant + "/" + w.Owner.Conversation + "/" + w.ID + "/" + step))
	return hex.EncodeToString(sum[:16])
}
