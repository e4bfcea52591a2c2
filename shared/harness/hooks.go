package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/model"
	"github.com/errand-dev/errand/shared/subagent"
)

// Hooks are called as an agent works. Each belongs to its agent alone: subagents have their
// own. What a hook is called for is a step of the journal, so it is called once for each,
// and again only after a crash or failure in between; End is called before the end is kept.
type Hooks struct {
	// Start is called before the first model call. Its error ends the run or turn, unless it
	// is agent.Retryable.
	Start func(ctx context.Context, v View) error
	// AfterModel is called with each answer of the model.
	AfterModel func(ctx context.Context, v View, r model.Response)
	// BeforeTool is called before each call of a tool. Its error refuses the call and is
	// told to the model, unless it is Terminal or agent.Retryable.
	BeforeTool func(ctx context.Context, v View, c model.Call) error
	// AfterTool is called with each result of a tool.
	AfterTool func(ctx context.Context, v View, c model.Call, r model.Result)
	// End is called with the answer, or with the error that ends the run or turn.
	End func(ctx context.Context, v View, answer string, err error)
}

// View is what hooks see of a run or turn. Changing it changes nothing.
type View struct {
	Tenant, Conversation string
	// Run or Turn is its id; the other is empty.
	Run, Turn string
	// Agent is the agent's name, Path that of those that lead to it (agent.Work.Path).
	Agent, Path string
	// Parent is the run that dispatched a run; empty if a turn or the API did.
	Parent string
	// Kind says where a turn comes from.
	Kind subagent.TurnKind
	// Message is the task, or the turn's message.
	Message string
	// Metadata came with a turn's message: who speaks, through which channel, to whom, with
	// what attached is the caller's to say there.
	Metadata map[string]string
}

// hookView makes the view that is given to a hook: a copy each time.
func (x *session) hookView() View {
	v := x.view
	v.Metadata = maps.Clone(v.Metadata)
	return v
}

// see completes the view of the session.
func (x *session) see(ctx context.Context) error {
	path, err := x.work.Path(ctx)
	x.view.Tenant, x.view.Conversation = x.work.Owner.Tenant, x.work.Owner.Conversation
	x.view.Agent, x.view.Path = x.Name, path
	return durable(err)
}

func runView(run *agent.Run, task string) View {
	return View{Run: run.ID, Parent: run.Parent, Message: task}
}

func turnView(t *agent.Turn) View {
	return View{Turn: t.ID, Kind: t.Kind, Message: t.Message, Metadata: t.Metadata}
}

// started calls the hook inside the step that keeps what the session begins with.
func (x *session) started(ctx context.Context) error {
	if x.Hooks.Start == nil {
		return nil
	}
	err := x.Hooks.Start(ctx, x.hookView())
	if err == nil || isTerminal(err) || agent.IsRetryable(err) {
		return err
	}
	return terminalf("start hook: %w", err)
}

func (x *session) answered(ctx context.Context, r reply) {
	if x.Hooks.AfterModel == nil {
		return
	}
	res := model.Response{Text: r.Text, Stop: r.Stop, Usage: r.Usage, Model: r.Model}
	for _, c := range r.Calls {
		res.Calls = append(res.Calls, c.call())
	}
	x.Hooks.AfterModel(ctx, x.hookView(), res)
}

func (w wish) call() model.Call {
	return model.Call{ID: w.ID, Name: w.Name, Arguments: json.RawMessage(w.Arguments)}
}

// hooked makes a call between its two hooks.
func (x *session) hooked(ctx context.Context, c wish, call func() (outcome, error)) (outcome, error) {
	o, err := x.permitted(ctx, c, call)
	if err == nil && x.Hooks.AfterTool != nil {
		x.Hooks.AfterTool(ctx, x.hookView(), c.call(), model.Result{CallID: c.ID, Text: o.Text, Failed: o.Failed})
	}
	return o, err
}

func (x *session) permitted(ctx context.Context, c wish, call func() (outcome, error)) (outcome, error) {
	if x.Hooks.BeforeTool == nil {
		return call()
	}
	switch err := x.Hooks.BeforeTool(ctx, x.hookView(), c.call()); {
	case err == nil:
		return call()
	case isTerminal(err), agent.IsRetryable(err):
		return outcome{}, err
	default:
		return outcome{Text: fmt.Sprintf("The call was refused: %v. Nothing was done.", err), Failed: true}, nil
	}
}

// end calls the hook if the session has really ended.
func (x *session) end(ctx context.Context, answer string, err error) {
	passing := agent.IsRetryable(err) || errors.Is(err, agent.ErrSuspended) || ctx.Err() != nil
	if x.Hooks.End != nil && !passing {
		x.Hooks.End(ctx, x.hookView(), answer, err)
	}
}
