// Package control is what users and agents do to background runs from outside:
// cancel, follow up, redrive, clear.
package control

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"unicode/utf8"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/delivery"
	"github.com/errand-dev/errand/shared/dispatch"
	"github.com/errand-dev/errand/shared/ledger"
	"github.com/errand-dev/errand/shared/subagent"
)

// Control acts on runs.
type Control struct {
	Ledger     *ledger.Ledger
	Courier    *delivery.Courier
	Dispatcher *dispatch.Dispatcher
	Log        *slog.Logger
	// Changed, if set, hears of every run that was cancelled, so that an executor in
	// this process stops at once.
	Changed func(subagent.Run)
}

// ErrNothingToRedrive is returned when no slot of the run is dead-lettered.
var ErrNothingToRedrive = errors.New("no slot of this run is dead-lettered")

// Cancel ends the run and its descendants, top down, and returns the run as it then
// is. When it returns without an error, no step of any of them starts any more. A run
// that has ended already stays as it is. Errors: agent.ErrNoRun.
func (c *Control) Cancel(ctx context.Context, o subagent.Owner, id, reason string) (subagent.Run, error) {
	run, err := c.Run(ctx, o, id)
	if err != nil {
		return run, err
	}
	if reason == "" {
		reason = "cancelled by the user"
	}
	err = c.cancelTree(ctx, run, func(r subagent.Run) (subagent.Run, subagent.Outcome) {
		return r.Cancel(clip(reason, maxReason), c.Ledger.Now())
	})
	if err != nil {
		return run, err
	}
	return c.Ledger.Run(ctx, o, id)
}

// CancelBelow ends a run, and those below it, because one above it was cancelled.
func (c *Control) CancelBelow(ctx context.Context, run subagent.Run) error {
	return c.cancelTree(ctx, run, c.below)
}

func (c *Control) below(r subagent.Run) (subagent.Run, subagent.Outcome) {
	return r.CancelBelow(c.Ledger.Now())
}

func (c *Control) cancelTree(ctx context.Context, run subagent.Run, rule func(subagent.Run) (subagent.Run, subagent.Outcome)) error {
	run, err := c.cancelOne(ctx, run, rule)
	if err != nil {
		return err
	}
	if err := c.cancelDescendants(ctx, run); err != nil {
		return err
	}
	// Delivered last: the cancel is acknowledged for the whole tree or not at all.
	return c.Courier.Deliver(ctx, delivery.Parcel{Run: run, Slot: subagent.Finish})
}

// Run reads the row of a run. Errors: agent.ErrNoRun.
func (c *Control) Run(ctx context.Context, o subagent.Owner, id string) (subagent.Run, error) {
	if err := subagent.CheckID(id); err != nil {
		return subagent.Run{}, fmt.Errorf("%w: %w", agent.ErrNoRun, err)
	}
	run, err := c.Ledger.Run(ctx, o, id)
	if err == nil && (run.Status == "" || run.Status == subagent.Void) {
		err = fmt.Errorf("%w: %s", agent.ErrNoRun, id)
	}
	return run, err
}

func (c *Control) cancelOne(ctx context.Context, run subagent.Run, rule func(subagent.Run) (subagent.Run, subagent.Outcome)) (subagent.Run, error) {
	next, outcome, err := c.Ledger.UpdateRun(ctx, run, rule)
	if err != nil || outcome != subagent.Apply {
		return next, err
	}
	c.Log.InfoContext(ctx, "run cancelled", "run_id", run.ID)
	if c.Changed != nil {
		c.Changed(next)
	}
	events := []ledger.Event{
		c.Ledger.NewEvent("run.cancel_requested", run.ID, "", nil),
		c.Ledger.NewEvent("run.ended", run.ID, "", statusEvent{subagent.Aborted, next.Reason}),
	}
	if err := c.Ledger.Emit(ctx, run.Owner, events...); err != nil {
		c.Log.WarnContext(ctx, "events lost", "run_id", run.ID, "error", err)
	}
	return next, nil
}

type statusEvent struct {
	Status subagent.Status `json:"status"`
	Reason string          `json:"reason,omitempty"`
}

const maxReason = 200

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// cancelDescendants cancels whatever stands below the run, top down. One whose row
// comes only later sees the cancel before its first step (executor).
func (c *Control) cancelDescendants(ctx context.Context, run subagent.Run) error {
	family, err := c.outstanding(ctx, run.Owner)
	if err != nil {
		return err
	}
	family = slices.DeleteFunc(family, func(r subagent.Run) bool { return !slices.Contains(r.Lineage(), run.ID) })
	slices.SortStableFunc(family, func(a, b subagent.Run) int { return len(a.Ancestors) - len(b.Ancestors) })
	for _, child := range family {
		ended, err := c.cancelOne(ctx, child, c.below)
		if err != nil {
			return err
		}
		if err := c.Courier.Deliver(ctx, delivery.Parcel{Run: ended, Slot: subagent.Finish}); err != nil {
			return err
		}
	}
	return nil
}

