package harness

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/errand-dev/errand/shared/agent"
)

// builtin makes a tool of ours.
func builtin[In any](name, description string, fn func(context.Context, *session, In) (string, error)) Tool {
	args, err := argumentsOf[In]()
	return Tool{name: name, description: description, args: args, err: err, call: func(ctx context.Context, x *session, raw json.RawMessage) (string, error) {
		var in In
		if err := json.Unmarshal(raw, &in); err != nil {
			return "", err
		}
		return fn(ctx, x, in)
	}}
}

type progressArgs struct {
	Fraction *float64 `json:"fraction,omitempty" jsonschema:"how much is done, between 0 and 1"`
	Message  string   `json:"message,omitempty" jsonschema:"what you are doing, in a few words"`
	Phase    string   `json:"phase,omitempty" jsonschema:"the phase of the work, in one word"`
}

func reportProgress() Tool {
	t := builtin("report_progress", "Tell those who wait for you how far you are. It costs you nothing.",
		func(ctx context.Context, x *session, in progressArgs) (string, error) {
			err := x.run.Progress(ctx, agent.Progress{Fraction: in.Fraction, Message: in.Message, Phase: in.Phase})
			return "Reported.", untold(err)
		})
	t.free = true
	return t
}

const readResultName = "read_result"

type readArgs struct {
	Result string `json:"result" jsonschema:"the name of the result, as a note told you, like 3-0"`
	Offset int    `json:"offset,omitempty" jsonschema:"the byte to begin at"`
}

func readResult() Tool {
	return builtin(readResultName, "Read on in the result of a tool that you were shown only in part, or that was taken out to save room.",
		func(_ context.Context, x *session, in readArgs) (string, error) {
			whole, ok := x.results[in.Result]
			if !ok {
				return "", fmt.Errorf("there is no result %q", in.Result)
			}
			if in.Offset < 0 || in.Offset > len(whole.text) {
				return "", fmt.Errorf("the result has %d bytes; the offset %d is outside", len(whole.text), in.Offset)
			}
			page := head(whole.text[in.Offset:], x.limits.ResultBytes)
			if end := in.Offset + len(page); end < len(whole.text) {
				page += fmt.Sprintf("\n[These are bytes %d to %d of %d. Read on at offset %d.]", in.Offset, end, len(whole.text), end)
			}
			return page, nil
		})
}

type manageArgs struct {
	Action string `json:"action" jsonschema:"list, inspect or cancel"`
	ID     string `json:"id,omitempty" jsonschema:"the id of the background work, to inspect or cancel it"`
	Reason string `json:"reason,omitempty" jsonschema:"why you cancel it"`
}

func manageWork() Tool {
	return builtin("manage_work", "List the background work that is running, inspect one (its status, progress and, when it has ended, its whole output), or cancel one.",
		func(ctx context.Context, x *session, in manageArgs) (string, error) {
			switch in.Action {
			case "list":
				runs, err := x.children(ctx)
				if err != nil {
					return "", err
				}
				return textOf(struct {
					Work []workItem `json:"work"`
				}{workItems(runs, x.work.Now())})
			case "inspect":
				r, err := x.child(ctx, in.ID)
				if err != nil {
					return "", err
				}
				return textOf(inspected{itemOf(r.Info, x.work.Now()), r.Problem, r.Reason, r.Output})
			case "cancel":
				if _, err := x.child(ctx, in.ID); err != nil {
					return "", err
				}
				run, err := x.work.Cancel(ctx, in.ID, in.Reason)
				if err != nil {
					return "", untold(err)
				}
				return fmt.Sprintf("%s is %s.", run.ID, run.Status), nil
			}
			return "", fmt.Errorf("the action is list, inspect or cancel, not %q", in.Action)
		})
}

type inspected struct {
	workItem
	Problem string          `json:"problem,omitempty"`
	Reason  string          `json:"reason,omitempty"`
	Output  json.RawMessage `json:"output,omitempty"`
}

type readSubagentArgs struct {
	ID     string `json:"id" jsonschema:"the id of the background work"`
	Cursor int64  `json:"cursor,omitempty" jsonschema:"where to read on, as the last page said"`
}

// emptyPages is how many parts of the log without a word of the run are passed over.
const emptyPages = 10

func readSubagent() Tool {
	return builtin("read_subagent", "Read what background work has done so far, event by event, a page at a time.",
		func(ctx context.Context, x *session, in readSubagentArgs) (string, error) {
			if _, err := x.child(ctx, in.ID); err != nil {
				return "", err
			}
			page := agent.LogPage{Next: in.Cursor, More: true}
			for i := 0; i < emptyPages && len(page.Entries) == 0 && page.More; i++ {
				var err error
				if page, err = x.work.RunLog(ctx, in.ID, page.Next); err != nil {
					return "", durable(err)
				}
			}
			return textOf(struct {
				Events []agent.LogEntry `json:"events"`
				Cursor int64            `json:"cursor"`
				More   bool             `json:"more"`
			}{append([]agent.LogEntry{}, page.Entries...), page.Next, page.More})
		})
}

type followupArgs struct {
	ID      string `json:"id" jsonschema:"the id of the background work"`
	Message string `json:"message" jsonschema:"what it should know or do differently"`
}

func sendFollowup() Tool {
	return builtin("send_followup", "Send a message to background work that is running. It is read between two of its steps.",
		func(ctx context.Context, x *session, in followupArgs) (string, error) {
			if in.Message == "" {
				return "", fmt.Errorf("the message is empty")
			}
			if _, err := x.child(ctx, in.ID); err != nil {
				return "", err
			}
			if err := x.work.FollowUp(ctx, in.ID, CallKey(ctx), in.Message); err != nil {
				return "", untold(err)
			}
			return "Sent.", nil
		})
}

// children lists the live background work that is this session's business: in a
// conversation all of it, in a run what the run has dispatched.
func (x *session) children(ctx context.Context) ([]agent.Info, error) {
	runs, err := x.work.Runs(ctx)
	if err != nil {
		return nil, durable(err)
	}
	return slices.DeleteFunc(runs, func(r agent.Info) bool { return !x.owns(r) }), nil
}

func (x *session) owns(r agent.Info) bool { return x.run == nil || r.Parent == x.run.ID }

// child returns a run that is this session's business. Any other does not exist for it.
func (x *session) child(ctx context.Context, id string) (agent.Result, error) {
	r, err := x.work.Inspect(ctx, id)
	if err != nil {
		return r, untold(err)
	}
	if !x.owns(r.Info) {
		return agent.Result{}, fmt.Errorf("%w: %s", agent.ErrNoRun, id)
	}
	return r, nil
}
