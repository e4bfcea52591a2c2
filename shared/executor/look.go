package executor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/delivery"
	"github.com/errand-dev/errand/shared/ledger"
	"github.com/errand-dev/errand/shared/subagent"
)

// inspect returns a run of the conversation with its output.
func (e *Executor) inspect(ctx context.Context, o subagent.Owner, id string) (agent.Result, error) {
	row, err := e.known(ctx, o, id)
	if err != nil {
		return agent.Result{}, err
	}
	output, err := e.Ledger.LoadValue(ctx, o, row.Output)
	return agent.Result{Info: agent.InfoOf(row), Output: json.RawMessage(output)}, err
}

// followUp puts a message from an agent into the inbox of a live run.
func (e *Executor) followUp(ctx context.Context, o subagent.Owner, run, id, text string) error {
	row, err := e.known(ctx, o, run)
	if err != nil {
		return err
	}
	value, err := e.Ledger.StoreValue(ctx, o, text)
	if err != nil {
		return err
	}
	put, err := delivery.PutInbox(ctx, e.Ledger, row, ledger.InboxMessage{
		ID: "followup:" + id, Text: value, Source: "agent", At: subagent.At(e.Ledger.Now())})
	if err == nil && !put {
		err = fmt.Errorf("%w: %s", agent.ErrRunEnded, run)
	}
	return err
}

func (e *Executor) known(ctx context.Context, o subagent.Owner, id string) (subagent.Run, error) {
	if err := subagent.CheckID(id); err != nil {
		return subagent.Run{}, fmt.Errorf("%w: %w", agent.ErrNoRun, err)
	}
	row, err := e.Ledger.Run(ctx, o, id)
	if err == nil && (row.Status == "" || row.Status == subagent.Void) {
		err = fmt.Errorf("%w: %s", agent.ErrNoRun, id)
	}
	return row, err
}

// Inspect implements agent.Backend.
func (x *execution) Inspect(ctx context.Context, run string) (agent.Result, error) {
	return x.inspect(ctx, x.row.Owner, run)
}

// FollowUp implements agent.Backend.
func (x *execution) FollowUp(ctx context.Context, run, id, text string) error {
	return x.followUp(ctx, x.row.Owner, run, id, text)
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
	return h.followUp(ctx, h.turn.Owner, run, id, text)
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
