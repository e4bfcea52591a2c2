package agent

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/errand-dev/errand/shared/subagent"
)

// An agent has durable state in each conversation, by name. A subagent's state is its own:
// that of the path of agents that lead to it, so the same agent below two others has two
// states, and the runs of one path share one.

// MaxState is the largest state, in bytes of JSON.
const MaxState = 100 << 10

// State returns the agent's state of that name; the zero value if there is none yet.
func State[T any](ctx context.Context, w *Work, name string) (T, error) {
	var value T
	if err := checkState(name); err != nil {
		return value, err
	}
	raw, err := w.backend.State(ctx, name)
	if err != nil || len(raw) == 0 {
		return value, err
	}
	if err := json.Unmarshal(raw, &value); err != nil {
		return value, fmt.Errorf("decoding state %s: %w", name, err)
	}
	return value, nil
}

// ChangeState applies change to the state, atomically and once for each key of this run or
// turn, however often the code is executed, and returns what the state then is. change may
// be called several times, on newer states; it must do nothing else.
//
// The state remembers its newest 16 changes: a change may be made again if the code is
// executed again after so many others came between.
func ChangeState[T any](ctx context.Context, w *Work, key, name string, change func(T) (T, error)) (T, error) {
	var value T
	if err := checkState(name); err != nil {
		return value, err
	}
	if err := subagent.CheckID(key); err != nil {
		return value, fmt.Errorf("change %q of state %s: %w", key, name, err)
	}
	raw, err := w.backend.ChangeState(ctx, key, name, func(raw json.RawMessage) (json.RawMessage, error) {
		var before T
		if len(raw) > 0 {
			if err := json.Unmarshal(raw, &before); err != nil {
				return nil, fmt.Errorf("decoding state %s: %w", name, err)
			}
		}
		after, err := change(before)
		if err != nil {
			return nil, err
		}
		return json.Marshal(after)
	})
	if err != nil {
		return value, err
	}
	if err := json.Unmarshal(raw, &value); err != nil {
		return value, fmt.Errorf("decoding state %s: %w", name, err)
	}
	return value, nil
}

func checkState(name string) error {
	if err := subagent.CheckID(name); err != nil {
		return fmt.Errorf("state %q: %w", name, err)
	}
	return nil
}

// Path is the names of the agents of the runs above this one, the outermost first, and its
// own, joined by "/". A turn's path is the name of the conversation's agent.
func (w *Work) Path(ctx context.Context) (string, error) { return w.backend.Path(ctx) }
