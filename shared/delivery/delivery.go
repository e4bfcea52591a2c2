// Package delivery is the one funnel through which a run's end, its give-up and its
// milestones reach whoever is owed them.
//
// A message is delivered by accepting it as a turn of the conversation (or into the
// inbox of the run that dispatched) under an id that the run and its status
// determine: accepting it twice is accepting it once, so the slot needs no claim, and
// it is marked only after the turn that will react to it is durable. A named handler
// has effects that we cannot see; it gets a turn of its own, in which the slot is
// claimed, the handler called and the slot marked with the claim's token.
package delivery

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/ledger"
	"github.com/errand-dev/errand/shared/subagent"
)

// DefaultSource is the source of injected messages whose dispatch named none.
const DefaultSource = "detached-agent-tool"

// Courier delivers.
type Courier struct {
	Ledger *ledger.Ledger
	Agents *agent.Registry
	Log    *slog.Logger
}

// Parcel is one slot of a run to deliver.
type Parcel struct {
	Run  subagent.Run
	Slot subagent.Slot
	// Attempt tells a repeated send from the first, empty one.
	Attempt string
	// Backbone is a hint for closing the run's reservation; it may be zero.
	Backbone subagent.Backbone
	// Events are appended to the log together with the delivery's own.
	Events []ledger.Event
}

// Deliver brings the slot to its receiver, or at least on its way. It may be called
// any number of times, by anyone: a slot that is closed, superseded or not due is left
// alone.
func (c *Courier) Deliver(ctx context.Context, p Parcel) error {
	if p.due() && p.hooked() && c.Agents.OnFinish != nil {
		run, taken, err := c.hookHolding(ctx, p)
		if err != nil {
			return err
		}
		if !taken {
			return c.emit(ctx, c.Ledger, p)
		}
		p.Run = run
	}
	return c.Ledger.Atomically(ctx, func(l *ledger.Ledger) error { return c.DeliverIn(ctx, l, p) })
}

// DeliverIn is Deliver on a view of the ledger, so that it becomes durable together
// with what led to it. It does not call the metering hook. Milestones that were reached
// and not told yet come before the slot: nobody would look for them afterwards.
func (c *Courier) DeliverIn(ctx context.Context, l *ledger.Ledger, p Parcel) error {
	p.Events = slices.Clone(p.Events)
	if p.due() {
		run, err := c.tellMilestones(ctx, l, p.Run, p.Attempt)
		if err != nil {
			return err
		}
		p.Run = run
		// Before the slot is marked: whoever finds it closed looks no further.
		if err := c.wakeForEnd(ctx, l, p); err != nil {
			return err
		}
	}
	switch {
	case !p.due():
		return c.emit(ctx, l, p)
	case p.Run.Awaited:
		return c.inject(ctx, l, p, nil)
	case p.Run.Notice.Handler != "":
		return c.sendToHandler(ctx, l, p)
	case !p.Run.Notice.Message, p.Run.Reason == subagent.ReasonAboveCancelled:
		return c.inject(ctx, l, p, nil)
	}
	return c.inject(ctx, l, p, c.tellEnd)
}

// due reports whether the row, as it was read, owes this delivery.
func (p Parcel) due() bool {
	if p.Run.Delivery(p.Slot).State != subagent.Open {
		return false
	}
	if p.Slot == subagent.GiveUp {
		return p.Run.Status == subagent.Interrupted
	}
	return p.Run.Status.Hard()
}

// hooked reports whether the metering hook is called here, and not with the handler.
func (p Parcel) hooked() bool { return p.Run.Awaited || p.Run.Notice.Handler == "" }

// inject makes the message durable, marks the slot and closes the reservation, in
// this order: each step may be the last that happens.
func (c *Courier) inject(ctx context.Context, l *ledger.Ledger, p Parcel, tell func(context.Context, *ledger.Ledger, *Parcel) error) error {
	if tell != nil {
		if err := tell(ctx, l, &p); err != nil {
			return err
		}
	}
	told := p.Run.Status
	run, outcome, err := l.UpdateRun(ctx, p.Run, func(r subagent.Run) (subagent.Run, subagent.Outcome) {
		if r.Generation != p.Run.Generation {
			return r, subagent.Stale // the id was given to another run since
		}
		return r.MarkInjected(p.Slot, told, l.Now())
	})
	if err != nil {
		return err
	}
	if outcome == subagent.Apply {
		p.Events = append(p.Events, l.NewEvent("delivery.delivered", run.ID, "", SlotEvent{Slot: p.Slot, Status: told}))
	}
	return c.close(ctx, l, p, run)
}

// close removes the reservation of a run whose finish slot is closed, and appends the
// events. The pending tick, now stale, costs one read.
func (c *Courier) close(ctx context.Context, l *ledger.Ledger, p Parcel, run subagent.Run) error {
	if !run.Outstanding() {
		disarmed, err := c.settle(ctx, l, p, run)
		if err != nil {
			return err
		}
		if disarmed {
			p.Events = append(p.Events, l.NewEvent("backbone.disarmed", "", "", nil))
		}
	}
	return c.emit(ctx, l, p)
}

