package executor

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/callback"
	"github.com/errand-dev/errand/shared/ledger"
	"github.com/errand-dev/errand/shared/platform"
	"github.com/errand-dev/errand/shared/subagent"
)

// Wait implements agent.Backend: nil if the wait is over, else the run is suspended and its
// context ends.
func (x *execution) Wait(ctx context.Context, w subagent.Wait) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if slices.ContainsFunc(append(x.row.Lineage(), x.row.ID), func(id string) bool { return slices.Contains(w.Runs, id) }) {
		return agent.ErrWaitsForItself
	}
	if err := x.known(ctx, x.row.Owner, w); err != nil {
		return err
	}
	over, err := x.Ledger.Over(ctx, ledger.LifeOf(*x.row), w)
	if over || err != nil {
		return err
	}
	x.mu.Lock()
	x.wait = w
	x.mu.Unlock()
	x.note(x.Ledger.NewEvent("run.waiting", x.row.ID, "", waitEvent(w)))
	x.cancel(agent.ErrSuspended)
	return agent.ErrSuspended
}

// Wait implements agent.Backend. The conversation stands still while a turn waits, so there
// is a bound.
func (h *hold) Wait(ctx context.Context, w subagent.Wait) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := h.known(ctx, h.turn.Owner, w); err != nil {
		return err
	}
	longest, err := h.longest(ctx, w)
	if err != nil {
		return err
	}
	w.Until = subagent.Earliest(w.Until, longest)
	over, err := h.Ledger.Over(ctx, ledger.LifeOfTurn(h.turn), w)
	if over || err != nil {
		return err
	}
	h.mu.Lock()
	h.wait = w
	h.mu.Unlock()
	h.note(h.Ledger.NewEvent("turn.waiting", h.turn.Run, h.turn.ID, waitEvent(w)))
	h.cancel(agent.ErrSuspended)
	return agent.ErrSuspended
}

// longest journals when a wait ends at the latest: the turn is executed again before it. Each
// wait has its own, so two that differ in nothing but their end are two.
func (h *hold) longest(ctx context.Context, w subagent.Wait) (subagent.Time, error) {
	name, err := json.Marshal(w)
	if err != nil {
		return 0, fmt.Errorf("naming a wait: %w", err)
	}
	raw, err := h.Step(ctx, "#wait:"+ledger.Digest(string(name))[:26], func(context.Context) (json.RawMessage, error) {
		return json.Marshal(subagent.At(h.Ledger.Now().Add(subagent.LongestTurnWait)))
	})
	if err != nil {
		return 0, err
	}
	var until subagent.Time
	if err := json.Unmarshal(raw, &until); err != nil {
		return 0, fmt.Errorf("decoding the journal: %w", err)
	}
	return until, nil
}

// waitShown is the data of run.waiting and turn.waiting events.
type waitShown struct {
	Runs      []string      `json:"runs,omitempty"`
	Need      int           `json:"need,omitempty"`
	Milestone string        `json:"milestone,omitempty"`
	Signal    string        `json:"signal,omitempty"`
	Until     subagent.Time `json:"until_ms,omitempty"`
}

func waitEvent(w subagent.Wait) waitShown {
	return waitShown{w.Runs, w.Need, w.Milestone, w.Signal, w.Until}
}

// known refuses a wait for runs that the conversation does not have.
func (e *Executor) known(ctx context.Context, o subagent.Owner, w subagent.Wait) error {
	rows, err := e.Ledger.Runs(ctx, o, w.Runs)
	if err != nil {
		return err
	}
	for _, r := range rows {
		if r.Status == "" || r.Status == subagent.Void {
			return fmt.Errorf("%w: %s", agent.ErrNoRun, r.ID)
		}
	}
	return nil
}

