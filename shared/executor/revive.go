package executor

import (
	"context"

	"github.com/errand-dev/errand/shared/ledger"
	"github.com/errand-dev/errand/shared/subagent"
)

// revive gives a turn at the last receive of its message a new one, if the executor that
// died over it last had finished a step: what gets further is not what kills executors.
// The journal alone knows, since one that dies writes nothing else.
func (h *hold) revive(ctx context.Context) (bool, error) {
	steps, err := h.Ledger.Steps(ctx, ledger.LifeOfTurn(h.turn))
	if err != nil {
		return false, h.again(ctx, 0, err)
	}
	further := false
	for _, s := range steps {
		further = further || s.At >= h.before
	}
	if err := h.takePlace(ctx); err != nil {
		return false, h.again(ctx, 0, err)
	}
	turn, outcome, err := h.Ledger.UpdateTurn(ctx, h.turn, func(t subagent.Turn) (subagent.Turn, subagent.Outcome) {
		return t.Revive(further, h.Ledger.Terms)
	})
	if err != nil {
		return false, h.again(ctx, 0, err)
	}
	if outcome != subagent.Apply {
		return false, nil
	}
	h.Log.WarnContext(ctx, "turn goes on after its executors died", "turn_id", turn.ID, "revivals", turn.Revivals)
	return true, h.renewMessage(ctx, turn)
}

// takePlace comes before anything else is written at the last receive of the turn's message:
// if we die over it, a tick goes on with the turn.
func (h *hold) takePlace(ctx context.Context) error {
	return h.Dispatcher.ReserveTurn(ctx, h.turn.Owner, h.turn.ID, 0)
}

// renewMessage gives the turn a new message, for which it waits without a process: that one
// comes behind those of later turns, which must not take it for dead.
func (h *hold) renewMessage(ctx context.Context, turn subagent.Turn) error {
	h.turn, h.wait = turn, subagent.Wait{Until: subagent.At(h.Ledger.Now())}
	return h.suspend(ctx)
}
