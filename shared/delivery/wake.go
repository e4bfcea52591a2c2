package delivery

import (
	"context"
	"fmt"

	"github.com/errand-dev/errand/shared/ledger"
	"github.com/errand-dev/errand/shared/subagent"
)

// wakeForEnd wakes whoever waits for the end of the run.
func (c *Courier) wakeForEnd(ctx context.Context, l *ledger.Ledger, p Parcel) error {
	if p.Run.Awaited && p.Run.Parent != "" {
		if err := l.SendJob(ctx, subagent.Run{Owner: p.Run.Owner, ID: p.Run.Parent}, subagent.Backbone{}, 0); err != nil {
			return err
		}
	}
	return c.wakeWaiters(ctx, l, p.Run, p.Attempt+string(p.Slot))
}

// wakeWaiters wakes those who watch the run, after a milestone or its end. cause tells this
// wake from others of the same run. One that is not needed changes nothing.
func (c *Courier) wakeWaiters(ctx context.Context, l *ledger.Ledger, r subagent.Run, cause string) error {
	for _, waiter := range r.Waiters {
		if err := wake(ctx, l, r.Owner, waiter, fmt.Sprintf("%s:%d:%s", r.ID, r.Milestones, cause)); err != nil {
			return err
		}
	}
	return nil
}

func wake(ctx context.Context, l *ledger.Ledger, o subagent.Owner, waiter, cause string) error {
	if turn, ok := subagent.PlacedTurn(waiter); ok {
		return l.SendTurn(ctx, subagent.Turn{Owner: o, ID: turn}, "wake:"+cause)
	}
	return l.SendJob(ctx, subagent.Run{Owner: o, ID: waiter}, subagent.Backbone{}, 0)
}
