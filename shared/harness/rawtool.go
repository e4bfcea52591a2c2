package harness

import (
	"context"
	"encoding/json"
	"fmt"
)

// NewRawTool makes a tool of a function whose arguments are described by a JSON schema that
// is known only when the program runs, like that of a tool of another process. The schema is
// that of an object, and is passed to the model as it is; arguments that do not follow it
// never reach fn. What NewTool says of errors, of repeated calls and of what Register refuses
// holds here too.
func NewRawTool(name, description string, schema json.RawMessage, fn func(ctx context.Context, args json.RawMessage) (string, error)) Tool {
	args, err := compile(schema)
	if err == nil {
		err = args.object()
	}
	if err != nil {
		return Tool{name: name, err: fmt.Errorf("tool %q: %w", name, err)}
	}
	call := func(ctx context.Context, _ *session, args json.RawMessage) (string, error) { return fn(ctx, args) }
	return Tool{name: name, description: description, args: args, call: call}
}
