package executor

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/ledger"
	"github.com/errand-dev/errand/shared/subagent"
)

// inspect returns a run of the conversation with its output.
func (e *Executor) inspect(ctx context.Context, o subagent.Owner, id string) (agent.Result, error) {
	row, err := e.Control.Run(ctx, o, id)
	if err != nil {
		return agent.Result{}, err
	}
	output, err := e.Ledger.LoadValue(ctx, o, row.Output)
	return agent.Result{Info: agent.InfoOf(row), Output: json.RawMessage(output)}, err
}

// Inspect implements agent.Backend.
func (x *execution) Inspect(ctx context.Context, run string) (agent.Result, error) {
	return x.inspect(ctx, x.row.Owner, run)
}

// FollowUp implements agent.Backend.
func (x *execution) FollowUp(ctx context.Context, run, id, text string) error {
	return x.Control.Tell(ctx, x.row.Owner, run, ledger.InboxMessage{ID: id, Source: "agent"}, text)
}

// Now implements agent.Backend.
func (x *execution) Now() time.Time { return x.Ledger.Now() }

// Transcript belongs to turns.
func (x *execution) Transcript(context.Context, int) ([]agent.Line, error) { return nil, errNotInRun }

var errNotInRun = errors.New("only a turn can do this, not a run")

// Inspect implements agent.Backend.
func (h *hold) Inspect(ctx context.Context, run string) (agent.Result, error) {
	return h.inspect(ctx, h.turn.Owner, run)
}

// FollowUp implements agent.Backend.
func (h *hold) FollowUp(ctx context.Context, run, id, text string) error {
	return h.Control.Tell(ctx, h.turn.Owner, run, ledger.InboxMessage{ID: id, Source: "agent"}, text)
}

// Now implements agent.Backend.
func (h *hold) Now() time.Time { return h.Ledger.Now() }

// Transcript implements agent.Backend: what was said up to the turn's own message.
func (h *hold) Transcript(ctx context.Context, limit int) ([]agent.Line, error) {
	messages, err := h.Ledger.Messages(ctx, h.turn.Owner, max(h.messages-int64(limit), 0), limit)
	if err != nil {
		return nil, err
	}
	lines := make([]agent.Line, 0, len(messages))
	for _, m := range messages {
		if m.Seq > h.messages {
			break // an earlier attempt's reply
		}
		text, err := h.Ledger.LoadValue(ctx, h.turn.Owner, m.Text)
		if err != nil {
			return nil, err
		}
		lines = append(lines, agent.Line{Role: m.Role, Text: text, Source: m.Source, At: m.At.Time()})
	}
	return lines, nil
}
