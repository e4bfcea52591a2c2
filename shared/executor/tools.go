package executor

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/dispatch"
	"github.com/errand-dev/errand/shared/ledger"
	"github.com/errand-dev/errand/shared/subagent"
)

// dispatch starts a run for the run or turn called by. The id is made of the caller's
// id and the key, or its place in the caller's sequence of dispatches: executed again,
// the caller dispatches the same run.
func (e *Executor) dispatch(ctx context.Context, o subagent.Owner, by string, parent *subagent.Run, nth int, d agent.Dispatch) (agent.Info, error) {
	id := d.RunID
	if id == "" {
		key := d.Key
		if key == "" {
			key = "#" + strconv.Itoa(nth)
		}
		id = ledger.Digest(by + "/" + key)[:26]
	}
	input, err := encodeInput(d.Input)
	if err != nil {
		return agent.Info{}, err
	}
	if d.Awaited && parent == nil {
		return agent.Info{}, errNotInTurn
	}
	row, _, err := e.Dispatcher.Start(ctx, dispatch.Request{
		Owner: o, Run: id, Agent: d.Agent, Input: input, Parent: parent,
		Awaited: d.Awaited, Notice: d.Notice, Budget: d.Budget,
	})
	return agent.InfoOf(row), err
}

func encodeInput(input any) (json.RawMessage, error) {
	switch v := input.(type) {
	case nil:
		return nil, nil
	case json.RawMessage:
		return v, nil
	}
	raw, err := json.Marshal(input)
	if err != nil {
		return nil, fmt.Errorf("encoding the input: %w", err)
	}
	return raw, nil
}

func (e *Executor) active(ctx context.Context, o subagent.Owner) ([]agent.Info, error) {
	rows, err := e.Control.Active(ctx, o)
	infos := make([]agent.Info, len(rows))
	for i, r := range rows {
		infos[i] = agent.InfoOf(r)
	}
	return infos, err
}

const eventPage = 500

func (e *Executor) eventsOf(ctx context.Context, o subagent.Owner, want func(ledger.Event) bool) ([]json.RawMessage, error) {
	var found []json.RawMessage
	var after int64
	for {
		page, err := e.Ledger.Events(ctx, o, after, eventPage)
		if err != nil {
			return nil, err
		}
		for _, event := range page {
			after = event.Seq
			if want(event) {
				found = append(found, event.Data)
			}
		}
		if len(page) < eventPage {
			return found, nil
		}
	}
}
