package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/subagent"
)

// approve asks people and ends with their decision.
func approve(ctx context.Context, run *agent.Run) (any, error) {
	var in struct {
		Title string `json:"title"`
		marks
	}
	if err := run.Input(&in); err != nil {
		return nil, err
	}
	if err := in.pass(ctx, run, 0, 0, true); err != nil {
		return nil, err
	}
	d, err := run.Approve(ctx, agent.Question{Name: "go-on", Title: cmp.Or(in.Title, "May I go on?")}, 0)
	return d, err
}

// calledBack ends with what somebody outside posts to the path that its milestone tells. Only
// a lab shows a token to everybody who may read the run.
func calledBack(ctx context.Context, run *agent.Run) (any, error) {
	var in marks
	if err := run.Input(&in); err != nil {
		return nil, err
	}
	token, err := run.Callback(ctx, "done")
	if err != nil {
		return nil, err
	}
	if err := run.Milestone(ctx, "callback", callbackAt{"/v1/callbacks/" + token}); err != nil {
		return nil, err
	}
	if err := in.pass(ctx, run, 0, 0, true); err != nil {
		return nil, err
	}
	return run.WaitCallback(ctx, "done", 0)
}

type callbackAt struct {
	Path string `json:"path"`
}

// nap is lab-sleep without a process.
func nap(ctx context.Context, run *agent.Run) (any, error) {
	var in struct {
		MS int64 `json:"ms"`
		marks
	}
	if err := run.Input(&in); err != nil {
		return nil, err
	}
	if err := in.pass(ctx, run, 0, 0, true); err != nil {
		return nil, err
	}
	return fmt.Sprintf("napped %d ms", in.MS), run.Sleep(ctx, "nap", ms(in.MS))
}

// child is a run that lab-join has waited for.
type child struct {
	Run    string          `json:"run"`
	Status subagent.Status `json:"status"`
}

// join dispatches runs that sleep, each longer than the one before, and ends when enough
// of them have.
func join(ctx context.Context, run *agent.Run) (any, error) {
	var in struct {
		Children int   `json:"children"`
		Need     int   `json:"need"`
		MS       int64 `json:"ms"`
		marks
	}
	if err := run.Input(&in); err != nil {
		return nil, err
	}
	if err := in.pass(ctx, run, 0, 0, true); err != nil {
		return nil, err
	}
	j := agent.Join{Need: in.Need}
	for i := range in.Children {
		c, err := run.Dispatch(ctx, agent.Dispatch{
			Key: fmt.Sprintf("child-%d", i), Agent: "lab-sleep", Awaited: true,
			Input: map[string]int64{"ms": in.MS * int64(i+1)},
		})
		if err != nil {
			return nil, err
		}
		j.Runs = append(j.Runs, c.ID)
	}
	results, err := run.Join(ctx, "children", j)
	out := []child{}
	for _, r := range results {
		out = append(out, child{r.ID, r.Status})
	}
	return out, err
}

// await is the chat's command: wait for a milestone of a run.
func await(ctx context.Context, t *agent.Turn, words []string) (string, error) {
	if len(words) != 2 && len(words) != 3 {
		return usage, nil
	}
	var within int64
	if len(words) == 3 {
		var err error
		if within, err = strconv.ParseInt(words[2], 10, 64); err != nil {
			return usage, nil
		}
	}
	m, err := t.AwaitMilestone(ctx, "await", words[0], words[1], ms(within))
	if problem, ok := waitedInVain(err); ok {
		return problem, nil
	}
	// A milestone without data is kept with null.
	text := fmt.Sprintf("run %s has reached %s %s", words[0], words[1], m.Data)
	return strings.TrimSpace(strings.TrimSuffix(text, "null")), err
}

// joinRuns is the chat's command: wait for the end of runs.
func joinRuns(ctx context.Context, t *agent.Turn, runs []string) (string, error) {
	if len(runs) == 0 {
		return usage, nil
	}
	results, err := t.Join(ctx, "join", agent.Join{Runs: runs})
	if text, ok := waitedInVain(err); ok {
		return text, nil
	}
	lines := make([]string, len(results))
	for i, r := range results {
		lines[i] = fmt.Sprintf("run %s is %s", r.ID, r.Status)
	}
	return strings.Join(lines, "\n"), err
}

// waitedInVain is what the chat says of an error that its user can do something about.
func waitedInVain(err error) (string, bool) {
	for _, known := range []error{agent.ErrNoRun, agent.ErrNoMilestone, agent.ErrTimedOut} {
		if errors.Is(err, known) {
			return err.Error(), true
		}
	}
	return "", false
}
