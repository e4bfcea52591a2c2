package reconcile

import (
	"context"

	"github.com/errand-dev/errand/shared/delivery"
	"github.com/errand-dev/errand/shared/ledger"
	"github.com/errand-dev/errand/shared/subagent"
)

// act carries out one decision. again asks to decide once more on the new row.
func (r *Reconciler) act(ctx context.Context, row subagent.Run, action subagent.Action, reason, attempt string) (next subagent.Run, again bool, err error) {
	now, terms := r.Ledger.Now(), r.Ledger.Terms
	switch action {
	case subagent.GiveUpNow:
		return r.apply(ctx, row, "run.given_up", ended{Reason: reason}, func(x subagent.Run) (subagent.Run, subagent.Outcome) {
			return x.Interrupt(reason, row, now, terms)
		})
	case subagent.FailNow:
		problem := "every executor that worked on it died"
		return r.apply(ctx, row, "run.ended", ended{Status: subagent.Error, Reason: reason}, func(x subagent.Run) (subagent.Run, subagent.Outcome) {
			return x.Fail(reason, problem, row.Exec.Epoch, now)
		})
	case subagent.ResendJob:
		return row, false, r.Ledger.SendJob(ctx, row, subagent.Backbone{}, 0)
	case subagent.Wake:
		return row, false, r.wake(ctx, row)
	case subagent.SendFinish:
		return r.deliver(ctx, row, subagent.Finish, attempt)
	case subagent.SendGiveUp:
		return r.deliver(ctx, row, subagent.GiveUp, attempt)
	case subagent.BuryFinish:
		return r.bury(ctx, row, subagent.Finish)
	case subagent.BuryGiveUp:
		return r.bury(ctx, row, subagent.GiveUp)
	case subagent.Silence:
		return r.apply(ctx, row, "", nil, func(x subagent.Run) (subagent.Run, subagent.Outcome) { return x.CloseSilently(now) })
	case subagent.Stop:
		return r.apply(ctx, row, "", nil, func(x subagent.Run) (subagent.Run, subagent.Outcome) { return x.StopWatching(now, terms) })
	}
	return row, false, nil
}

type ended struct {
	Status subagent.Status `json:"status,omitempty"`
	Reason string          `json:"reason,omitempty"`
}

func (r *Reconciler) apply(ctx context.Context, row subagent.Run, event string, data any, rule func(subagent.Run) (subagent.Run, subagent.Outcome)) (subagent.Run, bool, error) {
	next, outcome, err := r.Ledger.UpdateRun(ctx, row, rule)
	if err == nil && outcome == subagent.Apply {
		r.Log.InfoContext(ctx, "run reconciled", "run_id", row.ID, "status", next.Status, "reason", next.Reason, "finish", next.Finish.State)
		if r.Changed != nil {
			r.Changed(next)
		}
		if event != "" {
			r.emit(ctx, row.Owner, r.Ledger.NewEvent(event, row.ID, "", data))
		}
	}
	return next, true, err
}

// deliver sends what is owed and reads what became of it: a message is delivered at
// once, a handler's turn has yet to come.
func (r *Reconciler) deliver(ctx context.Context, row subagent.Run, slot subagent.Slot, attempt string) (subagent.Run, bool, error) {
	if err := r.Courier.Deliver(ctx, delivery.Parcel{Run: row, Slot: slot, Attempt: attempt}); err != nil {
		return row, false, err
	}
	next, err := r.Ledger.Run(ctx, row.Owner, row.ID)
	return next, err == nil && next.Version != row.Version, err
}

func (r *Reconciler) bury(ctx context.Context, row subagent.Run, slot subagent.Slot) (subagent.Run, bool, error) {
	return r.apply(ctx, row, "delivery.dead_lettered", delivery.SlotEvent{Slot: slot, Status: row.Status, Attempt: row.Delivery(slot).Attempts},
		func(x subagent.Run) (subagent.Run, subagent.Outcome) {
			return x.Bury(slot, r.Ledger.Now(), r.Ledger.Terms)
		})
}

// wake sends the job of a waiting run whose wait is over: its time has come, or the signal
// of what it waited for was lost.
func (r *Reconciler) wake(ctx context.Context, row subagent.Run) error {
	over, err := r.Ledger.Over(ctx, ledger.LifeOf(row), row.Wait)
	if err != nil || !over {
		return err
	}
	return r.Ledger.SendJob(ctx, row, subagent.Backbone{}, 0)
}

// Repair sends a tick with the epoch as read, and writes nothing: for a backbone whose
// tick was lost by the platform. It is harmless when the tick was not lost.
func (r *Reconciler) Repair(ctx context.Context, o subagent.Owner) error {
	b, err := r.Ledger.Backbone(ctx, o)
	if err != nil || !b.Armed {
		return err
	}
	return r.Ledger.SendTick(ctx, o, b.Epoch, b.Rung, 0)
}
