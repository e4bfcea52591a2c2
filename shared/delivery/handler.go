package delivery

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/ledger"
	"github.com/errand-dev/errand/shared/subagent"
)

// errClaimLost is the cause that stops a handler whose claim is no longer its own.
var errClaimLost = errors.New("the claim of the slot was lost")

// Claimed is a slot whose handler may be called: Call must follow.
type Claimed struct {
	run   subagent.Run
	slot  subagent.Slot
	token string
}

// Take claims the slot that the turn names, at the head of the conversation. It
// returns nil if the slot is not ours to deliver: it is closed, superseded, or another
// has it. l may be a view, so that the claim becomes durable with the turn's place.
func (c *Courier) Take(ctx context.Context, l *ledger.Ledger, t subagent.Turn) (*Claimed, error) {
	token := l.Token()
	run, outcome, err := l.UpdateRun(ctx, subagent.Run{Owner: t.Owner, ID: t.Run}, func(r subagent.Run) (subagent.Run, subagent.Outcome) {
		if r.Status == "" {
			return r, subagent.Absent
		}
		return r.Take(t.Slot, token, l.Now(), l.Terms)
	})
	if err != nil {
		return nil, err
	}
	if !outcome.OK() {
		c.Log.InfoContext(ctx, "slot is not ours to deliver", "run_id", t.Run, "slot", t.Slot, "outcome", outcome.String())
		return nil, nil
	}
	return &Claimed{run, t.Slot, token}, nil
}

// Call calls hook and handler under the claim. Its outcome is written by the returned
// function, on a ledger or a view of it: the slot is delivered, or the claim released. A
// handler's failure is kept in the ledger and is no error: the tick tries again after a
// pause, and the conversation goes on.
func (c *Courier) Call(ctx context.Context, s *Claimed) (settle func(context.Context, *ledger.Ledger) error) {
	// Told together with what becomes of it: a write less.
	claimed := c.Ledger.NewEvent("delivery.claimed", s.run.ID, "", SlotEvent{Slot: s.slot, Attempt: s.run.Delivery(s.slot).Attempts})
	if err := c.callHolding(ctx, s.run, s.slot, s.token); err != nil {
		return func(ctx context.Context, l *ledger.Ledger) error { return c.failed(ctx, l, s, err, claimed) }
	}
	return func(ctx context.Context, l *ledger.Ledger) error { return c.handled(ctx, l, s, claimed) }
}

// callHolding calls hook and handler under the claim, renewing it. Their context ends
// when the claim is lost or about to run out.
func (c *Courier) callHolding(ctx context.Context, run subagent.Run, slot subagent.Slot, token string) error {
	d, err := c.delivery(ctx, run, slot)
	if err != nil {
		return err
	}
	if c.Ledger.Terms.Late(run.Claim.Until, c.Ledger.Now()) {
		return errClaimLost
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	renewed := make(chan struct{})
	go func() {
		defer close(renewed)
		c.renew(ctx, cancel, run, slot, token)
	}()
	c.hook(ctx, Parcel{Run: run, Slot: slot})
	err = c.handle(ctx, run.Notice.Handler, d)
	cancel(nil)
	<-renewed
	if cause := context.Cause(ctx); errors.Is(cause, errClaimLost) {
		return cause
	}
	return err
}

func (c *Courier) handle(ctx context.Context, name string, d agent.Delivery) error {
	handler, found := c.Agents.Handler(name)
	switch {
	case !found:
		// The name was known at dispatch and is no more: nothing can be called, now or later.
		c.Log.WarnContext(ctx, "handler is gone", "run_id", d.Run.ID, "handler", name)
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	_, err := agent.Protect(func() (any, error) { return nil, handler(ctx, d) })
	return err
}

func (c *Courier) renew(ctx context.Context, cancel context.CancelCauseFunc, run subagent.Run, slot subagent.Slot, token string) {
	terms := c.Ledger.Terms
	timer := time.NewTimer(terms.RenewEvery())
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		within, done := context.WithTimeout(ctx, terms.BeatTimeout())
		next, outcome, err := c.Ledger.UpdateRun(within, run, func(r subagent.Run) (subagent.Run, subagent.Outcome) {
			return r.RenewClaim(slot, token, c.Ledger.Now(), terms)
		})
		done()
		if err == nil {
			run = next
		}
		pause, stop := terms.Beat(run.Claim.Until, err != nil, c.Ledger.Now())
		if stop || err == nil && !outcome.OK() {
			cancel(errClaimLost)
			return
		}
		timer.Reset(pause)
	}
}

func (c *Courier) handled(ctx context.Context, l *ledger.Ledger, s *Claimed, claimed ledger.Event) error {
	next, outcome, err := l.UpdateRun(ctx, s.run, func(r subagent.Run) (subagent.Run, subagent.Outcome) {
		return r.Mark(s.slot, s.token, l.Now())
	})
	if err != nil {
		return err
	}
	p := Parcel{Run: next, Slot: s.slot, Events: []ledger.Event{claimed}}
	if outcome == subagent.Apply {
		p.Events = append(p.Events, l.NewEvent("delivery.delivered", s.run.ID, "", s.event("")))
	}
	return c.close(ctx, l, p, next)
}

func (c *Courier) failed(ctx context.Context, l *ledger.Ledger, s *Claimed, cause error, claimed ledger.Event) error {
	attempts := s.run.Delivery(s.slot).Attempts
	c.Log.WarnContext(ctx, "handler failed", "run_id", s.run.ID, "slot", s.slot, "handler", s.run.Notice.Handler, "attempt", attempts, "error", cause)
	next, outcome, err := l.UpdateRun(ctx, s.run, func(r subagent.Run) (subagent.Run, subagent.Outcome) {
		return r.Release(s.slot, s.token, l.Now(), subagent.Backoff(attempts))
	})
	if err != nil || outcome != subagent.Apply {
		return err
	}
	data := s.event(cause.Error())
	p := Parcel{Run: next, Slot: s.slot, Events: []ledger.Event{claimed, l.NewEvent("delivery.failed", s.run.ID, "", data)}}
	if next.Delivery(s.slot).State == subagent.Dead {
		p.Events = append(p.Events, l.NewEvent("delivery.dead_lettered", s.run.ID, "", data))
	}
	return c.close(ctx, l, p, next)
}

func (s *Claimed) event(problem string) SlotEvent {
	return SlotEvent{Slot: s.slot, Status: s.run.Status, Handler: s.run.Notice.Handler, Attempt: s.run.Delivery(s.slot).Attempts, Error: problem}
}

// hook calls the metering hook, for most of a lease at most; its error is logged and goes
// no further.
func (c *Courier) hook(ctx context.Context, p Parcel) {
	if c.Agents.OnFinish == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, c.Ledger.Terms.Lease-c.Ledger.Terms.Margin)
	defer cancel()
	d, err := c.delivery(ctx, p.Run, p.Slot)
	if err == nil {
		_, err = agent.Protect(func() (any, error) { return nil, c.Agents.OnFinish(ctx, d) })
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
