package delivery

import (
	"context"

	"github.com/errand-dev/errand/shared/ledger"
	"github.com/errand-dev/errand/shared/subagent"
)

// tellAncestor puts the message into the inbox of the run that dispatched this one.
// If that has ended, the nearest living ancestor gets it, at last the conversation.
func (c *Courier) tellAncestor(ctx context.Context, l *ledger.Ledger, p *Parcel) error {
	text := c.completionText(p.Run)
	if text == "" {
		return nil
	}
	for id := p.Run.Parent; id != ""; {
		parent, err := l.Run(ctx, p.Run.Owner, id)
		if err != nil {
			return err
		}
		if parent.Status.Live() {
			message := ledger.InboxMessage{
				ID: MessageID(p.Run.ID, p.Run.Status), From: p.Run.ID, Source: p.Run.Notice.Source,
				Told: string(p.Run.Status), At: subagent.At(l.Now()),
			}
			if message.Text, err = l.StoreValue(ctx, p.Run.Owner, text); err != nil {
				return err
			}
			put, err := PutInbox(ctx, l, parent, message)
			if put || err != nil {
				return err
			}
		}
		id = parent.Parent
	}
	return c.tellConversation(ctx, l, p)
}

// PutInbox adds the message to the inbox of a live run. It reports false if the run has
// ended. A message with the same id that is there already is not added again.
//
// The message is written first, under the next number; it counts once the run's row
// says so, which only a live run's does. So a run cannot end without having seen it.
func PutInbox(ctx context.Context, l *ledger.Ledger, to subagent.Run, m ledger.InboxMessage) (bool, error) {
	for to.Status.Live() {
		if known, err := inInbox(ctx, l, to, m.ID); known || err != nil {
			return known, err
		}
		number := to.Inbox
		stored, _, err := l.AddInbox(ctx, to.Owner, to.ID, number, m)
		if err != nil {
			return false, err
		}
		next, outcome, err := l.UpdateRun(ctx, to, func(r subagent.Run) (subagent.Run, subagent.Outcome) {
			if r.Inbox != number {
				return r, subagent.Stale
			}
			return r.Receive()
		})
		if err != nil {
			return false, err
		}
		if outcome == subagent.Apply && stored.ID == m.ID {
			return true, nil
		}
		// Another writer's message took the number (and ours may have counted it), or
		// the run changed: look again.
		to = next
	}
	return false, nil
}

func inInbox(ctx context.Context, l *ledger.Ledger, run subagent.Run, id string) (bool, error) {
	messages, err := l.Inbox(ctx, run.Owner, run.ID, 0, run.Inbox)
	if err != nil {
		return false, err
	}
	for _, m := range messages {
		if m.ID == id {
			return true, nil
		}
	}
	return false, nil
}

// Forward passes a message that the run did not read before it ended to its nearest
// living ancestor, at last to the conversation.
func (c *Courier) Forward(ctx context.Context, l *ledger.Ledger, run subagent.Run, m ledger.InboxMessage) error {
	for id := run.Parent; id != ""; {
		parent, err := l.Run(ctx, run.Owner, id)
		if err != nil {
			return err
		}
		if put, err := PutInbox(ctx, l, parent, m); put || err != nil {
			return err
		}
		id = parent.Parent
	}
	child, err := l.Run(ctx, run.Owner, m.From)
	if err != nil {
		return err
	}
	child.Status = subagent.Status(m.Told)
	slot := subagent.Finish
	if child.Status == subagent.Interrupted {
		slot = subagent.GiveUp
	}
	p := Parcel{Run: child, Slot: slot}
	return c.tellConversation(ctx, l, &p)
}
