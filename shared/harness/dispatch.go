package harness

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/dispatch"
	"github.com/errand-dev/errand/shared/subagent"
)

type askArgs struct {
	Task string `json:"task" jsonschema:"what to do, with everything one must know to do it"`
}

// subagentTools makes the two tools of a subagent: to wait for it, and not to.
func subagentTools(sub Subagent) (ask, background Tool) {
	args, err := argumentsOf[askArgs]()
	if sub.Input != nil {
		if args, err = compile(sub.Input); err == nil {
			err = args.object()
		}
	}
	if err != nil {
		err = fmt.Errorf("the input of subagent %q: %w", sub.Name, err)
	}
	what := cmp.Or(sub.Description, "the subagent "+sub.Name)
	ask = Tool{name: "ask_" + sub.Name, args: args, asks: &sub, err: err,
		description: "Let this subagent do a task and wait for its answer: " + what}
	background = Tool{name: "background_" + sub.Name, args: args, err: err,
		description: "Let this subagent do a task in the background and go on at once; you are told when it has ended: " + what,
		call: func(ctx context.Context, x *session, raw json.RawMessage) (string, error) {
			run, err := x.dispatch(ctx, CallKey(ctx), sub, raw, false)
			if err != nil {
				return "", untold(err)
			}
			return textOf(struct {
				ID     string          `json:"id"`
				Status subagent.Status `json:"status"`
				Note   string          `json:"note"`
			}{run.ID, run.Status, "It works in the background, and you are told when it has ended. Use wait_for only if you cannot go on without it."})
		}}
	return ask, background
}

// dispatch starts the subagent's run. Its id is made of the run's and the call's: made
// again, the call finds the same child.
func (x *session) dispatch(ctx context.Context, key string, sub Subagent, args json.RawMessage, awaited bool) (agent.Info, error) {
	input, err := x.inputFor(sub, args)
	if err != nil {
		return agent.Info{}, err
	}
	return x.work.Dispatch(ctx, agent.Dispatch{
		Key: key, Agent: sub.Name, Input: input, Awaited: awaited,
		Notice: subagent.Notice{Message: !awaited}, Budget: sub.Budget,
	})
}

// inputFor is the input of a subagent. An agent is told which tools are disabled for it; one
// that takes an input of its own then gets that as the text of its task.
func (x *session) inputFor(sub Subagent, args json.RawMessage) (json.RawMessage, error) {
	in := taskInput{Task: string(args)}
	switch {
	case sub.Input == nil:
		if err := json.Unmarshal(args, &in); err != nil {
			return nil, err
		}
	case !sub.agent || len(x.begin.Disabled) == 0:
		return args, nil
	}
	in.Disabled = x.begin.Disabled
	return json.Marshal(in)
}

// untold leaves an error that the model can do something about as it is, and asks for
// another try for any other: that is the platform's.
func untold(err error) error {
	if err == nil || tellable(err) {
		return err
	}
	return durable(err)
}

// tellable reports whether err says what the model could do differently.
func tellable(err error) bool {
	if _, full := errors.AsType[*agent.CapError](err); full {
		return true
	}
	for _, known := range []error{
		agent.ErrUnknownAgent, agent.ErrNoRun, agent.ErrRunEnded, agent.ErrWaitsForItself, agent.ErrJoinTooLarge, agent.ErrAgentDisabled, agent.ErrInMaintenance,
		dispatch.ErrTooDeep, dispatch.ErrInputTooLarge, subagent.ErrInvalidBudget, subagent.ErrInvalidID,
	} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}

// failure is what the model sees of a subagent that gave no result.
type failure struct {
	OK     bool            `json:"ok"`
	Status subagent.Status `json:"status"`
	Error  string          `json:"error"`
	// Retryable: the same task may succeed if it is tried again.
	Retryable bool   `json:"retryable"`
	Reason    string `json:"reason,omitempty"`
	// ChildStillRunning is set when the child was given up.
	ChildStillRunning *bool `json:"childStillRunning,omitempty"`
}

// childOutcome is the end of an awaited child as its parent's model sees it.
func childOutcome(r agent.Result, sub Subagent) outcome {
	empty := len(r.Output) == 0 || string(r.Output) == "null"
	if r.Status == subagent.Completed && !(empty && sub.structured) {
		var text string
		if empty || json.Unmarshal(r.Output, &text) == nil {
			return outcome{Text: text}
		}
		return outcome{Text: string(r.Output)}
	}
	f := failure{Status: r.Status, Error: r.Problem, Reason: r.Reason}
	switch r.Status {
	case subagent.Completed:
		f.Status, f.Error = subagent.Error, "it has ended without the output it owes"
	case subagent.Interrupted:
		f.Retryable, f.ChildStillRunning = true, &r.ChildStillRunning
	}
	f.Error = cmp.Or(f.Error, "it ended as "+string(r.Status))
	raw, _ := json.Marshal(f) // plain fields always encode
	return outcome{Text: string(raw), Failed: true}
}

// shownTask is how much of its task is shown with background work, in bytes.
const shownTask = 200

// workItem is background work as the model sees it.
type workItem struct {
	ID         string          `json:"id"`
	Subagent   string          `json:"subagent"`
	Task       string          `json:"task,omitempty"`
	Status     subagent.Status `json:"status"`
	Progress   string          `json:"progress,omitempty"`
	AgeSeconds int64           `json:"age_seconds"`
}

func itemOf(r agent.Info, now time.Time) workItem {
	item := workItem{ID: r.ID, Subagent: r.Agent, Status: r.Status, AgeSeconds: int64(now.Sub(r.DispatchedAt).Seconds())}
	if task, _, err := readTask(r.Input); err == nil { // what no agent takes is no agent's
		item.Task = head(task, shownTask)
	}
	if f := r.Progress.Fraction; f != nil {
		item.Progress = fmt.Sprintf("%.0f%%", *f*100)
	}
	for _, part := range []string{r.Progress.Phase, r.Progress.Message} {
		if part != "" && item.Progress != "" {
			item.Progress += ", "
		}
		item.Progress += part
	}
	return item
}

func workItems(runs []agent.Info, now time.Time) []workItem {
	items := make([]workItem, len(runs))
	for i, r := range runs {
		items[i] = itemOf(r, now)
	}
	return items
}

// activeWork tells the model what is running, and how to speak of it.
func activeWork(runs []agent.Info, now time.Time) string {
	raw, _ := json.Marshal(map[string][]workItem{"activeWork": workItems(runs, now)}) // plain fields always encode
	return string(raw) + "\nThese tasks are still running in the background. You may answer new messages meanwhile. " +
		"Do not claim that they are done. Use manage_work to inspect or cancel them."
}
