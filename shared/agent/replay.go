package agent

import (
	"context"
	"encoding/json"
	"fmt"
)

// Replayed returns what the run that this one repeats has kept under the key of a Step, if
// it has: so a replay can begin with the same.
func Replayed[T any](ctx context.Context, r *Run, key string) (result T, known bool, err error) {
	if r.ReplayOf == "" {
		return result, false, nil
	}
	raw, known, err := r.backend.Replayed(ctx, key)
	if err != nil || !known {
		return result, false, err
	}
	if err := json.Unmarshal(raw, &result); err != nil {
		return result, false, fmt.Errorf("decoding step %s of run %s: %w", key, r.ReplayOf, err)
	}
	return result, true, nil
}
