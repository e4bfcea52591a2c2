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

// caller is the run or turn that dispatches.
type caller struct {
	owner subagent.Owner
	id    string
	agent string
	// parent is nil for a turn.
	parent *subagent.Run
	// nth is the place of the dispatch in the caller's sequence of them.
	nth int
}

// dispatch starts a run. Its id is made of the caller's id and the key, or the place in
// the caller's sequence: executed again, the caller dispatches the same run.
func (e *Executor) dispatch(ctx context.Context, by caller, d agent.Dispatch) (agent.Info, error) {
	id := d.RunID
	if id == "" {
		key := d.Key
		if key == "" {
			key = "#" + strconv.Itoa(by.nth)
		}
		id = ledger.Digest(by.id + "/" + key)[:26]
	}
	input, err := encodeInput(d.Input)
	if err != nil {
		return agent.Info{}, err
	}
	waiter := ""
	if d.Awaited && by.parent == nil {
		waiter = subagent.TurnPlace(by.id)
	}
	row, _, err := e.Dispatcher.Start(ctx, dispatch.Request{
		Owner: by.owner, Run: id, Agent: d.Agent, Input: input, Parent: by.parent, By: by.agent,
		Awaited: d.Awaited, Waiter: waiter, Notice: d.Notice, Budget: d.Budget,
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
	if err != nil {
		return nil, err
	}
	infos := make([]agent.Info, len(rows))
	for i, r := range rows {
		if infos[i], err = e.info(ctx, r); err != nil {
			return nil, err
		}
	}
	return infos, nil
}

// info describes a run with its input. One that is a blob is left out: who lists runs wants to
// know what they are about, and pays for each byte.
func (e *Executor) info(ctx context.Context, r subagent.Run) (agent.Info, error) {
	info := agent.InfoOf(r)
	if r.Input.Blob != "" {
		return info, nil
	}
	input, err := e.Ledger.LoadValue(ctx, r.Owner, r.Input)
	if input != "" {
		info.Input = json.RawMessage(input)
	}
	return info, err
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
