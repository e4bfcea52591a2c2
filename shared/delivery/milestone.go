package delivery

import (
	"context"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/ledger"
	"github.com/errand-dev/errand/shared/subagent"
)

// MilestoneID is the deterministic id of a milestone's message. It is made of the
// name, not the sequence: a name that is reached twice is told once.
func MilestoneID(run, name string) string {
	return "detached-ms:" + shorten(run) + ":" + shorten(name)
}

// TellMilestones delivers the milestones that the run wants told, from the first
// that was not offered yet, and notes how far it came. The executor calls it warm, the
// tick when the executor died in between.
func (c *Courier) TellMilestones(ctx context.Context, r subagent.Run, attempt string) (subagent.Run, error) {
	if !untold(r) {
		return r, nil
	}
	err := c.Ledger.Atomically(ctx, func(l *ledger.Ledger) error {
		next, err := c.tellMilestones(ctx, l, r, attempt)
		if err == nil {
			r = next
		}
		return err
	})
	return r, err
}

func untold(r subagent.Run) bool {
	return (len(r.Notice.Milestones) > 0 || len(r.Waiters) > 0) && r.MilestonesTold < r.Milestones
}

func (c *Courier) tellMilestones(ctx context.Context, l *ledger.Ledger, r subagent.Run, attempt string) (subagent.Run, error) {
	if !untold(r) {
		return r, nil
	}
	reached, err := l.Milestones(ctx, ledger.LifeOf(r), r.MilestonesTold)
	if err != nil || len(reached) == 0 {
		return r, err
	}
	p := Parcel{Run: r, Attempt: attempt}
	for _, m := range reached {
		if r.Notice.Wants(m.Name) {
			if err := c.tellMilestone(ctx, l, r, m, &p); err != nil {
				return r, err
			}
		}
	}
	if err := c.wakeWaiters(ctx, l, r, "milestone"+attempt); err != nil {
		return r, err
	}
	told := r.MilestonesTold + len(reached)
	next, _, err := l.UpdateRun(ctx, r, func(r subagent.Run) (subagent.Run, subagent.Outcome) {
		switch {
		case r.Status == "" || r.Status == subagent.Void:
			return r, subagent.Absent
		case r.MilestonesTold >= told:
			return r, subagent.Mine
		}
		r.MilestonesTold = told
		return r, subagent.Apply
	})
	if err != nil {
		return r, err
	}
	return next, c.emit(ctx, l, p)
}

func (c *Courier) tellMilestone(ctx context.Context, l *ledger.Ledger, r subagent.Run, m ledger.Milestone, p *Parcel) error {
	text := c.milestoneText(ctx, r, agent.Milestone{Name: m.Name, Sequence: m.Sequence, At: m.At.Time(), Data: m.Data})
	if text == "" {
		return nil
	}
	turn := c.newTurn(l, r, MilestoneID(r.ID, m.Name))
	turn.Kind, turn.Milestone = subagent.MilestoneTurn, m.Name
	if !r.Notice.React {
		turn.Mode = subagent.Narrate
	}
	return c.tell(ctx, l, p, turn, text, p.Run.Lineage())
}
