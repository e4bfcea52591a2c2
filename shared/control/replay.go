package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/errand-dev/errand/shared/dispatch"
	"github.com/errand-dev/errand/shared/subagent"
)

// ErrNotEnded is returned for a replay of a run that may still be at work.
var ErrNotEnded = errors.New("the run has not ended, so there is nothing to replay yet")

// Replay dispatches a run under the id that repeats another one: its agent, input, budget
// and notice. It stands below no run, so its end is told to the conversation, by a message
// if the other was awaited. An agent of the harness begins with what that one began with
// (agent.Replayed). known reports that a run has the id already: that is the answer.
//
// Errors: agent.ErrNoRun, ErrNotEnded, and those of dispatch.Dispatcher.Start.
func (c *Control) Replay(ctx context.Context, o subagent.Owner, of, id string) (run subagent.Run, known bool, err error) {
	old, err := c.Run(ctx, o, of)
	if err != nil {
		return run, false, err
	}
	if !old.Replayable() {
		return run, false, fmt.Errorf("%w: %s is %s", ErrNotEnded, of, old.Status)
	}
	input, err := c.Ledger.LoadValue(ctx, o, old.Input)
	if err != nil {
		return run, false, err
	}
	notice := old.Notice
	notice.Message = notice.Message || old.Awaited
	return c.Dispatcher.Start(ctx, dispatch.Request{
		Owner: o, Run: id, Agent: old.Agent, Input: json.RawMessage(input), ReplayOf: of, Notice: notice, Budget: old.Budget(),
	})
}
