package cases_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/platform"
	"github.com/errand-dev/errand/shared/subagent"
)

// waiter registers a task that waits as told and returns what it heard.
func (w *world) waiter(name string, wait func(context.Context, *agent.Run) (string, error)) {
	w.Helper()
	w.task(name, func(ctx context.Context, r *agent.Run) (any, error) {
		w.record("execution %s", r.ID)
		return wait(ctx, r)
	})
}

// reaches registers a task that passes the milestone when the gate of its run opens, and
// ends when that of "end" does.
func (w *world) reaches(name, milestone string) {
	w.Helper()
	w.task(name, func(ctx context.Context, r *agent.Run) (any, error) {
		for _, gate := range []string{r.ID, "end"} {
			select {
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			case <-w.gate(gate):
			}
			if gate == r.ID {
				if err := r.Milestone(ctx, milestone, map[string]int{"columns": 7}); err != nil {
					return nil, err
				}
			}
		}
		return "the result", nil
	})
}

// dispatched starts a run from a turn, told by a message at its end.
func dispatched(ctx context.Context, t *agent.Turn, id, task string) error {
	_, err := t.Dispatch(ctx, agent.Dispatch{RunID: id, Agent: task, Notice: notify})
	return err
}

func TestASleepingRunHoldsNoProcess(t *testing.T) {
	bubble(t, func(w *world) {
		w.waiter("sleeper", func(ctx context.Context, r *agent.Run) (string, error) {
			first, err := agent.Step(ctx, r, "first", func(context.Context) (string, error) {
				w.record("step")
				return "once", nil
			})
			if err != nil {
				return "", err
			}
			return first, r.Sleep(ctx, "nap", 10*time.Hour)
		})
		w.start()
		w.dispatch(request("r1", "sleeper", notify))
		w.pass(10*time.Hour - time.Second)
		w.want("status", w.run("r1").Status, subagent.Waiting)
		w.want("at work", w.Executor.Running(), 0)
		w.want("executions", len(w.called("execution")), 1)
		w.pass(7 * time.Second) // a sleep beyond the queue's longest delay ends with a tick
		w.want("status", w.run("r1").Status, subagent.Completed)
		w.want("result", w.run("r1").Summary, "once")
		w.want("steps", len(w.called("step")), 1)
		w.want("executions", len(w.called("execution")), 2)
	})
}

func TestAShortSleepEndsOnTime(t *testing.T) {
	bubble(t, func(w *world) {
		w.waiter("sleeper", func(ctx context.Context, r *agent.Run) (string, error) {
			return "", r.Sleep(ctx, "nap", 90*time.Second)
		})
		w.start()
		begun := w.dispatch(request("r1", "sleeper", notify)).DispatchedAt
		w.pass(2 * time.Minute)
		w.want("ended", w.run("r1").EndedAt, begun.Add(90*time.Second))
	})
}

func TestJoins(t *testing.T) {
	for _, c := range []struct {
		name   string
		join   agent.Join
		free   []string
		result string
	}{
		{"all", agent.Join{}, []string{"c1", "c2", "c3"}, "completed completed completed"},
		{"any", agent.Join{Need: 1}, []string{"c2"}, "running completed running"},
		{"two of three", agent.Join{Need: 2}, []string{"c3", "c1"}, "completed running completed"},
		{"the deadline", agent.Join{Within: time.Hour}, []string{"c1"}, "completed running running"},
		{"nobody in time", agent.Join{Within: time.Hour, Need: 1}, nil, "running running running"},
		{"one that is named twice counts once", agent.Join{Runs: []string{"c1"}, Need: 2}, []string{"c1", "c3"}, "completed completed running completed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(w *world) {
				w.waiter("boss", func(ctx context.Context, r *agent.Run) (string, error) {
					j := c.join
					for _, id := range []string{"c1", "c2", "c3"} {
						if _, err := r.Dispatch(ctx, agent.Dispatch{RunID: id, Agent: "gated", Awaited: id != "c2"}); err != nil {
							return "", err
						}
						j.Runs = append(j.Runs, id)
					}
					results, err := r.Join(ctx, "all", j)
					if err != nil {
						return "", err
					}
					var heard []string
					for _, result := range results {
						heard = append(heard, string(result.Status))
						w.want("output", len(result.Output) > 0, result.Status == subagent.Completed)
					}
					_, err = r.Inbox(ctx) // a write, so that a second execution has something to do
					return strings.Join(heard, " "), err
				})
				w.start()
				w.dispatch(request("boss", "boss", quietly))
				w.pass(30 * time.Minute)
				w.want("status", w.run("boss").Status, subagent.Waiting)
				w.want("executions", len(w.called("execution")), 1)
				for _, id := range c.free {
					w.free(id)
					w.pass(time.Second)
				}
				w.pass(time.Hour)
				w.want("result", w.run("boss").Summary, c.result)
				w.want("executions", len(w.called("execution")), 2)
			})
		})
	}
}

