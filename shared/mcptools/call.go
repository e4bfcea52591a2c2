package mcptools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/harness"
)

// IdempotencyKey is the key in a call's _meta under which the server finds harness.CallKey:
// the same however often the call is made again, and that of no other call.
const IdempotencyKey = "dev.errand/idempotency-key"

// call makes one call of a tool.
func (s *Source) call(ctx context.Context, tool string, args json.RawMessage) (string, error) {
	session, err := s.live(ctx)
	if err != nil {
		return "", s.failure(ctx, "reaching", err)
	}
	within, cancel := context.WithCancelCause(ctx)
	token, stop := s.follow(ctx, cancel)
	defer stop()
	within, timedOut := context.WithTimeoutCause(within, s.options.CallTimeout, errTimeout)
	defer timedOut()
	params := &mcp.CallToolParams{Name: tool, Arguments: args, Meta: mcp.Meta{}}
	if key := harness.CallKey(ctx); key != "" {
		params.Meta[IdempotencyKey] = key
	}
	params.SetProgressToken(token)
	result, err := session.CallTool(within, params)
	switch cause := context.Cause(within); {
	case err == nil:
		return textOf(result)
	case ctx.Err() == nil && errors.Is(cause, errTimeout):
		return "", fmt.Errorf("%w within %s; the call was cancelled, and may have had its effect all the same", errTimeout, s.options.CallTimeout)
	case cause != nil:
		err = cause
	}
	err = s.failure(ctx, "calling", err)
	if agent.IsRetryable(err) {
		s.drop(session)
	}
	return "", err
}

var errTimeout = errors.New("there was no answer")

// failure is the error of a call for the harness: one that the server answered is told to the
// model, any other is a matter of the connection, and retryable.
func (s *Source) failure(ctx context.Context, doing string, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if answer, ok := errors.AsType[*jsonrpc.Error](err); ok && answered(answer.Code) {
		return fmt.Errorf("the server answered with an error: %s (code %d)", answer.Message, answer.Code)
	}
	return agent.Retryable(fmt.Errorf("mcptools: %s %s: %w", doing, s.options.Name, s.options.withoutURL(err)))
}

// answered tells codes of servers from those that the SDK gives to its own errors: the call
// was not delivered, or the connection is being closed.
func answered(code int64) bool {
	const clientClosing, serverClosing, rejectedByTransport = -32003, -32004, -32005
	return code != clientClosing && code != serverClosing && code != rejectedByTransport
}
