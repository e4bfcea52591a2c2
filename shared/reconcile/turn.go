package reconcile

import (
	"context"
	"fmt"

	"github.com/errand-dev/errand/shared/ledger"
	"github.com/errand-dev/errand/shared/subagent"
)

// surveyTurns looks after the places of turns, and returns those of runs.
func (r *Reconciler) surveyTurns(ctx context.Context, w ledger.Wake, b subagent.Backbone, places []string, s *sight) (runs []string, err error) {
	for _, place := range places {
		turn, ok := subagent.PlacedTurn(place)
		if !ok {
			runs = append(runs, place)
			continue
		}
		gone, due, err := r.lookAfter(ctx, w, b, turn)
		if err != nil {
			if ctx.Err() != nil {
				return nil, err
			}
			r.Log.ErrorContext(ctx, "waiting turn not reconciled", "turn_id", turn, "error", err)
			continue
		}
		if s.due = subagent.Earliest(s.due, due); gone {
			s.gone[place] = b.Open[place].Generation
		}
	}
	return runs, nil
}

// lookAfter wakes a turn whose wait is over, and those that were parked behind it, if nobody
// works on the one before. It reports whether the turn's place in the backbone can go; due is
// when the wait ends at the latest.
func (r *Reconciler) lookAfter(ctx context.Context, w ledger.Wake, b subagent.Backbone, turn string) (gone bool, due subagent.Time, err error) {
	c, err := r.Ledger.Conversation(ctx, w.Owner)
	if err != nil {
		return false, 0, err
	}
	if len(c.Parked) > 0 && (c.Turn == "" || c.Evictable(c.Parked[0], r.Ledger.Now(), r.Ledger.Terms)) {
		return false, 0, r.wakeTurn(ctx, w, subagent.Turn{Owner: w.Owner, ID: c.Parked[0]})
	}
	if c.Turn != turn {
		// Those that are parked need one place to be looked after.
		_, placed := b.Open[subagent.TurnPlace(c.Turn)]
		return len(c.Parked) == 0 || placed, 0, nil
	}
	if !c.Waits(turn) {
		if !c.Exec.Free(subagent.At(r.Ledger.Now()), r.Ledger.Terms) {
			return false, 0, nil
		}
		// It went on and nobody works on it: its message may have become a dead letter.
		return false, 0, r.wakeTurn(ctx, w, subagent.Turn{Owner: w.Owner, ID: turn})
	}
	row, err := r.Ledger.Turn(ctx, w.Owner, turn)
	if err != nil {
		return false, 0, err
	}
	if row.Status == "" { // cleared, in part: the turn gives up the place
		return false, 0, r.wakeTurn(ctx, w, subagent.Turn{Owner: w.Owner, ID: turn})
	}
	over, err := r.Ledger.Over(ctx, ledger.LifeOfTurn(row), c.Wait)
	if err != nil || !over {
		return false, c.Wait.Until, err
	}
	return false, 0, r.wakeTurn(ctx, w, row)
}

func (r *Reconciler) wakeTurn(ctx context.Context, w ledger.Wake, t subagent.Turn) error {
	return r.Ledger.SendTurn(ctx, t, fmt.Sprintf("tick-%d", w.Tick))
}
