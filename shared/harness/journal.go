package harness

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/model"
)

// What the journal keeps. The keys of its steps:
//
//	begin         opening: what the run began with
//	model:N       reply: the answer to model call N
//	submit:N      submitted: model call N was submitted, to be fetched later
//	submit:N:R    submitted: it had failed there, and was submitted for the R-th time
//	fetch:N:K     fetched: what the K-th look for its answer found
//	send:N:I      sent: the subagent of call I of that answer is dispatched, to be awaited
//	tool:N:I      outcome: what call I of that answer returned
//	inbox:N       the backend's: what was in the inbox

// opening is what a run began with. Executed again, also by another deployment, it goes
// on with that.
type opening struct {
	Instructions string   `json:"instructions,omitempty"`
	Model        string   `json:"model,omitempty"`
	Disabled     []string `json:"disabled,omitempty"`
	// Approve lists the tools that need approval.
	Approve []string `json:"approve,omitempty"`
	// Context goes with the task.
	Context string `json:"context,omitempty"`
	// Active: background work was running, or the turn tells of some.
	Active bool `json:"active,omitempty"`
}

// reply is a model's answer. Arguments are text: they may be malformed.
type reply struct {
	Text  string      `json:"text,omitempty"`
	Calls []wish      `json:"calls,omitempty"`
	Stop  model.Stop  `json:"stop"`
	Usage model.Usage `json:"usage,omitzero"`
	Model string      `json:"model,omitempty"`
	// Opaque is what the adapter wants back with the next request.
	Opaque json.RawMessage `json:"opaque,omitempty"`
}

// wish is a call that the model wants made.
type wish struct {
	ID        string `json:"id,omitempty"`
	Name      string `json:"name"`
	Arguments string `json:"arguments,omitempty"`
}

func replyOf(res model.Response) reply {
	r := reply{Text: res.Text, Stop: res.Stop, Usage: res.Usage, Model: res.Model, Opaque: res.Opaque}
	for _, c := range res.Calls {
		r.Calls = append(r.Calls, wish{c.ID, c.Name, string(c.Arguments)})
	}
	return r
}

// outcome is what a call returned.
type outcome struct {
	Text   string `json:"text"`
	Failed bool   `json:"failed,omitempty"`
}

// sent is a dispatched subagent, or why there is none.
type sent struct {
	Run     string `json:"run,omitempty"`
	Problem string `json:"problem,omitempty"`
}

// step journals fn's result. An error that neither ends the run nor asks for another
// try comes from the platform: the run is tried again.
func step[T any](ctx context.Context, x *session, key string, fn func(context.Context) (T, error)) (T, error) {
	value, err := agent.Step(ctx, x.on, key, fn)
	return value, durable(err)
}

func durable(err error) error {
	if err == nil || isTerminal(err) || agent.IsRetryable(err) {
		return err
	}
	return agent.Retryable(err)
}

// readTask reads the input of a run: a text, {"task": "…"}, or any other JSON, which is
// itself the task.
func readTask(input json.RawMessage) (task string, disabled []string, err error) {
	if len(input) == 0 || string(input) == "null" {
		return "", nil, terminalf("no task was given: the input is a text or an object with a task")
	}
	if json.Unmarshal(input, &task) == nil {
		return task, nil, nil
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(input, &fields) != nil || fields["task"] == nil {
		return string(input), nil, nil
	}
	var in taskInput
	for name := range fields {
		if name != "task" && name != "disabled_tools" {
			return string(input), nil, nil
		}
	}
	if err := json.Unmarshal(input, &in); err != nil {
		return "", nil, terminalf("the input is not what this agent takes: %w", err)
	}
	if in.Task == "" {
		return "", nil, terminalf("the task is empty")
	}
	return in.Task, in.Disabled, nil
}

// taskInput is the input of an agent's run. Disabled names tools that are switched off
// for it and all below it.
type taskInput struct {
	Task     string   `json:"task"`
	Disabled []string `json:"disabled_tools,omitempty"`
}

const beginKey = "begin"

func modelKey(n int) string   { return fmt.Sprintf("model:%d", n) }
func toolKey(n, i int) string { return fmt.Sprintf("tool:%d:%d", n, i) }
func sendKey(n, i int) string { return fmt.Sprintf("send:%d:%d", n, i) }
