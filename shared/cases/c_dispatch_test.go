package cases_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/platform"
	"github.com/errand-dev/errand/shared/subagent"
)

// C33: a dispatch returns before the child has started; the row is there first; the
// start hook is called once; the log begins with the dispatch.
func TestC33ADispatchReturnsAtOnce(t *testing.T) {
	bubble(t, func(w *world) {
		w.agents.OnStart = func(_ context.Context, d agent.Delivery) error {
			w.record("start %s %s", d.Run.ID, w.run(d.Run.ID).Status)
			return nil
		}
		w.open()
		run := w.dispatch(request("r1", "gated", quietly))
		w.want("handle", run.Status, subagent.Queued)
		w.want("started before", w.called("start"), []string{})
		w.work()
		w.restart()
		w.free("r1")
		w.pass(time.Minute)
		w.want("start hook", w.called("start"), []string{"start r1 running"})
		w.want("status", w.run("r1").Status, subagent.Completed)
		all, err := w.Ledger.Events(w.ctx(), owner, 0, 100)
		w.must(err)
		for _, e := range all {
			if e.Run == "r1" {
				w.want("first event of the run", e.Type, "run.dispatched")
				return
			}
		}
		t.Error("the run left no event")
	})
}

// C33: a start hook that fails retryably is called again, and the task does not run
// without it.
func TestC33TheTaskDoesNotRunBeforeItsStartHookSucceeded(t *testing.T) {
	bubble(t, func(w *world) {
		failed := false
		w.agents.OnStart = func(_ context.Context, d agent.Delivery) error {
			w.record("start %s", d.Run.ID)
			if !failed {
				failed = true
				return agent.Retryable(errors.New("not yet"))
			}
			return nil
		}
		w.task("observed", func(_ context.Context, r *agent.Run) (any, error) {
			w.record("task %s", r.ID)
			return nil, nil
		})
		w.start()
		w.dispatch(request("r1", "observed", quietly))
		w.pass(time.Minute)
		w.want("calls", w.called("start", "task"), []string{"start r1", "start r1", "task r1"})
	})
}

// C34: the same run id is the same run: one execution, the first options stand.
func TestC34TheSameIDIsTheSameRun(t *testing.T) {
	bubble(t, func(w *world) {
		w.start()
		first := request("r1", "gated", notify)
		first.Input = raw("one")
		w.dispatch(first)
		again := request("r1", "done", byNote)
		again.Input = raw("two")
		again.Budget.Max = time.Minute
		run, known, err := w.Service.Dispatcher.Start(w.ctx(), again)
		w.must(err)
		w.want("known", known, true)
		w.want("agent", run.Agent, "gated")
		w.want("input", run.Input.Inline, `"one"`)
		w.want("handler", run.Notice.Handler, "")
		w.free("r1")
		w.pass(time.Minute)
		w.want("executions", w.run("r1").Exec.Epoch, int64(1))
		w.want("dispatches", len(w.events("run.dispatched", "r1")), 1)
		w.want("messages", len(w.transcript()), 2)
	})
}

// C34: of ten dispatches of one id at the same time, one starts the run.
func TestC34ConcurrentDispatchesOfOneIDStartOneRun(t *testing.T) {
	bubble(t, func(w *world) {
		w.start()
		var dispatches sync.WaitGroup
		var mu sync.Mutex
		started := 0
		for range 10 {
			dispatches.Go(func() {
				_, known, err := w.Service.Dispatcher.Start(w.ctx(), request("r1", "done", notify))
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				if !known {
					started++
				}
			})
		}
		dispatches.Wait()
		w.pass(time.Minute)
		w.want("started", started, 1)
		w.want("executions", w.run("r1").Exec.Epoch, int64(1))
		w.want("messages", len(w.transcript()), 2)
	})
}

// C35: an unknown handler, agent or budget is an error at once, and leaves nothing.
func TestC35ABadDispatchLeavesNothing(t *testing.T) {
	bubble(t, func(w *world) {
		w.open()
		bad := request("r1", "done", quietly)
		bad.Budget.Max = -time.Hour
		for _, c := range []struct {
			req  func() error
			want error
		}{
			{func() error { return w.try("r1", "done", subagent.Notice{Handler: "nobody"}) }, agent.ErrUnknownHandler},
			{func() error { return w.try("r1", "nobody", quietly) }, agent.ErrUnknownAgent},
			{func() error { return w.try("no/id", "done", quietly) }, subagent.ErrInvalidID},
			{func() error { _, _, err := w.Service.Dispatcher.Start(w.ctx(), bad); return err }, subagent.ErrInvalidBudget},
		} {
			if err := c.req(); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		}
		w.want("row", w.run("r1").Status, subagent.Status(""))
		w.want("backbone", w.backbone().Version, int64(0))
		w.pass(time.Hour)
		w.want("ticks", len(w.take(platform.Ticks)), 0)
		w.want("jobs", len(w.take(platform.Runs)), 0)
	})
}

