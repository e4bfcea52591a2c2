package cases_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/harness"
	"github.com/errand-dev/errand/shared/model"
	"github.com/errand-dev/errand/shared/subagent"
)

// elsewhere cancels a run in another process over the same store: nobody tells this one.
func (w *world) elsewhere(id string) {
	w.Helper()
	other := *w.Service.Control
	other.Changed = nil
	_, err := other.Cancel(w.ctx(), owner, id, "")
	w.must(err)
}

// hanging registers an agent whose model, or whose tool, works until it is stopped, and
// records the cause.
func (w *world) hanging(name string) {
	w.Helper()
	until := func(ctx context.Context) error {
		w.record("begun")
		<-ctx.Done()
		w.record("stopped: %v", context.Cause(ctx))
		return context.Cause(ctx)
	}
	tool := harness.NewTool("look", "", func(ctx context.Context, _ struct{}) (string, error) { return "", until(ctx) })
	var m model.Model = vendor(func(ctx context.Context, _ int, _ string) (string, error) { return "", until(ctx) })
	if name == "tool" {
		m = lead{ID: "c", Name: "look"}
	}
	w.must(harness.Register(w.agents, harness.Agent{Name: name, Model: m, Tools: []harness.Tool{tool}}))
}

// A model call and a tool call are stopped by whatever ends their run, and hear why.
func TestAModelOrToolCallIsStoppedWithTheCause(t *testing.T) {
	for _, call := range []string{"model", "tool"} {
		for cause, end := range map[error]func(w *world){
			agent.ErrCancelled: func(w *world) { w.cancel("r1", "") },
			agent.ErrGivenUp:   func(w *world) { w.pass(subagent.DefaultNoProgressBudget + time.Minute) },
			agent.ErrHandOn:    func(w *world) { w.halt(); w.work() },
		} {
			t.Run(fmt.Sprintf("a %s call: %v", call, cause), func(t *testing.T) {
				bubble(t, func(w *world) {
					w.hanging(call)
					w.start()
					req := request("r1", call, quietly)
					req.Input = raw("go")
					w.dispatch(req)
					w.pass(time.Second)
					w.want("begun", w.called("begun"), []string{"begun"})
					end(w)
					w.want("stopped", w.called("stopped:"), []string{"stopped: " + cause.Error()})
				})
			})
		}
	}
}

// A cancel that another process writes is found by the next heartbeat of a call, and by the
// next step: no further one begins.
func TestACancelFromAnotherProcessIsFound(t *testing.T) {
	t.Run("by the heartbeat", func(t *testing.T) {
		bubble(t, func(w *world) {
			w.hanging("model")
			w.start()
			req := request("r1", "model", quietly)
			req.Input = raw("go")
			w.dispatch(req)
			w.pass(time.Second)
			w.elsewhere("r1")
			w.pass(0)
			w.want("at once", w.called("stopped:"), []string{})
			w.pass(w.Ledger.Terms.Lease)
			w.want("stopped", w.called("stopped:"), []string{"stopped: " + agent.ErrCancelled.Error()})
			w.want("status", w.run("r1").Status, subagent.Aborted)
		})
	})
	t.Run("by the next step", func(t *testing.T) {
		bubble(t, func(w *world) {
			w.task("steps", func(ctx context.Context, r *agent.Run) (any, error) {
				for i := range 5 {
					_, err := agent.Step(ctx, r, fmt.Sprint("s", i), func(context.Context) (bool, error) {
						w.record("step %d", i)
						time.Sleep(time.Second)
						return true, nil
					})
					if err != nil {
						w.record("refused: %v", err)
						return nil, err
					}
				}
				return nil, nil
			})
			w.start()
			w.dispatch(request("r1", "steps", quietly))
			w.pass(1500 * time.Millisecond)
			w.elsewhere("r1")
			w.pass(time.Second)
			w.want("steps", w.called("step"), []string{"step 0", "step 1"})
			w.want("refused", w.called("refused:"), []string{"refused: " + agent.ErrCancelled.Error()})
		})
	})
}

// A give-up is looked for after each tool: one that does not hear its context ends, and no
// further call is made.
func TestAfterAGiveUpNoFurtherCallIsMade(t *testing.T) {
	bubble(t, func(w *world) {
		tool := harness.NewTool("look", "", func(context.Context, struct{}) (string, error) {
			w.record("look")
			time.Sleep(2 * subagent.DefaultNoProgressBudget)
			return "seen", nil
		})
		w.must(harness.Register(w.agents, harness.Agent{Name: "deaf-tool", Model: lead{ID: "c", Name: "look"}, Tools: []harness.Tool{tool}}))
		w.start()
		req := request("r1", "deaf-tool", notify)
		req.Input = raw("go")
		w.dispatch(req)
		w.pass(subagent.DefaultNoProgressBudget + time.Minute)
		w.want("status", w.run("r1").Status, subagent.Interrupted)
		w.want("still running", w.run("r1").ChildStillRunning(), true)
		w.pass(subagent.DefaultNoProgressBudget)
		w.want("status", w.run("r1").Status, subagent.Interrupted)
		w.want("still running", w.run("r1").ChildStillRunning(), false)
		w.want("calls", w.called("look"), []string{"look"})
		cost, err := w.Service.RunCost(w.ctx(), owner, "r1")
		w.must(err)
		w.want("model calls", cost.Own.ModelCalls, int64(1))
		w.want("told", len(w.called("turn")), 1)
	})
}

// A run that is given up while its executor lets it go, to wait or to be handed on, is torn
// down by that: nobody works on it any more, and it is not watched.
func TestARunThatIsGivenUpWhileItIsLetGoIsTornDown(t *testing.T) {
	for name, rest := range map[string]func(context.Context, *world, *agent.Run) error{
		"to wait": func(ctx context.Context, _ *world, r *agent.Run) error { return r.Sleep(ctx, "nap", time.Hour) },
		"to be handed on": func(ctx context.Context, w *world, _ *agent.Run) error {
			w.record("works")
			<-ctx.Done()
			w.giveUp("r1")
			return context.Cause(ctx)
		},
		"to be tried again": func(_ context.Context, w *world, _ *agent.Run) error {
			w.giveUp("r1")
			return agent.Retryable(errors.New("the vendor is busy"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				w.task("leaves", func(ctx context.Context, r *agent.Run) (any, error) {
					if name == "to wait" {
						// Between its last look and its row: the fence is behind us.
						defer w.giveUp("r1")
					}
					return nil, rest(ctx, w, r)
				})
				w.start()
				w.dispatch(request("r1", "leaves", notify))
				w.pass(time.Second)
				if name == "to be handed on" {
					w.halt()
					w.work()
				}
				w.pass(time.Minute)
				w.want("status", w.run("r1").Status, subagent.Interrupted)
				w.want("still running", w.run("r1").ChildStillRunning(), false)
				w.want("finish", w.run("r1").Finish.State, subagent.Silent)
				w.want("armed", w.backbone().Armed, false)
			})
		})
	}
}