// outstanding reads the rows of the conversation's reserved runs.
func (c *Control) outstanding(ctx context.Context, o subagent.Owner) ([]subagent.Run, error) {
	b, err := c.Ledger.Backbone(ctx, o)
	if err != nil {
		return nil, err
	}
	return c.Ledger.Runs(ctx, o, b.Runs())
}

// Active lists the conversation's runs that have not ended, oldest first.
func (c *Control) Active(ctx context.Context, o subagent.Owner) ([]subagent.Run, error) {
	rows, err := c.outstanding(ctx, o)
	if err != nil {
		return nil, err
	}
	rows = slices.DeleteFunc(rows, func(r subagent.Run) bool { return !r.Status.Live() })
	slices.SortStableFunc(rows, func(a, b subagent.Run) int { return int(a.DispatchedAt - b.DispatchedAt) })
	return rows, nil
}

// FollowUp puts a user's message into the inbox of a live run. Errors: agent.ErrNoRun,
// agent.ErrRunEnded.
func (c *Control) FollowUp(ctx context.Context, o subagent.Owner, id, text string) error {
	return c.Tell(ctx, o, id, ledger.InboxMessage{ID: c.Ledger.Nonce(), Source: "user"}, text)
}

// Tell puts a follow-up into the inbox of a live run: m says who sends it and under which
// id, and the same id is put there once. Errors: agent.ErrNoRun, agent.ErrRunEnded.
func (c *Control) Tell(ctx context.Context, o subagent.Owner, id string, m ledger.InboxMessage, text string) error {
	run, err := c.Run(ctx, o, id)
	if err != nil {
		return err
	}
	if m.Text, err = c.Ledger.StoreValue(ctx, o, text); err != nil {
		return err
	}
	m.ID, m.At = "followup:"+m.ID, subagent.At(c.Ledger.Now())
	put, err := delivery.PutInbox(ctx, c.Ledger, run, m)
	if err == nil && !put {
		err = fmt.Errorf("%w: %s", agent.ErrRunEnded, id)
	}
	return err
}

// Redrive opens a dead-lettered slot again and delivers it; an empty slot means
// whichever is dead. Errors: agent.ErrNoRun, ErrNothingToRedrive.
func (c *Control) Redrive(ctx context.Context, o subagent.Owner, id string, slot subagent.Slot) (subagent.Run, error) {
	run, err := c.Run(ctx, o, id)
	if err != nil {
		return run, err
	}
	if slot == "" {
		slot = subagent.Finish
		if run.Finish.State != subagent.Dead && run.GiveUp.State == subagent.Dead {
			slot = subagent.GiveUp
		}
	}
	seen := run.Redrives
	if run.Delivery(slot).State == subagent.Dead {
		// It becomes outstanding again, so it must have a place before.
		if err := c.Dispatcher.Reserve(ctx, run, seen+1); err != nil {
			return run, err
		}
	}
	run, outcome, err := c.Ledger.UpdateRun(ctx, run, func(r subagent.Run) (subagent.Run, subagent.Outcome) {
		return r.Redrive(slot, seen, c.Ledger.Now())
	})
	if err != nil {
		return run, err
	}
	if outcome != subagent.Apply {
		return run, fmt.Errorf("%w (%s of %s is %s)", ErrNothingToRedrive, slot, id, state(run.Delivery(slot).State))
	}
	c.Log.InfoContext(ctx, "slot redriven", "run_id", id, "slot", slot)
	// Once more: if we were slow, a tick may have taken the place for abandoned.
	if err := c.Dispatcher.Reserve(ctx, run, run.Redrives); err != nil {
		return run, err
	}
	return run, c.Courier.Deliver(ctx, delivery.Parcel{Run: run, Slot: slot, Attempt: fmt.Sprintf("redrive-%d", run.Redrives)})
}

func state(s subagent.SlotState) string {
	if s == subagent.Open {
		return "open"
	}
	return string(s)
}

// Clear ends every run of the conversation without telling it, then deletes its rows.
// The backbone stays, disarmed: its epoch must never begin again.
func (c *Control) Clear(ctx context.Context, o subagent.Owner) error {
	rows, err := c.outstanding(ctx, o)
	if err != nil {
		return err
	}
	for _, row := range rows {
		if row.Status == "" || row.Status == subagent.Void {
			continue
		}
		next, outcome, err := c.Ledger.UpdateRun(ctx, row, func(r subagent.Run) (subagent.Run, subagent.Outcome) {
			return r.Clear(c.Ledger.Now())
		})
		if err != nil {
			return err
		}
		if outcome != subagent.Apply {
			continue
		}
		if c.Changed != nil {
			c.Changed(next)
		}
		c.Courier.Hook(ctx, next)
		if _, _, err := c.Ledger.UpdateBackbone(ctx, o, subagent.Backbone{}, func(b subagent.Backbone) (subagent.Backbone, subagent.Outcome) {
			return b.Close(next)
		}); err != nil {
			return err
		}
	}
	return c.Ledger.Erase(ctx, o)
}
