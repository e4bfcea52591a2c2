package executor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/ledger"
	"github.com/errand-dev/errand/shared/subagent"
)

// A turn that waits keeps its place, and its message goes. So does the message of a turn
// that comes meanwhile: the conversation's row keeps their order, and each turn that ends
// wakes the next one. Two things look after the turn that waits, and those behind it: the
// wakes of what it waits for, and the ticks, since it has a place in the backbone.

// errParked: the turn's message can go, the turn has its place later.
var errParked = errors.New("the turn is parked")

// maintenanceLook is how often a turn looks whether its agent's maintenance is over.
const maintenanceLook = 30 * time.Second

// maintained suspends the turn while its agent is in maintenance: it keeps its place, and its
// message does not use up its receives.
func (h *hold) maintained(ctx context.Context) error {
	held, err := h.Controls.Holding(ctx, h.place().Agent)
	if err != nil || !held {
		return err
	}
	h.mu.Lock()
	h.wait = subagent.Wait{Until: subagent.At(h.Ledger.Now().Add(maintenanceLook))}
	h.mu.Unlock()
	h.note(h.Ledger.NewEvent("turn.waiting", h.turn.Run, h.turn.ID, maintenanceShown{Maintenance: true}))
	h.cancel(agent.ErrSuspended)
	return agent.ErrSuspended
}

type maintenanceShown struct {
	Maintenance bool `json:"maintenance"`
}

// suspend lets the turn wait without a process.
func (h *hold) suspend(ctx context.Context) error {
	h.mu.Lock()
	wait := h.wait
	h.mu.Unlock()
	if err := h.watch(ctx, h.turn.Owner, wait, subagent.TurnPlace(h.turn.ID)); err != nil {
		return h.again(ctx, time.Second, err)
	}
	h.emit(ctx, h.turn.Owner, h.notes()...)
	// First, since its message may be at its last receive: from here on a tick goes on with
	// the turn whatever becomes of us.
	if err := h.Dispatcher.ReserveTurn(ctx, h.turn.Owner, h.turn.ID, wait.Until); err != nil {
		return h.again(ctx, time.Second, err)
	}
	c, outcome, err := h.Ledger.UpdateConversation(ctx, h.place(), func(c subagent.Conversation) (subagent.Conversation, subagent.Outcome) {
		return c.Suspend(h.token, wait)
	})
	if err != nil {
		return h.again(ctx, time.Second, err)
	}
	if !outcome.OK() {
		return &RetryError{Err: fmt.Errorf("turn %s: %w", h.turn.ID, agent.ErrLeaseLost)}
	}
	// What came before the row said that the turn waits found nobody to wake.
	over, err := h.Ledger.Over(ctx, ledger.LifeOfTurn(h.turn), c.Wait)
	if err != nil || !over {
		return err
	}
	return h.Ledger.SendTurn(ctx, h.turn, "over-"+h.Ledger.Nonce())
}

// keepWaiting makes sure that ticks look after a turn that waits, before the message goes that
// has found it so, and reports whether the wait is over.
func (e *Executor) keepWaiting(ctx context.Context, c subagent.Conversation, t subagent.Turn) (over bool, err error) {
	if err := e.Dispatcher.ReserveTurn(ctx, t.Owner, t.ID, c.Wait.Until); err != nil {
		return false, err
	}
	return e.Ledger.Over(ctx, ledger.LifeOfTurn(t), c.Wait)
}

// fullReceives is how often the message of a turn for which the row has no room is handed out
// before another takes its place at the end of the queue.
const fullReceives = 3

// park reports whether the turn now stands in the row, in the order in which it came.
func (h *hold) park(ctx context.Context, seen subagent.Conversation) (bool, error) {
	c, outcome, err := h.Ledger.UpdateConversation(ctx, seen, func(c subagent.Conversation) (subagent.Conversation, subagent.Outcome) {
		return c.Park(h.turn.ID)
	})
	switch {
	case err != nil:
		return false, err
	case outcome == subagent.Full && h.receives < fullReceives:
		return false, &RetryError{After: time.Second, Err: fmt.Errorf("turn %s: %d turns wait before it", h.turn.ID, len(c.Parked))}
	case outcome == subagent.Full:
		// The wakes that make room may stand behind it in the queue: it goes to the end.
		return true, h.Ledger.SendTurn(ctx, h.turn, "full-"+h.Ledger.Nonce())
	case !outcome.OK():
		return false, nil
	}
	// The wake of the first one may be lost, or have become a dead letter.
	return true, h.wakeNext(ctx, h.Ledger, c)
}

// wakeNext wakes the first of the turns that were parked, if the place is free.
func (e *Executor) wakeNext(ctx context.Context, l *ledger.Ledger, c subagent.Conversation) error {
	next, ok := c.Next()
	if !ok {
		return nil
	}
	return l.SendTurn(ctx, subagent.Turn{Owner: c.Owner, ID: next}, "next-"+l.Nonce())
}

// followOn does what the end of a turn that waited owes: the next turn comes or, if none is
// parked, its place in the backbone goes. Else a tick takes that away later.
func (h *hold) followOn(ctx context.Context, l *ledger.Ledger, left subagent.Conversation) error {
	if h.waited && len(left.Parked) == 0 {
		_, _, err := l.UpdateBackbone(ctx, h.turn.Owner, subagent.Backbone{}, func(b subagent.Backbone) (subagent.Backbone, subagent.Outcome) {
			return b.Settle(subagent.TurnPlace(h.turn.ID), 0)
		})
		if err != nil {
			return err
		}
	}
	return h.wakeNext(ctx, l, left)
}
