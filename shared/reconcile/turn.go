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
		gone, due, err := r.lookAfter(ctx, w, turn)
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

// lookAfter wakes a turn whose wait is over, and reports whether its place in the backbone
// can go: it has given up its place in the conversation. due is when its time has come.
func (r *Reconciler) lookAfter(ctx context.Context, w ledger.Wake, turn string) (gone bool, due subagent.Time, err error) {
	c, err := r.Ledger.Conversation(ctx, w.Owner)
	if err != nil {
		return false, 0, err
	}
	if next, ok := c.Next(); ok {
		return true, 0, r.wakeTurn(ctx, w, subagent.Turn{Owner: w.Owner, ID: next})
	}
	if !c.Waits(turn) {
		return c.Turn != turn, 0, nil
	}
	row, err := r.Ledger.Turn(ctx, w.Owner, turn)
	if err != nil {
		return false, 0, err
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