func (w *world) try(run, task string, n subagent.Notice) error {
	_, _, err := w.Service.Dispatcher.Start(w.ctx(), request(run, task, n))
	return err
}

// C36: a message to a conversation that has no agent is accepted and shown; nobody
// reacts, the slot closes.
func TestC36NotifyWithoutAChatIsShownAndNobodyReacts(t *testing.T) {
	bubble(t, func(w *world) {
		w.agents.DefaultChat = ""
		w.start()
		w.dispatch(request("r1", "done", notify))
		w.pass(time.Minute)
		w.want("finish", w.run("r1").Finish.State, subagent.Delivered)
		w.want("calls", w.called(), []string{"hook r1 completed"})
		w.want("messages", len(w.transcript()), 1)
	})
}

// C37: the end of the dispatcher's context after the dispatch does not reach the run.
func TestC37TheDispatchersContextDoesNotReachTheRun(t *testing.T) {
	bubble(t, func(w *world) {
		w.start()
		ctx, cancel := context.WithCancel(context.Background())
		_, _, err := w.Service.Dispatcher.Start(ctx, request("r1", "gated", quietly))
		w.must(err)
		cancel()
		w.pass(time.Minute)
		w.want("status", w.run("r1").Status, subagent.Running)
	})
}

// C38: a run whose start fails ends as an error that is delivered, and frees its place.
func TestC38AFailedStartIsAnEndThatIsDelivered(t *testing.T) {
	bubble(t, func(w *world) {
		w.options.MaxConcurrentRuns = 1
		w.agents.OnStart = func(_ context.Context, d agent.Delivery) error {
			if d.Run.ID == "r1" {
				return errors.New("no room")
			}
			return nil
		}
		w.start()
		w.dispatch(request("r1", "done", byNote))
		w.pass(time.Second)
		run := w.run("r1")
		w.want("status", run.Status, subagent.Error)
		w.want("problem", run.Problem, "start hook: no room")
		w.want("handler", w.called("note"), []string{"note r1 error"})
		w.dispatch(request("r2", "done", quietly))
		w.want("next", w.run("r2").Status, subagent.Completed)
	})
}

// C39 and C40: at the cap a dispatch fails at once with a typed error, without a queue;
// after the others have settled there is room again, also for the same id.
func TestC39BeyondTheCapADispatchFailsAtOnce(t *testing.T) {
	bubble(t, func(w *world) {
		w.options.MaxConcurrentRuns = 2
		w.start()
		var dispatches sync.WaitGroup
		errs := make([]error, 3)
		for i := range errs {
			dispatches.Go(func() { errs[i] = w.try(fmt.Sprintf("r%d", i), "gated", notify) })
		}
		dispatches.Wait()
		var full *agent.CapError
		refused := []int{}
		for i, err := range errs {
			switch {
			case errors.As(err, &full):
				refused = append(refused, i)
			case err != nil:
				t.Error(err)
			}
		}
		if len(refused) != 1 || full.Cap != 2 || !strings.Contains(full.Error(), "2 background runs") {
			t.Fatalf("refused: %v, %v", refused, full)
		}
		for i := range errs {
			w.free(fmt.Sprintf("r%d", i))
		}
		w.pass(time.Second)
		again := fmt.Sprintf("r%d", refused[0])
		w.want("row of the refused", w.run(again).Status, subagent.Status(""))
		w.must(w.try(again, "done", notify))
		w.must(w.try("r9", "done", notify))
		w.pass(time.Second)
		for _, id := range []string{"r0", "r1", "r2", "r9"} {
			w.want(id, w.run(id).Status, subagent.Completed)
		}
	})
}

// C41: without a setting the cap is 64.
func TestC41TheDefaultCapIs64(t *testing.T) {
	bubble(t, func(w *world) {
		w.open()
		for i := range 64 {
			w.dispatch(request(fmt.Sprintf("r%d", i), "idle", quietly))
		}
		var full *agent.CapError
		if err := w.try("one-more", "idle", quietly); !errors.As(err, &full) || full.Cap != 64 {
			t.Errorf("the 65th: %v", err)
		}
	})
}

