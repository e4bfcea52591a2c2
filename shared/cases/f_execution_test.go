package cases_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/ledger"
	"github.com/errand-dev/errand/shared/platform"
	"github.com/errand-dev/errand/shared/subagent"
)

// F79: what a task returns is its output; a text is its own summary, other values are
// summed up as JSON, nothing is an empty summary. It survives a restart.
func TestF79OutputAndSummary(t *testing.T) {
	for name, c := range map[string]struct {
		value           any
		summary, output string
	}{
		"text":    {"fine", "fine", `"fine"`},
		"value":   {map[string]int{"rows": 3}, `{"rows":3}`, `{"rows":3}`},
		"nothing": {nil, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				w.task("returns", func(context.Context, *agent.Run) (any, error) { return c.value, nil })
				w.start()
				w.dispatch(request("r1", "returns", quietly))
				w.restart()
				run := w.run("r1")
				output, err := w.Ledger.LoadValue(w.ctx(), owner, run.Output)
				w.must(err)
				w.want("status", run.Status, subagent.Completed)
				w.want("summary", run.Summary, c.summary)
				w.want("output", output, c.output)
			})
		})
	}
}

// F79: an output that cannot be kept ends the run as an error, not in a loop.
func TestF79AnOutputThatCannotBeKeptIsAnError(t *testing.T) {
	bubble(t, func(w *world) {
		w.task("returns", func(context.Context, *agent.Run) (any, error) { return func() {}, nil })
		w.task("panics", func(context.Context, *agent.Run) (any, error) { panic("oh") })
		w.start()
		for _, task := range []string{"returns", "panics"} {
			w.dispatch(request(task, task, notify))
			w.pass(time.Second)
			w.want(task, w.run(task).Status, subagent.Error)
			w.want(task, w.run(task).Finish.State, subagent.Delivered)
		}
	})
}

// A run that is at work elsewhere while its conversation is deleted leaves nothing behind:
// neither a step that it finishes later nor an event.
func TestARunThatOutlivesItsConversationLeavesNothing(t *testing.T) {
	for name, further := range map[string]bool{"it ends": false, "it goes on": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				begun, leave := make(chan struct{}), make(chan struct{})
				ended := false
				w.task("late", func(ctx context.Context, run *agent.Run) (any, error) {
					_, err := agent.Step(ctx, run, "one", func(context.Context) (string, error) {
						close(begun)
						<-leave
						return "a secret", nil
					})
					if err == nil && further {
						_, err = agent.Step(ctx, run, "two", func(context.Context) (string, error) { return "more", nil })
					}
					ended = true
					return nil, err
				})
				w.start()
				w.dispatch(request("r1", "late", notify))
				<-begun
				// As another process does it: this one's executor is not told.
				elsewhere := *w.Service.Control
				elsewhere.Changed = nil
				life := ledger.LifeOf(w.run("r1"))
				w.must(elsewhere.Clear(w.ctx(), owner))
				close(leave)
				w.pass(time.Second)
				w.want("ended", ended, true)
				steps, err := w.Ledger.Steps(w.ctx(), life)
				w.must(err)
				w.want("steps", len(steps), 0)
				events, err := w.Ledger.Events(w.ctx(), owner, 0, 10)
				w.must(err)
				w.want("events", len(events), 0)
			})
		})
	}
}

// F80: a run whose every execution dies ends as an error that says so, and is delivered.
func TestF80ARunWhoseExecutorsDieEndsAsAnError(t *testing.T) {
	bubble(t, func(w *world) {
		w.open()
		w.dispatch(request("r1", "idle", byNote))
		for range 50 {
			if w.run("r1").Status != subagent.Queued && w.run("r1").Status != subagent.Running {
				break
			}
			for _, wake := range w.take(platform.Runs) {
				w.rule(wake.Run, func(r subagent.Run) (subagent.Run, subagent.Outcome) {
					return r.Acquire(w.Ledger.Token(), w.Ledger.Now(), w.Ledger.Terms)
				})
			}
			w.pass(3 * time.Minute)
			w.drain(platform.Ticks)
		}
		w.drain(platform.Turns)
		run := w.run("r1")
		w.want("status", run.Status, subagent.Error)
		w.want("reason", run.Reason, subagent.ReasonExecutorLost)
		w.want("executions", run.Exec.Epoch, int64(w.Ledger.Terms.MaxExecutions))
		w.want("handler", w.called("note"), []string{"note r1 error"})
	})
}

