package cases_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/platform"
	"github.com/errand-dev/errand/shared/subagent"
)

// awaiting registers a task that awaits one child and returns what it heard.
func (w *world) awaiting(name, task string, budget subagent.Budget) {
	w.Helper()
	w.task(name, func(ctx context.Context, r *agent.Run) (any, error) {
		w.record("execution %s", r.ID)
		child, err := r.Dispatch(ctx, agent.Dispatch{RunID: "child", Agent: task, Awaited: true, Budget: budget})
		if err != nil {
			return nil, err
		}
		result, err := r.Await(ctx, child.ID)
		if err != nil {
			return nil, err
		}
		return string(result.Status) + " " + result.Summary + result.Problem + result.Reason + " " + string(result.Output), nil
	})
}

// G96 and G107: an awaiting run holds no process; the child's end resumes it, with the
// child's result, once. The hook hears of both runs.
func TestG96AnAwaitingRunHoldsNoProcess(t *testing.T) {
	bubble(t, func(w *world) {
		w.awaiting("boss", "gated", subagent.Budget{})
		w.start()
		w.dispatch(request("boss", "boss", quietly))
		w.pass(time.Hour)
		w.want("parent", w.run("boss").Status, subagent.Waiting)
		w.want("waits for", w.run("boss").Wait.Runs, []string{"child"})
		w.want("at work", w.Executor.Running(), 1)
		w.want("executions", len(w.called("execution")), 1)
		w.free("child")
		w.pass(time.Second)
		w.want("result", w.run("boss").Summary, `completed the result "the result"`)
		w.want("executions", len(w.called("execution")), 2)
		w.want("hooks", w.called("hook"), []string{"hook child completed", "hook boss completed"})
		w.want("armed", w.backbone().Armed, false)
		w.want("messages", w.transcript(), []string{})
	})
}

