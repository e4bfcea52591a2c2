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
	info, err := e.info(ctx, row)
	if err != nil {
		return agent.Result{}, err
	}
	output, err := e.Ledger.LoadValue(ctx, o, row.Output)
	return agent.Result{Info: info, Output: json.RawMessage(output)}, err
}

func (e *Executor) milestones(ctx context.Context, o subagent.Owner, id string) ([]agent.Milestone, error) {
	row, err := e.Control.Run(ctx, o, id)
	if err != nil {
		return nil, err
	}
	stored, err := e.Ledger.Milestones(ctx, ledger.LifeOf(row), 0)
	reached := make([]agent.Milestone, len(stored))
	for i, m := range stored {
		reached[i] = agent.Milestone{Name: m.Name, Sequence: m.Sequence, At: m.At.Time(), Data: m.Data}
	}
	return reached, err
}

// logPage is how many events of a conversation are looked through for one page.
const logPage = 200

// runLog returns what one part of the conversation's log says of a run.
func (e *Executor) runLog(ctx context.Context, o subagent.Owner, run string, after int64) (agent.LogPage, error) {
	page := agent.LogPage{Next: after}
	events, err := e.Ledger.Events(ctx, o, after, logPage)
	if err != nil {
		return page, err
	}
	page.More = len(events) == logPage
	for _, event := range events {
		page.Next = event.Seq
		if event.Run == run {
			page.Entries = append(page.Entries, agent.LogEntry{Type: event.Type, At: event.At.Time(), Data: event.Data})
		}
	}
	return page, nil
}

// RunLog implements agent.Backend.
func (x *execution) RunLog(ctx context.Context, run string, after int64) (agent.LogPage, error) {
	return x.runLog(ctx, x.row.Owner, run, after)
}

// Inspect implements agent.Backend.
func (x *execution) Inspect(ctx context.Context, run string) (agent.Result, error) {
	return x.inspect(ctx, x.row.Owner, run)
}

// Milestones implements agent.Backend.
func (x *execution) Milestones(ctx context.Context, run string) ([]agent.Milestone, error) {
	return x.Executor.milestones(ctx, x.row.Owner, run)
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

// RunLog implements agent.Backend.
func (h *hold) RunLog(ctx context.Context, run string, after int64) (agent.LogPage, error) {
	return h.runLog(ctx, h.turn.Owner, run, after)
}

// Inspect implements agent.Backend.
func (h *hold) Inspect(ctx context.Context, run string) (agent.Result, error) {
	return h.inspect(ctx, h.turn.Owner, run)
}

// Milestones implements agent.Backend.
func (h *hold) Milestones(ctx context.Context, run string) ([]agent.Milestone, error) {
	return h.Executor.milestones(ctx, h.turn.Owner, run)
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