// C42 and C43: a given-up run frees its place at once, a running one keeps it.
func TestC42AGivenUpRunHoldsNoPlace(t *testing.T) {
	bubble(t, func(w *world) {
		w.options.MaxConcurrentRuns = 1
		w.open()
		w.dispatch(request("r1", "idle", quietly))
		w.lost("r1")
		var full *agent.CapError
		if err := w.try("r2", "idle", quietly); !errors.As(err, &full) {
			t.Errorf("while it runs: %v", err)
		}
		w.giveUp("r1")
		w.must(w.try("r2", "idle", quietly))
	})
}

// C44: the cap counts runs of one conversation, of every depth.
func TestC44TheCapIsPerConversation(t *testing.T) {
	bubble(t, func(w *world) {
		w.options.MaxConcurrentRuns = 1
		w.open()
		w.dispatch(request("r1", "idle", quietly))
		other := request("r1", "idle", quietly)
		other.Owner.Conversation = "c2"
		w.dispatch(other)
		other.Owner.Tenant = "somebody"
		w.dispatch(other)
	})
}

// C45 and C46: a chain of three runs ends at every level; each run is told to the run that
// dispatched it, and the log tells them apart.
func TestC45AChainOfThreeIsToldLevelByLevel(t *testing.T) {
	bubble(t, func(w *world) {
		level := func(child, task string) agent.Task {
			return func(ctx context.Context, r *agent.Run) (any, error) {
				if _, err := r.Dispatch(ctx, agent.Dispatch{RunID: child, Agent: task, Notice: notify}); err != nil {
					return nil, err
				}
				select {
				case <-w.gate(r.ID):
				case <-ctx.Done():
					return nil, context.Cause(ctx)
				}
				messages, err := r.Inbox(ctx)
				for _, m := range messages {
					w.record("inbox %s: %s of %s", r.ID, m.ID, m.From)
				}
				return nil, err
			}
		}
		w.task("top", level("middle", "mid"))
		w.task("mid", level("bottom", "done"))
		w.start()
		w.dispatch(request("top", "top", notify))
		w.pass(time.Second)
		w.free("middle")
		w.pass(time.Second)
		w.free("top")
		w.pass(time.Second)
		w.want("inboxes", w.called("inbox"), []string{
			"inbox middle: detached-finish:bottom:completed of bottom",
			"inbox top: detached-finish:middle:completed of middle"})
		for _, id := range []string{"top", "middle", "bottom"} {
			w.want(id, w.run(id).Status, subagent.Completed)
			w.want("ends of "+id, len(w.events("run.ended", id)), 1)
		}
		w.want("turns", w.called("turn"), []string{`turn finish: The background task "top" (run top) has completed.`})
	})
}

// C47: a turn or run that is executed again dispatches the same run, by key or by place.
func TestC47ExecutedAgainTheDispatchIsTheSameRun(t *testing.T) {
	bubble(t, func(w *world) {
		w.task("twice", func(ctx context.Context, r *agent.Run) (any, error) {
			for _, key := range []string{"", "by-key"} {
				child, err := r.Dispatch(ctx, agent.Dispatch{Key: key, Agent: "done", Notice: quietly})
				if err != nil {
					return nil, err
				}
				w.record("child %s", child.ID)
			}
			if r.Attempt == 1 {
				return nil, agent.Retryable(errors.New("once more"))
			}
			return nil, nil
		})
		w.start()
		w.dispatch(request("r1", "twice", quietly))
		w.pass(time.Minute)
		children := w.called("child")
		if len(children) != 4 || children[0] != children[2] || children[1] != children[3] || children[0] == children[1] {
			t.Errorf("children of two executions: %v", children)
		}
		w.want("dispatched", len(w.events("run.dispatched", "")), 3)
	})
}

// C50: what is shown of a long result is cut at a character, with an ellipsis; the whole
// of it is kept apart from the control row.
func TestC50ALongResultIsShownCutAndKeptWhole(t *testing.T) {
	bubble(t, func(w *world) {
		long := strings.Repeat("é", 5000)
		w.task("long", func(context.Context, *agent.Run) (any, error) { return long, nil })
		w.start()
		req := request("r1", "long", notify)
		req.Input = raw(long)
		w.dispatch(req)
		w.pass(time.Second)
		run := w.run("r1")
		if want := strings.Repeat("é", 98) + "..."; run.Summary != want {
			t.Errorf("summary: %q, want %q", run.Summary, want)
		}
		w.want("input in the row", run.Input.Inline, "")
		for _, v := range []subagent.Value{run.Input, run.Output} {
			text, err := w.Ledger.LoadValue(w.ctx(), owner, v)
			w.must(err)
			w.want("kept", text, string(raw(long)))
		}
	})
}
