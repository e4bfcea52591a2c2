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
	if len(r.Notice.Milestones) == 0 || r.MilestonesTold >= r.Milestones {
		return r, nil
	}
	reached, err := c.Ledger.Milestones(ctx, r.Owner, r.ID, r.MilestonesTold)
	if err != nil || len(reached) == 0 {
		return r, err
	}
	told := r.MilestonesTold + len(reached)
	err = c.Ledger.Atomically(ctx, func(l *ledger.Ledger) error {
		p := Parcel{Run: r}
		for _, m := range reached {
			if r.Notice.Wants(m.Name) {
				if err := c.tellMilestone(ctx, l, r, m, attempt, &p); err != nil {
					return err
				}
			}
		}
		next, outcome, err := l.UpdateRun(ctx, r, func(r subagent.Run) (subagent.Run, subagent.Outcome) {
			if r.MilestonesTold >= told {
				return r, subagent.Mine
			}
			r.MilestonesTold = told
			return r, subagent.Apply
		})
		if err == nil && outcome.OK() {
			r = next
		}
		if err != nil {
			return err
		}
		return c.emit(ctx, l, p)
	})
	return r, err
}

func (c *Courier) tellMilestone(ctx context.Context, l *ledger.Ledger, r subagent.Run, m ledger.Milestone, attempt string, p *Parcel) error {
	text := c.milestoneText(r, agent.Milestone{Name: m.Name, Sequence: m.Sequence, At: m.At.Time(), Data: m.Data})
	if text == "" {
		return nil
	}
	turn, err := c.newTurn(ctx, l, r, MilestoneID(r.ID, m.Name), text)
	if err != nil {
		return err
	}
	turn.Kind, turn.Milestone = subagent.MilestoneTurn, m.Name
	if !r.Notice.React {
		turn.Mode = subagent.Narrate
	}
	return c.accept(ctx, l, turn, attempt, p)
}
