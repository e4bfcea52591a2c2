package executor

import (
	"context"

	"github.com/errand-dev/errand/shared/subagent"
)

// held reports whether a run must wait because its agent is in maintenance and it has not
// begun. Its job is dropped; the next tick sends it again.
func (e *Executor) held(ctx context.Context, r subagent.Run) (bool, error) {
	if r.Status != subagent.Queued || r.Exec.Epoch > 0 {
		return false, nil
	}
	held, err := e.Controls.Holding(ctx, r.Agent)
	if held {
		e.Log.DebugContext(ctx, "run waits for the end of maintenance", "run_id", r.ID, "agent", r.Agent)
	}
	return held, err
}
