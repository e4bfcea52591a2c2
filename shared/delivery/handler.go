package delivery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/ledger"
	"github.com/errand-dev/errand/shared/subagent"
)

// errClaimLost is the cause that stops a handler whose claim is no longer its own.
var errClaimLost = errors.New("the claim of the slot was lost")

// Handle calls the named handler for the slot that the turn names, at the head of
// the conversation. It reports whether the slot is closed now. A handler's failure is
// kept in the ledger, not returned: the tick tries again after a pause, and the
// conversation goes on.
func (c *Courier) Handle(ctx context.Context, t subagent.Turn) error {
	token := c.Ledger.Token()
	run, outcome, err := c.Ledger.UpdateRun(ctx, subagent.Run{Owner: t.Owner, ID: t.Run}, func(r subagent.Run) (subagent.Run, subagent.Outcome) {
		if r.Status == "" {
			return r, subagent.Absent
		}
		return r.Take(t.Slot, token, c.Ledger.Now(), c.Ledger.Terms)
	})
	if err != nil {
		return err
	}
	if !outcome.OK() {
		c.Log.InfoContext(ctx, "slot is not ours to deliver", "run_id", t.Run, "slot", t.Slot, "outcome", outcome.String())
		return nil
	}
	// Told together with what becomes of it: a write less.
	claimed := c.Ledger.NewEvent("delivery.claimed", run.ID, "", SlotEvent{Slot: t.Slot, Attempt: run.Delivery(t.Slot).Attempts})
	if err := c.callHolding(ctx, run, t.Slot, token); err != nil {
		return c.failed(ctx, run, t.Slot, token, err, claimed)
	}
	return c.handled(ctx, run, t.Slot, token, claimed)
}

// callHolding calls hook and handler under the claim, renewing it. The handler's
// context ends when the claim is lost or about to run out.
func (c *Courier) callHolding(ctx context.Context, run subagent.Run, slot subagent.Slot, token string) error {
	handler, found := c.Agents.Handler(run.Agent, run.Notice.Handler)
	c.hook(ctx, Parcel{Run: run, Slot: slot})
	if !found {
		// The name was known at dispatch and is no more: nothing can be called, now or later.
		c.Log.WarnContext(ctx, "handler is gone", "run_id", run.ID, "handler", run.Notice.Handler)
		return nil
	}
	d, err := c.delivery(ctx, run, slot)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	renewed := make(chan struct{})
	go func() {
		defer close(renewed)
		c.renew(ctx, cancel, run, slot, token)
	}()
	err = protect(func() error { return handler(ctx, d) })
	cancel(nil)
	<-renewed
	if cause := context.Cause(ctx); errors.Is(cause, errClaimLost) {
		return cause
	}
	return err
}

func (c *Courier) renew(ctx context.Context, cancel context.CancelCauseFunc, run subagent.Run, slot subagent.Slot, token string) {
	ticker := time.NewTicker(c.Ledger.Terms.RenewEvery())
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		next, outcome, err := c.Ledger.UpdateRun(ctx, run, func(r subagent.Run) (subagent.Run, subagent.Outcome) {
			return r.RenewClaim(slot, token, c.Ledger.Now(), c.Ledger.Terms)
		})
		late := subagent.At(c.Ledger.Now()) >= run.Claim.Until.Add(-c.Ledger.Terms.Margin)
		if err == nil && !outcome.OK() || err != nil && late {
			cancel(errClaimLost)
			return
		}
		if err == nil {
			run = next
		}
	}
}

func (c *Courier) handled(ctx context.Context, run subagent.Run, slot subagent.Slot, token string, claimed ledger.Event) error {
	return c.Ledger.Atomically(ctx, func(l *ledger.Ledger) error {
		next, outcome, err := l.UpdateRun(ctx, run, func(r subagent.Run) (subagent.Run, subagent.Outcome) {
			return r.Mark(slot, token, l.Now())
		})
		if err != nil {
			return err
		}
		p := Parcel{Run: next, Slot: slot, Events: []ledger.Event{claimed}}
		if outcome == subagent.Apply {
			p.Events = append(p.Events, l.NewEvent("delivery.delivered", run.ID, "",
				SlotEvent{Slot: slot, Status: run.Status, Handler: run.Notice.Handler, Attempt: run.Delivery(slot).Attempts}))
		}
		return c.close(ctx, l, p, next)
	})
}

