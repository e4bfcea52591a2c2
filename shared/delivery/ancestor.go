package delivery

import (
	"context"
	"slices"

	"github.com/errand-dev/errand/shared/ledger"
	"github.com/errand-dev/errand/shared/subagent"
)

// tell brings what the turn says to whoever dispatched the run: into the inbox of its
// parent; if that has ended, of the nearest living ancestor, with the path told; at
// last, or if a turn or the API dispatched it, to the conversation.
//
// above are the runs to try, the innermost last.
func (c *Courier) tell(ctx context.Context, l *ledger.Ledger, p *Parcel, t subagent.Turn, text string, above []string) error {
	m := ledger.InboxMessage{
		ID: t.ID, From: t.Run, Source: p.Run.Notice.Source, Told: string(t.Told),
		Milestone: t.Milestone, Narrate: t.Mode == subagent.Narrate, At: subagent.At(l.Now()),
	}
	for _, id := range slices.Backward(above) {
		parent, err := l.Run(ctx, p.Run.Owner, id)
		if err != nil {
			return err
		}
		// In the inbox of one that has ended, it was read, or is passed on from there.
		if known, err := inInbox(ctx, l, parent, m.ID); known || err != nil {
			return err
		}
		if parent.Status.Live() {
			if m.Text, err = l.StoreValue(ctx, p.Run.Owner, text); err != nil {
				return err
			}
			if put, err := PutInbox(ctx, l, parent, m); put || err != nil {
				return err
			}
		}
		if id == p.Run.Parent {
			text = orphaned(text, id)
		}
	}
	var err error
	if t.Message, err = l.StoreValue(ctx, p.Run.Owner, text); err != nil {
		return err
	}
	_, err = c.accept(ctx, l, t, p)
	return err
}

// orphaned adds to a message why somebody else than the run's parent gets it.
func orphaned(text, parent string) string {
	return text + "\nIt was dispatched by run " + parent + ", which has ended."
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
		stored, _, err := l.AddInbox(ctx, ledger.LifeOf(to), number, m)
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
	if run.Inbox == 0 {
		return false, nil
	}
	messages, err := l.Inbox(ctx, ledger.LifeOf(run), 0, run.Inbox)
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

// PassOn forwards what waits in the inbox of a run that ended without its executor: it
// was given up, or every executor died. It must come before the run's own slots close.
func (c *Courier) PassOn(ctx context.Context, run subagent.Run) (subagent.Run, error) {
	if !run.Unheard() {
		return run, nil
	}
	messages, err := c.Ledger.Inbox(ctx, ledger.LifeOf(run), run.InboxRead, run.Inbox)
	if err != nil {
		return run, err
	}
	for _, m := range messages {
		if m.From == "" {
			continue // a follow-up has nobody else to go to
		}
		if err := c.Forward(ctx, c.Ledger, run, m); err != nil {
			return run, err
		}
	}
	next, _, err := c.Ledger.UpdateRun(ctx, run, func(r subagent.Run) (subagent.Run, subagent.Outcome) {
		return r.HandOver(run.Inbox)
	})
	return next, err
}

// Forward passes a message that the run did not read before it ended to its nearest
// living ancestor, at last to the conversation.
func (c *Courier) Forward(ctx context.Context, l *ledger.Ledger, run subagent.Run, m ledger.InboxMessage) error {
	child, err := l.Run(ctx, run.Owner, m.From)
	if err != nil {
		return err
	}
	text, err := l.LoadValue(ctx, run.Owner, m.Text)
	if err != nil {
		return err
	}
	if child.Parent == run.ID {
		text = orphaned(text, run.ID)
	}
	t := c.newTurn(l, child, m.ID)
	t.Told, t.Milestone = subagent.Status(m.Told), m.Milestone
	switch {
	case m.Milestone != "":
		t.Kind = subagent.MilestoneTurn
	case t.Told == subagent.Interrupted:
		t.Kind, t.Slot = subagent.GiveUpTurn, subagent.GiveUp
	default:
		t.Kind, t.Slot = subagent.FinishTurn, subagent.Finish
	}
	if m.Narrate {
		t.Mode = subagent.Narrate
	}
	p := Parcel{Run: child}
	if err := c.tell(ctx, l, &p, t, text, run.Lineage()); err != nil {
		return err
	}
	return c.emit(ctx, l, p)
}
