package executor

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/ledger"
	"github.com/errand-dev/errand/shared/subagent"
)

// Inbox implements agent.Backend. What it returned is journalled: executed again, the
// task gets the same messages at the same place.
func (x *execution) Inbox(ctx context.Context) ([]agent.Message, error) {
	x.mu.Lock()
	x.inboxReads++
	key := "inbox:" + strconv.Itoa(x.inboxReads)
	from := x.inboxRead
	x.mu.Unlock()
	raw, err := x.Step(ctx, key, func(ctx context.Context) (json.RawMessage, error) {
		return json.Marshal(inboxRange{from, x.current().Inbox})
	})
	if err != nil {
		return nil, err
	}
	var read inboxRange
	if err := json.Unmarshal(raw, &read); err != nil {
		return nil, fmt.Errorf("decoding the journal: %w", err)
	}
	messages, err := x.Ledger.Inbox(ctx, ledger.LifeOf(*x.row), read.From, read.To)
	if err != nil {
		return nil, err
	}
	x.setRead(max(read.To, from))
	return x.openMessages(ctx, messages)
}

type inboxRange struct {
	From int `json:"from"`
	To   int `json:"to"`
}

// openMessages loads the texts. The give-up of a child whose real end has come since is
// left out: it must not be heard after that.
func (x *execution) openMessages(ctx context.Context, messages []ledger.InboxMessage) ([]agent.Message, error) {
	var opened []agent.Message
	for _, m := range messages {
		if m.Told == string(subagent.Interrupted) {
			child, err := x.Ledger.Run(ctx, x.row.Owner, m.From)
			if err != nil {
				return nil, err
			}
			if child.Status.Hard() {
				continue
			}
		}
		text, err := x.Ledger.LoadValue(ctx, x.row.Owner, m.Text)
		if err != nil {
			return nil, err
		}
		opened = append(opened, agent.Message{ID: m.ID, Text: text, From: m.From, Milestone: m.Milestone, Source: m.Source, At: m.At.Time()})
	}
	return opened, nil
}

// forward hands messages that the task did not read before it ended to whoever is
// next above it, and counts them as read. A follow-up has nobody else to go to.
func (x *execution) forward(ctx context.Context, l *ledger.Ledger, row subagent.Run) error {
	read, _ := x.state()
	messages, err := l.Inbox(ctx, ledger.LifeOf(row), read, row.Inbox)
	if err != nil {
		return err
	}
	for _, m := range messages {
		if m.From == "" {
			x.note(x.Ledger.NewEvent("run.followup_unread", row.ID, "", inboxNote{m.ID}))
			continue
		}
		if err := x.Courier.Forward(ctx, l, row, m); err != nil {
			return err
		}
	}
	x.setRead(row.Inbox)
	return nil
}

type inboxNote struct {
	Message string `json:"message_id"`
}