// Whoever waits has the names of all in its row, which has an end.
func TestAJoinOfTooManyRunsIsRefused(t *testing.T) {
	bubble(t, func(w *world) {
		w.waiter("boss", func(ctx context.Context, r *agent.Run) (string, error) {
			var runs []string
			for i := range subagent.MaxOpen + 1 {
				runs = append(runs, fmt.Sprint("c", i))
			}
			_, most := r.Join(ctx, "most", agent.Join{Runs: runs[1:]})
			_, more := r.Join(ctx, "more", agent.Join{Runs: runs})
			return fmt.Sprint(errors.Is(most, agent.ErrNoRun), errors.Is(more, agent.ErrJoinTooLarge)), nil
		})
		w.start()
		w.dispatch(request("r1", "boss", quietly))
		w.pass(time.Second)
		w.want("refused", w.run("r1").Summary, "true true")
	})
}

// What a join has seen stands, also when another child ends before the code comes by again.
func TestAJoinIsRememberedAcrossExecutions(t *testing.T) {
	bubble(t, func(w *world) {
		w.waiter("boss", func(ctx context.Context, r *agent.Run) (string, error) {
			for _, id := range []string{"c1", "c2"} {
				if _, err := r.Dispatch(ctx, agent.Dispatch{RunID: id, Agent: "gated", Awaited: true}); err != nil {
					return "", err
				}
			}
			results, err := r.Join(ctx, "any", agent.Join{Runs: []string{"c1", "c2"}, Need: 1})
			if err != nil {
				return "", err
			}
			w.record("heard %s %s", results[0].Status, results[1].Status)
			return string(results[1].Status), r.Sleep(ctx, "nap", time.Minute)
		})
		w.start()
		w.dispatch(request("boss", "boss", quietly))
		w.free("c1")
		w.pass(time.Second)
		w.free("c2")
		w.pass(2 * time.Minute)
		w.want("heard", w.called("heard"), []string{"heard completed running", "heard completed running"})
		w.want("result", w.run("boss").Summary, "running")
	})
}

func TestARunWaitsForAMilestone(t *testing.T) {
	for _, c := range []struct {
		name   string
		within time.Duration
		do     func(*world)
		want   string
	}{
		{"that is reached", 0, func(w *world) { w.free("child") }, `{"columns":7}`},
		{"in vain, for too long", time.Minute, func(*world) {}, "timed out"},
		{"in vain, to its run's end", 0, func(w *world) { w.cancel("child", "") }, "no milestone"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(w *world) {
				w.reaches("import", "schema-ready")
				w.waiter("boss", func(ctx context.Context, r *agent.Run) (string, error) {
					if _, err := r.Dispatch(ctx, agent.Dispatch{RunID: "child", Agent: "import"}); err != nil {
						return "", err
					}
					m, err := r.AwaitMilestone(ctx, "schema", "child", "schema-ready", c.within)
					switch {
					case errors.Is(err, agent.ErrTimedOut):
						return "timed out", nil
					case errors.Is(err, agent.ErrNoMilestone):
						return "no milestone", nil
					}
					return string(m.Data), err
				})
				w.start()
				w.dispatch(request("boss", "boss", quietly))
				w.pass(time.Second)
				w.want("status", w.run("boss").Status, subagent.Waiting)
				c.do(w)
				w.pass(2 * time.Minute)
				w.want("result", w.run("boss").Summary, c.want)
				w.want("executions", len(w.called("execution")), 2)
			})
		})
	}
}