// watch registers the waiter with the runs that it waits for. A run that has ended is seen
// after the waiter's own row was written.
func (e *Executor) watch(ctx context.Context, o subagent.Owner, w subagent.Wait, waiter string) error {
	for _, id := range w.Runs {
		_, _, err := e.Ledger.UpdateRun(ctx, subagent.Run{Owner: o, ID: id}, func(r subagent.Run) (subagent.Run, subagent.Outcome) {
			if r.Awaited && r.Parent == waiter && w.Milestone == "" {
				return r, subagent.Mine // its end wakes its parent anyway
			}
			return r.Watch(waiter)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// suspend lets the run wait without a process. What it waits for may have come before the
// row said so: the wake then found the lease held.
func (x *execution) suspend(ctx context.Context, wait subagent.Wait) error {
	if err := x.watch(ctx, x.row.Owner, wait, x.row.ID); err != nil {
		return err
	}
	// Whoever sees that the run waits finds in the log what for.
	x.emit(ctx, x.row.Owner, x.notes()...)
	row, outcome, err := x.update(ctx, x.Ledger, func(r subagent.Run) (subagent.Run, subagent.Outcome) {
		return r.HandOn(x.epoch, x.Ledger.Now(), false, 0, wait)
	})
	switch {
	case err != nil:
		return err
	case outcome == subagent.TornDown:
		return x.tearDown(ctx)
	case outcome != subagent.Apply:
		return nil
	}
	over, err := x.Ledger.Over(ctx, ledger.LifeOf(row), wait)
	if err != nil {
		return err
	}
	if over {
		return x.Ledger.SendJob(ctx, row, subagent.Backbone{}, 0)
	}
	left := wait.Until.Time().Sub(x.Ledger.Now())
	if wait.Until == 0 || left > platform.MaxDelay {
		return nil // a tick ends it
	}
	// A tick would end it as well, some seconds late.
	return x.wakeIn(ctx, row, left)
}

// asleep reads the run of a wake, and reports whether its wait is not over: then it is
// not worth an execution.
func (e *Executor) asleep(ctx context.Context, hint subagent.Run) (subagent.Run, bool, error) {
	row, err := e.Ledger.Run(ctx, hint.Owner, hint.ID)
	if err != nil || row.Status != subagent.Waiting {
		return row, false, err
	}
	over, err := e.Ledger.Over(ctx, ledger.LifeOf(row), row.Wait)
	if err != nil || over {
		return row, !over, err
	}
	if left := row.Wait.Until.Time().Sub(e.Ledger.Now()); row.Wait.Until != 0 && left < almost {
		// The wake at its time came early: clocks differ, and queues count in their own units.
		err = e.wakeIn(ctx, row, left)
	}
	return row, true, err
}

// almost is how near the end of a wait another wake is sent for it; else a tick ends it.
const almost = 3 * time.Second

// wakeIn sends a wake for the time when the run's wait ends.
func (e *Executor) wakeIn(ctx context.Context, row subagent.Run, left time.Duration) error {
	return e.Ledger.SendJob(ctx, subagent.Run{Owner: row.Owner, ID: row.ID}, subagent.Backbone{}, max(left, 0)+time.Millisecond)
}

// Signal implements agent.Backend.
func (x *execution) Signal(ctx context.Context, name string) (json.RawMessage, bool, error) {
	return x.signalled(ctx, ledger.LifeOf(*x.row), name)
}

// Signal implements agent.Backend.
func (h *hold) Signal(ctx context.Context, name string) (json.RawMessage, bool, error) {
	return h.signalled(ctx, ledger.LifeOfTurn(h.turn), name)
}

func (e *Executor) signalled(ctx context.Context, of ledger.Life, name string) (json.RawMessage, bool, error) {
	s, err := e.Ledger.Signal(ctx, of, name)
	return s.Body, s.At != 0, err
}

// Ask implements agent.Backend.
func (x *execution) Ask(ctx context.Context, q agent.Question) error {
	known, err := x.Ledger.Ask(ctx, ledger.LifeOf(*x.row), x.question(q))
	if err != nil || known {
		return err
	}
	return x.Emit(ctx, "approval.requested", q)
}

// Ask implements agent.Backend.
func (h *hold) Ask(ctx context.Context, q agent.Question) error {
	known, err := h.Ledger.Ask(ctx, ledger.LifeOfTurn(h.turn), h.question(q))
	if err != nil || known {
		return err
	}
	return h.Emit(ctx, "approval.requested", q)
}

func (e *Executor) question(q agent.Question) ledger.Question {
	return ledger.Question{Name: q.Name, Title: q.Title, Detail: q.Detail, At: subagent.At(e.Ledger.Now()), Until: subagent.At(q.Until)}
}

// Callback implements agent.Backend.
func (x *execution) Callback(ctx context.Context, key string) (string, error) {
	return x.Callbacks.Token(ctx, callback.Target{Owner: x.row.Owner, Run: x.row.ID, Life: x.row.Generation, Key: key})
}

// Callback implements agent.Backend.
func (h *hold) Callback(ctx context.Context, key string) (string, error) {
	return h.Callbacks.Token(ctx, callback.Target{Owner: h.turn.Owner, Turn: h.turn.ID, Life: int64(h.turn.AcceptedAt), Key: key})
}
