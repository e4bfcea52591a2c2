package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/subagent"
)

type waitArgs struct {
	IDs            []string `json:"ids" jsonschema:"the ids of the background work to wait for"`
	Need           int      `json:"need,omitempty" jsonschema:"how many of them must have ended; all if left out"`
	Milestone      string   `json:"milestone,omitempty" jsonschema:"wait for this milestone of the one id instead of for its end"`
	TimeoutSeconds int      `json:"timeout_seconds,omitempty" jsonschema:"how long to wait; 300 if left out"`
}

const (
	defaultWait = 5 * time.Minute
	// longestWaitSeconds is a year: no run lives longer.
	longestWaitSeconds = 365 * 24 * 3600
)

// ended is background work as a wait found it.
type ended struct {
	ID       string          `json:"id"`
	Subagent string          `json:"subagent"`
	Status   subagent.Status `json:"status"`
	Output   json.RawMessage `json:"output,omitempty"`
	Error    string          `json:"error,omitempty"`
}

func waitFor() Tool {
	t := builtin("wait_for", "Wait for background work: until all of it, or so many, have ended, or until one has reached a milestone. "+
		"You get what has ended by then. Meanwhile nothing else happens here, so wait only for what you cannot go on without.",
		func(ctx context.Context, x *session, in waitArgs) (string, error) {
			if len(in.IDs) == 0 || in.Milestone != "" && len(in.IDs) != 1 {
				return "", errors.New("name the ids to wait for; for a milestone just one")
			}
			for _, id := range in.IDs {
				if _, err := x.child(ctx, id); err != nil {
					return "", err
				}
			}
			within := time.Duration(min(in.TimeoutSeconds, longestWaitSeconds)) * time.Second
			if within <= 0 {
				within = defaultWait
			}
			if in.Milestone != "" {
				return x.awaitMilestone(ctx, in, within)
			}
			results, err := x.work.Join(ctx, CallKey(ctx), agent.Join{Runs: in.IDs, Need: in.Need, Within: within})
			if err != nil {
				return "", untold(err)
			}
			found := make([]ended, len(results))
			for i, r := range results {
				found[i] = ended{r.ID, r.Agent, r.Status, r.Output, r.Problem}
			}
			return textOf(struct {
				Work []ended `json:"work"`
			}{found})
		})
	t.waits = true
	return t
}

func (x *session) awaitMilestone(ctx context.Context, in waitArgs, within time.Duration) (string, error) {
	m, err := x.work.AwaitMilestone(ctx, CallKey(ctx), in.IDs[0], in.Milestone, within)
	if errors.Is(err, agent.ErrTimedOut) || errors.Is(err, agent.ErrNoMilestone) {
		return "", fmt.Errorf("%w; the work goes on unless it has ended", err)
	}
	if err != nil {
		return "", untold(err)
	}
	return textOf(struct {
		Milestone string          `json:"milestone"`
		At        time.Time       `json:"at"`
		Data      json.RawMessage `json:"data,omitempty"`
	}{m.Name, m.At, m.Data})
}