func (c *Courier) failed(ctx context.Context, run subagent.Run, slot subagent.Slot, token string, cause error, claimed ledger.Event) error {
	// The handler's context may have ended; its failure must be kept all the same.
	ctx = context.WithoutCancel(ctx)
	attempts := run.Delivery(slot).Attempts
	c.Log.WarnContext(ctx, "handler failed", "run_id", run.ID, "slot", slot, "handler", run.Notice.Handler, "attempt", attempts, "error", cause)
	return c.Ledger.Atomically(ctx, func(l *ledger.Ledger) error {
		next, outcome, err := l.UpdateRun(ctx, run, func(r subagent.Run) (subagent.Run, subagent.Outcome) {
			return r.Release(slot, token, l.Now(), subagent.Backoff(attempts))
		})
		if err != nil || outcome != subagent.Apply {
			return err
		}
		data := SlotEvent{Slot: slot, Status: run.Status, Handler: run.Notice.Handler, Attempt: attempts, Error: cause.Error()}
		p := Parcel{Run: next, Slot: slot, Events: []ledger.Event{claimed, l.NewEvent("delivery.failed", run.ID, "", data)}}
		if next.Delivery(slot).State == subagent.Dead {
			p.Events = append(p.Events, l.NewEvent("delivery.dead_lettered", run.ID, "", data))
		}
		return c.close(ctx, l, p, next)
	})
}

// hookHolding calls the hook before a delivery that needs no handler. The claim, which
// a message alone would not need, keeps two deliverers from calling it at the same
// time; taken reports whether we got it. It ends when the slot is marked.
func (c *Courier) hookHolding(ctx context.Context, p Parcel) (run subagent.Run, taken bool, err error) {
	token, terms := c.Ledger.Token(), c.Ledger.Terms
	run, outcome, err := c.Ledger.UpdateRun(ctx, p.Run, func(r subagent.Run) (subagent.Run, subagent.Outcome) {
		if r.Status == "" {
			return r, subagent.Absent
		}
		return r.Take(p.Slot, token, c.Ledger.Now(), terms)
	})
	if err != nil || !outcome.OK() {
		return run, false, err
	}
	within, cancel := context.WithTimeout(ctx, terms.Lease-terms.Margin)
	defer cancel()
	c.hook(within, Parcel{Run: run, Slot: p.Slot})
	return run, true, nil
}

// hook calls the metering hook; its error is logged and goes no further.
func (c *Courier) hook(ctx context.Context, p Parcel) {
	if c.Agents.OnFinish == nil {
		return
	}
	d, err := c.delivery(ctx, p.Run, p.Slot)
	if err == nil {
		err = protect(func() error { return c.Agents.OnFinish(ctx, d) })
	}
	if err != nil {
		c.Log.ErrorContext(ctx, "finish hook failed", "run_id", p.Run.ID, "slot", p.Slot, "error", err)
	}
}

// Hook calls the metering hook for a run that ends without a delivery.
func (c *Courier) Hook(ctx context.Context, run subagent.Run) {
	c.hook(ctx, Parcel{Run: run, Slot: subagent.Finish})
}

func (c *Courier) delivery(ctx context.Context, run subagent.Run, slot subagent.Slot) (agent.Delivery, error) {
	d := agent.Delivery{
		ID: deliveryID(run, slot), Slot: slot, Attempt: run.Delivery(slot).Attempts, Run: agent.InfoOf(run),
		Emit: func(ctx context.Context, typ string, data any) error {
			return c.Ledger.Emit(ctx, run.Owner, c.Ledger.NewEvent(typ, run.ID, "", data))
		},
	}
	text, err := c.Ledger.LoadValue(ctx, run.Owner, run.Output)
	if err == nil && text != "" {
		d.Output = json.RawMessage(text)
	}
	return d, err
}

// protect turns a panic of user code into an error.
func protect(call func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return call()
}