// F81: a cancel is an end with its reason; what the task returns later changes nothing.
func TestF81ALateResultDoesNotReplaceACancel(t *testing.T) {
	bubble(t, func(w *world) {
		w.start()
		w.dispatch(request("r1", "deaf", notify))
		w.cancel("r1", "wrong file")
		w.free("r1")
		w.pass(time.Hour)
		run := w.run("r1")
		w.want("status", run.Status, subagent.Aborted)
		w.want("problem", run.Problem, "wrong file")
		w.want("output", run.Output, subagent.Value{})
		w.want("turns", len(w.called("turn")), 1)
	})
}

// F82: nothing of a run stays in the executor after it.
func TestF82NothingStaysBehindInTheExecutor(t *testing.T) {
	bubble(t, func(w *world) {
		w.start()
		for i, task := range []string{"done", "fails", "idle", "gated"} {
			w.dispatch(request(fmt.Sprint(i), task, notify))
		}
		w.want("at work", w.Executor.Running(), 2)
		w.cancel("2", "")
		w.free("3")
		w.pass(time.Minute)
		w.want("afterwards", w.Executor.Running(), 0)
	})
}

// F83 and F86: the log of a conversation is numbered upwards, also over a restart, and
// reading on after any number misses and repeats nothing.
func TestF83TheLogIsNumberedAndResumable(t *testing.T) {
	bubble(t, func(w *world) {
		w.start()
		w.dispatch(request("r1", "done", notify))
		w.pass(time.Second)
		w.restart()
		w.dispatch(request("r2", "fails", byNote))
		w.pass(time.Second)
		w.kill()
		w.work()
		w.dispatch(request("r3", "done", notify))
		w.pass(time.Second)
		all, err := w.Ledger.Events(w.ctx(), owner, 0, 10_000)
		w.must(err)
		if len(all) < 20 {
			t.Fatalf("%d events", len(all))
		}
		for i, e := range all {
			if i > 0 && e.Seq <= all[i-1].Seq {
				t.Errorf("event %d has number %d after %d", i, e.Seq, all[i-1].Seq)
			}
			rest, err := w.Ledger.Events(w.ctx(), owner, e.Seq, 10_000)
			w.must(err)
			w.want(fmt.Sprintf("after %d", e.Seq), len(rest), len(all)-i-1)
			next, err := w.Ledger.Events(w.ctx(), owner, e.Seq, 1)
			w.must(err)
			if i+1 < len(all) && (len(next) != 1 || next[0].Seq != all[i+1].Seq) {
				t.Errorf("one event after %d: %+v", e.Seq, next)
			}
		}
	})
}

// F85: milestones and the end of a run are in the log in the order in which they came.
func TestF85MilestonesAreInTheLogInOrder(t *testing.T) {
	bubble(t, func(w *world) {
		w.milestones("import", "one", "two", "one")
		w.start()
		w.dispatch(request("r1", "import", quietly))
		w.free("r1")
		w.pass(time.Second)
		got := []string{}
		for _, e := range w.events("run.milestone", "r1") {
			var m struct {
				Name     string `json:"name"`
				Sequence int    `json:"sequence"`
			}
			w.must(json.Unmarshal(e.Data, &m))
			got = append(got, fmt.Sprint(m.Sequence, m.Name))
		}
		w.want("milestones", got, []string{"0one", "1two", "2one"})
	})
}

// F87: a watcher that leaves disturbs neither the run nor another watcher.
func TestF87AWatcherThatLeavesDisturbsNobody(t *testing.T) {
	bubble(t, func(w *world) {
		w.start()
		w.dispatch(request("r1", "gated", quietly))
		_, leave, _ := w.Ledger.WatchRun(owner, "r1")
		changed, stop, watching := w.Ledger.WatchRun(owner, "r1")
		defer stop()
		w.want("watching", watching, true)
		leave()
		w.free("r1")
		w.pass(time.Second)
		select {
		case <-changed:
		default:
			t.Error("the other watcher heard nothing")
		}
		w.want("status", w.run("r1").Status, subagent.Completed)
	})
}

