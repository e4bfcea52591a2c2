package executor

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/ledger"
	"github.com/errand-dev/errand/shared/subagent"
)

// Step implements agent.Backend. The fence is written before the body begins: after a
// cancel or give-up was acknowledged, no step starts.
func (x *execution) Step(ctx context.Context, key string, body func(context.Context) (json.RawMessage, error)) (json.RawMessage, error) {
	if result, known, err := x.journalled(ctx, key); known || err != nil {
		return result, err
	}
	if err := x.fence(ctx); err != nil {
		return nil, err
	}
	raw, err := body(ctx)
	if err != nil {
		return nil, err
	}
	ctx = keeping(ctx)
	value, err := x.Ledger.StoreValue(ctx, x.row.Owner, string(raw))
	if err != nil {
		return nil, err
	}
	step, err := x.Ledger.FinishStep(ctx, ledger.LifeOf(*x.row), key, ledger.Step{Result: value, At: subagent.At(x.Ledger.Now())})
	if err != nil {
		return nil, err
	}
	x.mu.Lock()
	x.further = true
	if x.steps == nil {
		x.steps = map[string]ledger.Step{}
	}
	x.steps[key] = step
	x.mu.Unlock()
	if step.Result != value {
		// Another holder was first: its result stands.
		text, err := x.Ledger.LoadValue(ctx, x.row.Owner, step.Result)
		return json.RawMessage(text), err
	}
	return raw, nil
}

// keeping lets the result of a finished step be written although the run is just being
// handed on: it was paid for.
func keeping(ctx context.Context) context.Context {
	if ctx.Err() == nil || errors.Is(context.Cause(ctx), agent.ErrHandOn) {
		return context.WithoutCancel(ctx)
	}
	return ctx
}

// fence permits the next step, or says why there is none.
func (x *execution) fence(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	x.mu.Lock()
	further := x.further
	x.further = false
	x.mu.Unlock()
	return x.write(ctx, func(r subagent.Run) (subagent.Run, subagent.Outcome) {
		return r.StartStep(x.epoch, x.Ledger.Now(), x.Ledger.Terms, further)
	})
}

// journalled returns the kept result of a step. The journal of an earlier execution is
// read once.
func (x *execution) journalled(ctx context.Context, key string) (json.RawMessage, bool, error) {
	x.mu.Lock()
	steps := x.steps
	x.mu.Unlock()
	if steps == nil && x.epoch > 1 {
		loaded, err := x.Ledger.Steps(ctx, ledger.LifeOf(*x.row))
		if err != nil {
			return nil, false, err
		}
		x.mu.Lock()
		if x.steps == nil { // a step beside this one may have loaded it, and added its own
			x.steps = loaded
		}
		x.mu.Unlock()
	}
	x.mu.Lock()
	step, known := x.steps[key]
	x.mu.Unlock()
	if !known {
		return nil, false, nil
	}
	text, err := x.Ledger.LoadValue(ctx, x.row.Owner, step.Result)
	return json.RawMessage(text), true, err
}

// Dispatch implements agent.Backend.
func (x *execution) Dispatch(ctx context.Context, d agent.Dispatch) (agent.Info, error) {
	if err := x.fence(ctx); err != nil {
		return agent.Info{}, err
	}
	x.mu.Lock()
	x.dispatched++
	nth := x.dispatched
	x.mu.Unlock()
	return x.dispatch(ctx, caller{x.row.Owner, x.row.ID, x.row.Agent, x.row, nth}, d)
}

// Runs implements agent.Backend.
func (x *execution) Runs(ctx context.Context) ([]agent.Info, error) {
	return x.active(ctx, x.row.Owner)
}

// Cancel implements agent.Backend.
func (x *execution) Cancel(ctx context.Context, run, reason string) (agent.Info, error) {
	row, err := x.Control.Cancel(ctx, x.row.Owner, run, reason)
	return agent.InfoOf(row), err
}

// Emit implements agent.Backend.
func (x *execution) Emit(ctx context.Context, typ string, data any) error {
	return x.Ledger.Emit(ctx, x.row.Owner, append(x.notes(), x.Ledger.NewEvent(typ, x.row.ID, "", data))...)
}

// Ephemeral implements agent.Backend.
func (x *execution) Ephemeral(typ string, data any) {
	x.Executor.show(x.row.Owner, x.Ledger.NewEvent(typ, x.row.ID, "", data))
}

// Events implements agent.Backend.
func (x *execution) Events(ctx context.Context, typ string) ([]json.RawMessage, error) {
	return x.eventsOf(ctx, x.row.Owner, func(e ledger.Event) bool { return e.Type == typ && e.Run == x.row.ID })
}

var errNotInTurn = errors.New("only a run can do this, not a turn")