// G96: a child that ended before its parent waited for it is collected at once.
func TestG96AChildThatEndedFirstIsCollected(t *testing.T) {
	bubble(t, func(w *world) {
		w.task("boss", func(ctx context.Context, r *agent.Run) (any, error) {
			child, err := r.Dispatch(ctx, agent.Dispatch{RunID: "child", Agent: "done", Awaited: true})
			if err != nil {
				return nil, err
			}
			select {
			case <-w.gate("boss"):
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
			result, err := r.Await(ctx, child.ID)
			return result.Summary, err
		})
		w.start()
		w.dispatch(request("boss", "boss", quietly))
		w.pass(time.Minute)
		w.free("boss")
		w.pass(time.Second)
		w.want("result", w.run("boss").Summary, "the result")
		w.want("executions", w.run("boss").Exec.Epoch, int64(1))
	})
}

// G97 and G125: parent and child go on after a kill, and the result is collected.
func TestG97AfterAKillTheChildIsCollected(t *testing.T) {
	bubble(t, func(w *world) {
		w.awaiting("boss", "gated", subagent.Budget{})
		w.start()
		w.dispatch(request("boss", "boss", quietly))
		w.pass(time.Second)
		w.kill()
		w.work()
		w.pass(time.Minute)
		w.free("child")
		w.pass(time.Minute)
		w.want("result", w.run("boss").Summary, `completed the result "the result"`)
		w.want("dispatched", len(w.events("run.dispatched", "child")), 1)
	})
}

// G97: the signal of the child's end was lost: the tick resumes the parent.
func TestG97ALostSignalIsReplacedByTheTick(t *testing.T) {
	bubble(t, func(w *world) {
		w.awaiting("boss", "done", subagent.Budget{})
		w.open()
		w.dispatch(request("boss", "boss", quietly))
		r, _ := w.receive(platform.Runs)
		w.must(w.Executor.Run(w.ctx(), w.wakeOf(r)))
		w.must(w.Receiver().Acknowledge(w.ctx(), r))
		w.want("parent", w.run("boss").Status, subagent.Waiting)
		r, _ = w.receive(platform.Runs)
		w.must(w.Executor.Run(w.ctx(), w.wakeOf(r)))
		w.must(w.Receiver().Acknowledge(w.ctx(), r))
		w.want("child", w.run("child").Finish.State, subagent.Delivered)
		w.want("the signal, lost", len(w.take(platform.Runs)), 1)
		w.tick()
		w.drain(platform.Runs)
		w.want("result", w.run("boss").Summary, `completed the result "the result"`)
	})
}

// G98 and G100: a silent child is given up, and the awaiting run hears why; one that
// ends all the same is repaired in its row.
func TestG98AnAwaitedChildThatIsGivenUpIsHeard(t *testing.T) {
	bubble(t, func(w *world) {
		w.awaiting("boss", "deaf", subagent.Budget{Max: 10 * time.Minute})
		w.start()
		w.dispatch(request("boss", "boss", quietly))
		w.pass(13 * time.Minute)
		w.want("result", w.run("boss").Summary, "interrupted budget-exceeded ")
		w.free("child")
		w.pass(time.Minute)
		w.want("child", w.run("child").Status, subagent.Completed)
		w.want("reason", w.run("child").Reason, "")
		w.pass(time.Hour)
		w.want("armed", w.backbone().Armed, false)
	})
}

// G99: a child that obeys its give-up is torn down, and the awaiting run hears once.
func TestG99AnAwaitedChildThatObeysIsTornDown(t *testing.T) {
	bubble(t, func(w *world) {
		w.awaiting("boss", "idle", subagent.Budget{Max: 10 * time.Minute})
		w.start()
		w.dispatch(request("boss", "boss", notify))
		w.pass(time.Hour)
		w.want("result", w.run("boss").Summary, "interrupted budget-exceeded ")
		w.want("child", w.run("child").ChildStillRunning(), false)
		w.want("turns", len(w.called("turn")), 1)
	})
}

// G102: a child that hangs keeps nobody from the result of another.
func TestG102AHungChildStarvesNoSibling(t *testing.T) {
	bubble(t, func(w *world) {
		w.task("boss", func(ctx context.Context, r *agent.Run) (any, error) {
			for child, task := range map[string]string{"hung": "idle", "fine": "done"} {
				if _, err := r.Dispatch(ctx, agent.Dispatch{RunID: child, Agent: task, Awaited: true}); err != nil {
					return nil, err
				}
			}
			result, err := r.Await(ctx, "fine")
			return result.Summary, err
		})
		w.start()
		w.dispatch(request("boss", "boss", quietly))
		w.pass(time.Minute)
		w.want("result", w.run("boss").Summary, "the result")
	})
}

// G107: an awaited child's error is a result like another.
func TestG107AnAwaitedChildsErrorIsAResult(t *testing.T) {
	bubble(t, func(w *world) {
		w.awaiting("boss", "fails", subagent.Budget{})
		w.start()
		w.dispatch(request("boss", "boss", quietly))
		w.pass(time.Second)
		w.want("result", w.run("boss").Summary, "error it broke ")
	})
}

// A run can wait for any run of its conversation but itself and those above it.
func TestARunCannotWaitForItself(t *testing.T) {
	bubble(t, func(w *world) {
		w.task("inner", func(ctx context.Context, r *agent.Run) (any, error) {
			for _, id := range []string{"r1", r.ID, "unknown"} {
				_, err := r.Await(ctx, id)
				w.record("await %s %v %v", id, errors.Is(err, agent.ErrWaitsForItself), errors.Is(err, agent.ErrNoRun))
			}
			return nil, nil
		})
		w.dispatcher("outer", "r2", "inner", quietly)
		w.start()
		w.dispatch(request("r1", "outer", quietly))
		w.pass(time.Second)
		w.want("answers", w.called("await"), []string{"await r1 true false", "await r2 true false", "await unknown false true"})
	})
}

// A cancel of the awaiting run cancels its child, while nobody executes the parent.
func TestCancellingAnAwaitingRunCancelsItsChild(t *testing.T) {
	bubble(t, func(w *world) {
		w.awaiting("boss", "idle", subagent.Budget{})
		w.start()
		w.dispatch(request("boss", "boss", byNote))
		w.pass(time.Second)
		w.cancel("boss", "")
		w.pass(time.Hour)
		w.want("parent", w.run("boss").Status, subagent.Aborted)
		w.want("child", w.run("child").Status, subagent.Aborted)
		w.want("handler", w.called("note"), []string{"note boss aborted"})
		w.want("executions", len(w.called("execution")), 1)
	})
}
