package ledger

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/errand-dev/errand/shared/subagent"
)

// state is what an agent keeps in a conversation. Recent names the newest changes, so that
// one which is repeated finds itself.
type state struct {
	Value  json.RawMessage `json:"v,omitempty"`
	Recent []string        `json:"recent,omitempty"`
}

const recentChanges = 16

// State reads the state of an agent, which path names; nil if there is none.
func (l *Ledger) State(ctx context.Context, o subagent.Owner, path, name string) (json.RawMessage, error) {
	r, err := load[state](ctx, l, stateKey(o, path, name))
	return r.value.Value, err
}

// ChangeState applies change to the state unless the change of that id was made already,
// and returns the state as it then is. change may be called several times.
func (l *Ledger) ChangeState(ctx context.Context, o subagent.Owner, path, name, id string, change func(json.RawMessage) (json.RawMessage, error)) (json.RawMessage, error) {
	var refused error
	r, _, err := update(ctx, l, stateKey(o, path, name), row[state]{}, nil, func(s state, _ int64) (state, subagent.Outcome) {
		if slices.Contains(s.Recent, id) {
			return s, subagent.Mine
		}
		var next state
		if next.Value, refused = change(s.Value); refused != nil {
			return s, subagent.NotDue
		}
		kept := s.Recent[max(0, len(s.Recent)+1-recentChanges):]
		next.Recent = append(slices.Clone(kept), id)
		return next, subagent.Apply
	})
	if err == nil {
		err = refused
	}
	return r.value.Value, err
}