// F88 to F91: runs at the same time do not mix: each ends with its own result or error,
// with nobody watching, and after a restart.
func TestF88RunsDoNotMix(t *testing.T) {
	bubble(t, func(w *world) {
		w.task("own", func(ctx context.Context, r *agent.Run) (any, error) {
			select {
			case <-w.gate("all"):
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
			if r.ID == "r3" {
				return nil, errors.New("the error of " + r.ID)
			}
			return "the result of " + r.ID, nil
		})
		w.start()
		for i := range 6 {
			w.dispatch(request(fmt.Sprintf("r%d", i), "own", quietly))
		}
		w.restart()
		w.free("all")
		w.pass(time.Minute)
		for i := range 6 {
			run := w.run(fmt.Sprintf("r%d", i))
			if run.ID == "r3" {
				w.want(run.ID, run.Problem, "the error of r3")
				continue
			}
			w.want(run.ID, run.Summary, "the result of "+run.ID)
		}
	})
}

// F92 and F93: after a kill the run goes on as the next execution from its journal, or
// ends as an error that is its own.
func TestF93AKilledRunGoesOnFromItsJournal(t *testing.T) {
	bubble(t, func(w *world) {
		w.task("steps", func(ctx context.Context, r *agent.Run) (any, error) {
			for i := range 4 {
				_, err := agent.Step(ctx, r, fmt.Sprintf("step-%d", i), func(ctx context.Context) (int, error) {
					w.record("step %d", i)
					if i == 2 {
						select {
						case <-w.gate("two"):
						case <-ctx.Done():
							return 0, context.Cause(ctx)
						}
					}
					return i, nil
				})
				if err != nil {
					return nil, err
				}
			}
			return fmt.Sprintf("after %d executions", r.Attempt), nil
		})
		w.start()
		w.dispatch(request("r1", "steps", notify))
		w.pass(time.Second)
		w.kill()
		w.work()
		w.pass(time.Second)
		w.free("two")
		w.pass(time.Minute)
		w.want("steps", w.called("step"), []string{"step 0", "step 1", "step 2", "step 2", "step 3"})
		w.want("summary", w.run("r1").Summary, "after 2 executions")
		w.want("messages", len(w.transcript()), 2)
	})
}

// F94 and F95: a cancel ends the context of the task with its cause, also in an execution
// after a restart, and no step begins after it.
func TestF94ACancelReachesTheTask(t *testing.T) {
	bubble(t, func(w *world) {
		w.task("asks", func(ctx context.Context, r *agent.Run) (any, error) {
			<-ctx.Done()
			w.record("cause %v", context.Cause(ctx))
			if errors.Is(context.Cause(ctx), agent.ErrHandOn) {
				return nil, context.Cause(ctx)
			}
			_, err := agent.Step(context.WithoutCancel(ctx), r, "after", func(context.Context) (int, error) {
				w.record("step after the cancel")
				return 0, nil
			})
			return nil, err
		})
		w.start()
		w.dispatch(request("r1", "asks", quietly))
		w.restart()
		w.cancel("r1", "")
		w.want("causes", w.called("cause"), []string{"cause the executor hands the run on", "cause the run was cancelled"})
		w.want("steps", w.called("step"), []string{})
	})
}

// F94: a run that was dispatched before its parent's cancel and starts after it sees it
// before its first step.
func TestF94ACancelReachesAChildThatStartsLater(t *testing.T) {
	bubble(t, func(w *world) {
		w.dispatcher("mid", "leaf", "gated", quietly)
		w.dispatcher("boss", "middle", "mid", quietly)
		w.start()
		w.dispatch(request("top", "boss", quietly))
		w.pass(time.Second)
		w.want("leaf", w.run("leaf").Status, subagent.Running)
		w.want("middle", w.run("middle").Status, subagent.Completed)
		w.want("an ended run has nothing to cancel", w.cancel("middle", "").Status, subagent.Completed)
		w.want("but what stands below it", w.run("leaf").Status, subagent.Aborted)
	})
}

// A failed execution that asks for it is repeated after a pause, and succeeds.
func TestARetryableErrorIsTriedAgain(t *testing.T) {
	bubble(t, func(w *world) {
		w.task("third", func(_ context.Context, r *agent.Run) (any, error) {
			if r.Attempt < 3 {
				return nil, agent.Retryable(errors.New("not yet"))
			}
			return "at last", nil
		})
		w.start()
		w.dispatch(request("r1", "third", notify))
		w.pass(time.Minute)
		w.want("summary", w.run("r1").Summary, "at last")
		w.want("messages", len(w.transcript()), 2)
	})
}
