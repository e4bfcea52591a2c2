package executor

import (
	"context"
	"encoding/json"

	"github.com/errand-dev/errand/shared/ledger"
)

// Replayed implements agent.Backend. A run that is gone has kept nothing.
func (x *execution) Replayed(ctx context.Context, key string) (json.RawMessage, bool, error) {
	old, err := x.Ledger.Run(ctx, x.row.Owner, x.row.ReplayOf)
	if err != nil {
		return nil, false, err
	}
	steps, err := x.Ledger.Steps(ctx, ledger.LifeOf(old))
	step, known := steps[key]
	if err != nil || !known {
		return nil, false, err
	}
	text, err := x.Ledger.LoadValue(ctx, x.row.Owner, step.Result)
	return json.RawMessage(text), err == nil, err
}

// Replayed belongs to runs.
func (h *hold) Replayed(context.Context, string) (json.RawMessage, bool, error) {
	return nil, false, errNotInTurn
}
