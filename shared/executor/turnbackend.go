package executor

import (
	"context"
	"encoding/json"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/ledger"
	"github.com/errand-dev/errand/shared/subagent"
)

// Step implements agent.Backend for a turn: journalled under the turn's id.
func (h *hold) Step(ctx context.Context, key string, body func(context.Context) (json.RawMessage, error)) (json.RawMessage, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	step, known, err := h.journalled(ctx, key)
	if err != nil {
		return nil, err
	}
	if !known {
		raw, err := body(ctx)
		if err != nil {
			return nil, err
		}
		ctx := keeping(ctx)
		value, err := h.Ledger.StoreValue(ctx, h.turn.Owner, string(raw))
		if err != nil {
			return nil, err
		}
		step, err = h.Ledger.FinishStep(ctx, ledger.LifeOfTurn(h.turn), key, ledger.Step{Result: value, At: subagent.At(h.Ledger.Now())})
		if err != nil {
			return nil, err
		}
		h.mu.Lock()
		h.further, h.heard = true, h.Ledger.Now()
		h.steps[key] = step
		h.mu.Unlock()
	}
	text, err := h.Ledger.LoadValue(ctx, h.turn.Owner, step.Result)
	return json.RawMessage(text), err
}

func (h *hold) journalled(ctx context.Context, key string) (ledger.Step, bool, error) {
	h.mu.Lock()
	loaded := h.loaded
	h.mu.Unlock()
	if !loaded {
		steps := map[string]ledger.Step{}
		if h.repeated {
			var err error
			if steps, err = h.Ledger.Steps(ctx, ledger.LifeOfTurn(h.turn)); err != nil {
				return ledger.Step{}, false, err
			}
		}
		h.mu.Lock()
		if !h.loaded { // a step beside this one may have loaded it, and added its own
			h.steps, h.loaded = steps, true
		}
		h.mu.Unlock()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	step, known := h.steps[key]
	return step, known, nil
}

// Dispatch implements agent.Backend.
func (h *hold) Dispatch(ctx context.Context, d agent.Dispatch) (agent.Info, error) {
	if ctx.Err() != nil {
		return agent.Info{}, context.Cause(ctx)
	}
	h.mu.Lock()
	h.dispatched++
	nth := h.dispatched
	h.mu.Unlock()
	// What led to the dispatch is told before it.
	h.emit(ctx, h.turn.Owner, h.notes()...)
	return h.dispatch(ctx, caller{h.turn.Owner, h.turn.ID, h.place().Agent, nil, nth}, d)
}

// Runs implements agent.Backend.
func (h *hold) Runs(ctx context.Context) ([]agent.Info, error) { return h.active(ctx, h.turn.Owner) }

// Cancel implements agent.Backend.
func (h *hold) Cancel(ctx context.Context, run, reason string) (agent.Info, error) {
	row, err := h.Control.Cancel(ctx, h.turn.Owner, run, reason)
	return agent.InfoOf(row), err
}

// Emit implements agent.Backend.
func (h *hold) Emit(ctx context.Context, typ string, data any) error {
	return h.Ledger.Emit(ctx, h.turn.Owner, append(h.notes(), h.Ledger.NewEvent(typ, h.turn.Run, h.turn.ID, data))...)
}

// Ephemeral implements agent.Backend.
func (h *hold) Ephemeral(typ string, data any) {
	h.Executor.show(h.turn.Owner, h.Ledger.NewEvent(typ, h.turn.Run, h.turn.ID, data))
}

// Events implements agent.Backend.
func (h *hold) Events(ctx context.Context, typ string) ([]json.RawMessage, error) {
	return h.eventsOf(ctx, h.turn.Owner, func(e ledger.Event) bool { return e.Type == typ && e.Turn == h.turn.ID })
}

// Progress, Milestone and Inbox belong to runs.
func (h *hold) Progress(context.Context, agent.Progress) error           { return errNotInTurn }
func (h *hold) Milestone(context.Context, string, json.RawMessage) error { return errNotInTurn }
func (h *hold) Inbox(context.Context) ([]agent.Message, error)           { return nil, errNotInTurn }