// Wakes may be lost: the tick finds that a wait is over, for runs and for turns.
func TestALostWakeIsMadeUpForByATick(t *testing.T) {
	bubble(t, func(w *world) {
		w.waiter("boss", func(ctx context.Context, r *agent.Run) (string, error) {
			if _, err := r.Dispatch(ctx, agent.Dispatch{RunID: "child", Agent: "done", Awaited: true}); err != nil {
				return "", err
			}
			_, err := r.Await(ctx, "child")
			return "", err
		})
		w.waitingChat(func(ctx context.Context, t *agent.Turn) (string, error) {
			if err := dispatched(ctx, t, "boss", "boss"); err != nil {
				return "", err
			}
			_, err := t.Await(ctx, "boss")
			return "done", err
		})
		w.open()
		turn := w.say("go")
		w.drain(platform.Turns)
		job := w.take(platform.Runs)[0]
		w.must(w.Executor.Run(w.ctx(), job)) // boss waits
		child := w.take(platform.Runs)[0]
		w.must(w.Executor.Run(w.ctx(), child))
		w.want("lost", len(w.take(platform.Runs)), 1)
		w.pass(6 * time.Second)
		w.tick()
		w.drain(platform.Runs)
		w.want("boss", w.run("boss").Status, subagent.Completed)
		lost := w.take(platform.Turns)
		w.want("lost", len(lost), 2) // the wake, and the message of the end
		w.pass(6 * time.Second)
		w.must(w.Reconciler.Repair(w.ctx(), owner))
		w.tick()
		w.drain(platform.Turns)
		w.want("turn", w.turn(turn.ID).Status, subagent.Completed)
	})
}

// What is waited for may come after the code has looked and before the row says that it
// waits: nobody is there to be woken then, and the wait is over at once all the same.
func TestTheEndThatComesBetweenTheLookAndTheWaitIsSeen(t *testing.T) {
	bubble(t, func(w *world) {
		w.waiter("boss", func(ctx context.Context, r *agent.Run) (string, error) {
			if _, err := r.Dispatch(ctx, agent.Dispatch{RunID: "child", Agent: "done", Awaited: true}); err != nil {
				return "", err
			}
			_, err := r.Await(ctx, "child")
			if errors.Is(err, agent.ErrSuspended) {
				w.must(w.Executor.Run(w.ctx(), w.take(platform.Runs)[0])) // the child, meanwhile
				w.take(platform.Runs)                                     // its wake finds the lease held
			}
			return "", err
		})
		w.open()
		w.dispatch(request("boss", "boss", quietly))
		w.drain(platform.Runs)
		w.want("boss", w.run("boss").Status, subagent.Completed)
	})
}

// A turn's short wait ends on time, also when the cadence of its conversation is slow by then.
func TestAShortWaitOfATurnEndsOnTime(t *testing.T) {
	bubble(t, func(w *world) {
		w.waitingChat(func(ctx context.Context, t *agent.Turn) (string, error) {
			return "awake", t.Sleep(ctx, "nap", 2*time.Second)
		})
		w.start()
		w.dispatch(request("r1", "idle", quietly))
		w.pass(time.Hour)
		turn := w.say("go")
		w.pass(6 * time.Second)
		took := w.turn(turn.ID).EndedAt - turn.AcceptedAt
		w.want("took two seconds", took >= 2000 && took < 2100, true)
		w.want("reply", w.turn(turn.ID).Reply.Inline, "awake")
	})
}