func (c *Courier) settle(ctx context.Context, l *ledger.Ledger, p Parcel, run subagent.Run) (disarmed bool, err error) {
	var before subagent.Backbone
	after, outcome, err := l.UpdateBackbone(ctx, run.Owner, p.Backbone, func(b subagent.Backbone) (subagent.Backbone, subagent.Outcome) {
		before = b
		return b.Close(run)
	})
	return outcome == subagent.Apply && before.Armed && !after.Armed, err
}

func (c *Courier) emit(ctx context.Context, l *ledger.Ledger, p Parcel) error {
	if err := l.Emit(ctx, p.Run.Owner, p.Events...); err != nil {
		c.Log.WarnContext(ctx, "events lost", "run_id", p.Run.ID, "error", err)
	}
	return nil
}

// SlotEvent is the data of delivery events.
type SlotEvent struct {
	Slot    subagent.Slot   `json:"slot"`
	Status  subagent.Status `json:"status,omitempty"`
	Handler string          `json:"handler,omitempty"`
	Attempt int             `json:"attempt,omitempty"`
	Error   string          `json:"error,omitempty"`
}

// MessageID is the deterministic id of a slot's message. The status is part of it: a
// give-up and the late completion are two messages.
func MessageID(run string, status subagent.Status) string {
	return "detached-finish:" + shorten(run) + ":" + string(status)
}

func (c *Courier) tellEnd(ctx context.Context, l *ledger.Ledger, p *Parcel) error {
	text := c.completionText(ctx, p.Run)
	if text == "" {
		return nil
	}
	turn := c.newTurn(l, p.Run, MessageID(p.Run.ID, p.Run.Status))
	turn.Kind, turn.Slot, turn.Told = kindOf(p.Slot), p.Slot, p.Run.Status
	return c.tell(ctx, l, p, turn, text, p.Run.Lineage())
}

// newTurn returns a turn about the run.
func (c *Courier) newTurn(l *ledger.Ledger, r subagent.Run, id string) subagent.Turn {
	return subagent.Turn{
		Owner: r.Owner, ID: id, Status: subagent.Queued, Run: r.ID,
		Source: cmp.Or(r.Notice.Source, DefaultSource), AcceptedAt: subagent.At(l.Now()),
	}
}

// accept makes the turn durable, then wakes the conversation. A turn that is known and
// not done is woken again under another attempt; done reports that it has ended.
func (c *Courier) accept(ctx context.Context, l *ledger.Ledger, t subagent.Turn, p *Parcel) (done bool, err error) {
	stored, known, err := l.CreateTurn(ctx, t)
	if err != nil || known && stored.Done() {
		return err == nil, err
	}
	if !known {
		p.Events = append(p.Events, l.NewEvent("turn.accepted", t.Run, t.ID, TurnEvent{Kind: t.Kind}))
	}
	return false, l.SendTurn(ctx, stored, p.Attempt)
}

// TurnEvent is the data of turn events.
type TurnEvent struct {
	Kind   subagent.TurnKind `json:"kind"`
	Status subagent.Status   `json:"status,omitempty"`
}

func kindOf(s subagent.Slot) subagent.TurnKind {
	if s == subagent.GiveUp {
		return subagent.GiveUpTurn
	}
	return subagent.FinishTurn
}

// sendToHandler sends a turn in which the handler is called. Each claim makes another
// turn id, so that a failed attempt does not stand in the way of the next.
func (c *Courier) sendToHandler(ctx context.Context, l *ledger.Ledger, p Parcel) error {
	if p.Run.Claim.Token == "" && !p.Run.Claim.Free(subagent.At(l.Now()), l.Terms) {
		// A pause after a failure: the tick comes back when it is over.
		return c.emit(ctx, l, p)
	}
	turn := c.newTurn(l, p.Run, fmt.Sprintf("handle:%s:%s:%d", shorten(p.Run.ID), p.Slot, p.Run.Claim.N))
	turn.Kind, turn.Mode, turn.Slot, turn.Told = kindOf(p.Slot), subagent.Handle, p.Slot, p.Run.Status
	done, err := c.accept(ctx, l, turn, &p)
	if err == nil && done && p.Attempt != "" {
		// It ended without taking the claim, because that was held or the turn was given up.
		turn.ID += ":" + p.Attempt
		_, err = c.accept(ctx, l, turn, &p)
	}
	if err != nil {
		return err
	}
	return c.emit(ctx, l, p)
}

// shorten keeps an id that has a prefix before it within the limit of ids.
func shorten(run string) string {
	const longest = subagent.MaxID - 40
	if len(run) <= longest {
		return run
	}
	sum := ledger.Digest(run)
	return run[:longest-len(sum[:16])-1] + "-" + sum[:16]
}

// deliveryID is stable over attempts; a redrive begins a new one.
func deliveryID(r subagent.Run, s subagent.Slot) string {
	id := r.ID + ":" + string(s)
	if r.Redrives > 0 {
		id += ":" + strconv.Itoa(r.Redrives)
	}
	return id
}
