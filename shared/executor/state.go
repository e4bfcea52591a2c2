package executor

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/subagent"
)

// Path implements agent.Backend. The names of the runs above are read once.
func (x *execution) Path(ctx context.Context) (string, error) {
	x.mu.Lock()
	path := x.path
	x.mu.Unlock()
	if path != "" {
		return path, nil
	}
	above, err := x.Ledger.Runs(ctx, x.row.Owner, x.row.Lineage())
	if err != nil {
		return "", err
	}
	names := make([]string, 0, len(above)+1)
	for _, r := range above {
		names = append(names, r.Agent)
	}
	path = strings.Join(append(names, x.row.Agent), "/")
	x.mu.Lock()
	x.path = path
	x.mu.Unlock()
	return path, nil
}

// Path implements agent.Backend.
func (h *hold) Path(context.Context) (string, error) { return h.place().Agent, nil }

// State implements agent.Backend.
func (x *execution) State(ctx context.Context, name string) (json.RawMessage, error) {
	path, err := x.Path(ctx)
	if err != nil {
		return nil, err
	}
	return x.Ledger.State(ctx, x.row.Owner, path, name)
}

// State implements agent.Backend.
func (h *hold) State(ctx context.Context, name string) (json.RawMessage, error) {
	return h.Ledger.State(ctx, h.turn.Owner, chatPath(h), name)
}

// chatPath is the path of a conversation's agent, which no run's can be.
func chatPath(h *hold) string { return "/" + h.place().Agent }

// ChangeState implements agent.Backend. It needs the lease, as a step does.
func (x *execution) ChangeState(ctx context.Context, key, name string, change func(json.RawMessage) (json.RawMessage, error)) (json.RawMessage, error) {
	if err := x.fence(ctx); err != nil {
		return nil, err
	}
	path, err := x.Path(ctx)
	if err != nil {
		return nil, err
	}
	id := fmt.Sprintf("%s/%d/%s", x.row.ID, x.row.Generation, key)
	return x.changeState(ctx, x.row.Owner, path, name, id, change)
}

// ChangeState implements agent.Backend.
func (h *hold) ChangeState(ctx context.Context, key, name string, change func(json.RawMessage) (json.RawMessage, error)) (json.RawMessage, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	id := fmt.Sprintf("%s/%d/%s", h.turn.ID, h.turn.AcceptedAt, key)
	return h.changeState(ctx, h.turn.Owner, chatPath(h), name, id, change)
}

func (e *Executor) changeState(ctx context.Context, o subagent.Owner, path, name, id string, change func(json.RawMessage) (json.RawMessage, error)) (json.RawMessage, error) {
	return e.Ledger.ChangeState(ctx, o, path, name, id, func(before json.RawMessage) (json.RawMessage, error) {
		after, err := change(before)
		if err == nil && len(after) > agent.MaxState {
			err = fmt.Errorf("state %s would have %d bytes, at most %d are kept", name, len(after), agent.MaxState)
		}
		return after, err
	})
}
