package cases_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/callback"
	"github.com/errand-dev/errand/shared/control"
	"github.com/errand-dev/errand/shared/ingress"
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

// waitingChat makes the default chat one that waits in its first turn and echoes the others.
func (w *world) waitingChat(wait func(context.Context, *agent.Turn) (string, error)) {
	w.Helper()
	w.must(w.agents.AddChat("waits", func(ctx context.Context, t *agent.Turn) (string, error) {
		w.record("turn %s", t.Message)
		if t.Message != "go" {
			return "heard " + t.Message, nil
		}
		return wait(ctx, t)
	}))
	w.agents.DefaultChat = "waits"
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

// A turn that waits keeps its place and holds no process; what comes meanwhile is answered
// in its order afterwards; the run's end is told later, once.
func TestATurnWaitsForAMilestoneAndGoesOn(t *testing.T) {
	bubble(t, func(w *world) {
		w.reaches("import", "schema-ready")
		w.waitingChat(func(ctx context.Context, t *agent.Turn) (string, error) {
			if err := dispatched(ctx, t, "r1", "import"); err != nil {
				return "", err
			}
			m, err := t.AwaitMilestone(ctx, "schema", "r1", "schema-ready", 10*time.Minute)
			return "schema " + string(m.Data), err
		})
		w.start()
		first := w.say("go")
		w.pass(time.Second)
		second, third := w.say("two"), w.say("three")
		w.pass(time.Minute)
		view, err := w.Service.Turn(w.ctx(), owner, first.ID)
		w.must(err)
		w.want("status", view.Status, "waiting")
		w.want("begun", w.called("turn"), []string{"turn go"})
		w.want("queued", w.turn(second.ID).Status, subagent.Queued)
		w.free("r1")
		w.pass(time.Second)
		w.want("third", w.turn(third.ID).Status, subagent.Completed)
		w.free("end")
		w.pass(3 * time.Minute) // a tick takes the turn's place away
		w.want("transcript", w.transcript(), []string{
			"user user: go", `assistant agent: schema {"columns":7}`,
			"user user: two", "assistant agent: heard two",
			"user user: three", "assistant agent: heard three",
			"user detached-agent-tool: The background task \"import\" (run r1) has completed: the result",
			"assistant agent: heard The background task \"import\" (run r1) has completed: the result",
		})
		w.want("armed", w.backbone().Armed, false)
		w.want("places", len(w.backbone().Open), 0)
	})
}

func TestATurnAwaitsTheResultOfARun(t *testing.T) {
	bubble(t, func(w *world) {
		w.waitingChat(func(ctx context.Context, t *agent.Turn) (string, error) {
			run, err := t.Dispatch(ctx, agent.Dispatch{RunID: "r1", Agent: "gated", Awaited: true})
			if err != nil {
				return "", err
			}
			r, err := t.Await(ctx, run.ID)
			return string(r.Output), err
		})
		w.start()
		turn := w.say("go")
		w.pass(time.Minute)
		w.free("r1")
		w.pass(time.Second)
		w.want("reply", w.turn(turn.ID).Reply.Inline, `"the result"`)
		w.want("messages", len(w.transcript()), 2)
	})
}

// A turn that waits has a bound: its conversation stands still meanwhile.
func TestATurnWaitsForAnHourAtMost(t *testing.T) {
	bubble(t, func(w *world) {
		w.waitingChat(func(ctx context.Context, t *agent.Turn) (string, error) {
			if err := dispatched(ctx, t, "r1", "idle"); err != nil {
				return "", err
			}
			if _, err := t.Await(ctx, "r1"); !errors.Is(err, agent.ErrTimedOut) {
				return "", err
			}
			return "it takes too long", nil
		})
		w.start()
		turn := w.say("go")
		w.pass(time.Hour - time.Second)
		w.want("status", w.turn(turn.ID).Status, subagent.Queued)
		w.pass(7 * time.Second)
		w.want("reply", w.turn(turn.ID).Reply.Inline, "it takes too long")
		w.want("run", w.run("r1").Status, subagent.Running)
	})
}

// A turn that only sleeps has no run that would keep ticks coming: its own place does.
func TestATurnThatSleepsIsWokenByATick(t *testing.T) {
	bubble(t, func(w *world) {
		w.waitingChat(func(ctx context.Context, t *agent.Turn) (string, error) {
			return "awake", t.Sleep(ctx, "nap", 30*time.Minute)
		})
		w.start()
		turn := w.say("go")
		w.pass(20 * time.Minute)
		w.kill()
		w.work()
		w.pass(10*time.Minute + 6*time.Second)
		w.want("reply", w.turn(turn.ID).Reply.Inline, "awake")
		w.want("places", len(w.backbone().Open), 0)
		w.want("armed", w.backbone().Armed, false)
	})
}

// Each sleep of a turn has an hour of its own; one that would be longer ends with an error.
func TestATurnSleepsMoreThanOnceAndEachTimeForAnHourAtMost(t *testing.T) {
	bubble(t, func(w *world) {
		w.waitingChat(func(ctx context.Context, t *agent.Turn) (string, error) {
			for _, nap := range []string{"one", "two", "three"} {
				if err := t.Sleep(ctx, nap, 25*time.Minute); err != nil {
					return "", err
				}
			}
			err := t.Sleep(ctx, "long", 2*time.Hour)
			if errors.Is(err, agent.ErrSuspended) {
				return "", err
			}
			return fmt.Sprintf("timed out: %t", errors.Is(err, agent.ErrTimedOut)), nil
		})
		w.start()
		turn := w.say("go")
		w.pass(2*time.Hour + 14*time.Minute)
		w.want("status", w.turn(turn.ID).Status, subagent.Queued)
		w.pass(2 * time.Minute)
		w.want("reply", w.turn(turn.ID).Reply.Inline, "timed out: true")
	})
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

// A process that dies between any two steps of a suspension leaves a message behind: the
// turn is executed again, and waits.
func TestATurnWhoseProcessDiesWhileItWaitsGoesOn(t *testing.T) {
	bubble(t, func(w *world) {
		w.waitingChat(func(ctx context.Context, t *agent.Turn) (string, error) {
			if err := dispatched(ctx, t, "r1", "gated"); err != nil {
				return "", err
			}
			r, err := t.Await(ctx, "r1")
			return string(r.Output), err
		})
		w.start()
		turn := w.say("go")
		w.pass(time.Second)
		w.kill()
		w.work()
		w.say("two")
		w.pass(time.Minute)
		w.want("begun", w.called("turn"), []string{"turn go"})
		w.free("r1")
		w.pass(2 * time.Minute)
		w.want("reply", w.turn(turn.ID).Reply.Inline, `"the result"`)
		w.want("transcript", len(w.transcript()), 6)
	})
}

// The wake of a parked turn may be lost: the next turn that comes makes up for it, in order.
func TestParkedTurnsKeepTheirOrder(t *testing.T) {
	bubble(t, func(w *world) {
		w.waitingChat(func(ctx context.Context, t *agent.Turn) (string, error) {
			return "awake", t.Sleep(ctx, "nap", time.Minute)
		})
		w.open()
		first := w.say("go")
		w.drain(platform.Turns)
		for i := range 3 {
			w.say(fmt.Sprintf("m%d", i))
		}
		w.drain(platform.Turns)
		w.pass(time.Minute)
		w.tick()
		w.must(w.Executor.Turn(w.ctx(), w.take(platform.Turns)[0], 1))
		w.want("first", w.turn(first.ID).Status, subagent.Completed)
		w.want("lost", len(w.take(platform.Turns)), 1)
		w.say("m3")
		w.drain(platform.Turns)
		w.want("order", w.called("turn"), []string{"turn go", "turn go", "turn m0", "turn m1", "turn m2", "turn m3"})
	})
}

// A turn that has waited leaves its place in the backbone to those behind it, but only until
// another one has a place: a conversation that is always behind does not fill it up.
func TestTurnsThatWaitOneAfterTheOtherNeedOnePlace(t *testing.T) {
	bubble(t, func(w *world) {
		w.must(w.agents.AddChat("naps", func(ctx context.Context, t *agent.Turn) (string, error) {
			return "awake", t.Sleep(ctx, "nap", time.Minute)
		}))
		w.agents.DefaultChat = "naps"
		w.start()
		for range 5 {
			w.say("go")
		}
		for range 4 {
			w.pass(time.Minute + 20*time.Second)
			if n := len(w.backbone().Open); n > 2 {
				w.Errorf("%d places", n)
			}
		}
		w.pass(5 * time.Minute)
		w.want("replies", len(w.transcript()), 10)
		w.want("places", len(w.backbone().Open), 0)
		w.want("armed", w.backbone().Armed, false)
	})
}

func TestAnApprovalIsWaitedFor(t *testing.T) {
	question := agent.Question{Name: "delete", Title: "Delete 7 files?", Detail: json.RawMessage(`{"files":7}`)}
	for _, c := range []struct {
		name   string
		decide agent.Decision
		want   string
	}{
		{"and given", agent.Decision{Approved: true}, "yes "},
		{"and refused", agent.Decision{Note: "not those"}, "no not those"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(w *world) {
				w.waiter("careful", func(ctx context.Context, r *agent.Run) (string, error) {
					d, err := r.Approve(ctx, question, 0)
					if d.Approved {
						return "yes " + d.Note, err
					}
					return "no " + d.Note, err
				})
				w.start()
				w.dispatch(request("r1", "careful", quietly))
				w.pass(time.Hour)
				w.want("status", w.run("r1").Status, subagent.Waiting)
				w.want("asked", len(w.events("approval.requested", "r1")), 1)
				who := control.Asker{Owner: owner, Run: "r1"}
				w.want("unasked", errors.Is(w.Service.Control.Decide(w.ctx(), who, "other", c.decide), control.ErrNoQuestion), true)
				w.must(w.Service.Control.Decide(w.ctx(), who, "delete", c.decide))
				w.must(w.Service.Control.Decide(w.ctx(), who, "delete", c.decide))
				w.pass(time.Second)
				w.want("result", w.run("r1").Summary, c.want)
				again := w.Service.Control.Decide(w.ctx(), who, "delete", agent.Decision{Approved: !c.decide.Approved})
				w.want("afterwards", errors.Is(again, agent.ErrRunEnded), true)
			})
		})
	}
}

// Two answers at a time: the first stands, the second is told.
func TestTheFirstAnswerStands(t *testing.T) {
	bubble(t, func(w *world) {
		w.waitingChat(func(ctx context.Context, t *agent.Turn) (string, error) {
			d, err := t.Approve(ctx, agent.Question{Name: "ok", Title: "OK?"}, time.Hour)
			return fmt.Sprint(d.Approved), err
		})
		w.open()
		turn := w.say("go")
		w.drain(platform.Turns)
		who := control.Asker{Owner: owner, Turn: turn.ID}
		w.must(w.Service.Control.Decide(w.ctx(), who, "ok", agent.Decision{Approved: true}))
		err := w.Service.Control.Decide(w.ctx(), who, "ok", agent.Decision{})
		w.want("second", errors.Is(err, control.ErrAnswered), true)
		w.drain(platform.Turns)
		w.want("reply", w.turn(turn.ID).Reply.Inline, "true")
	})
}

// An answer that comes after the time for it changes nothing, however often the code runs.
func TestAnAnswerAfterItsTimeIsNone(t *testing.T) {
	bubble(t, func(w *world) {
		w.waiter("careful", func(ctx context.Context, r *agent.Run) (string, error) {
			_, err := r.WaitCallback(ctx, "done", time.Minute)
			if errors.Is(err, agent.ErrSuspended) {
				return "", err
			}
			w.record("timed %v", errors.Is(err, agent.ErrTimedOut))
			return "", r.Sleep(ctx, "nap", time.Hour)
		})
		w.start()
		run := w.dispatch(request("r1", "careful", quietly))
		w.pass(2 * time.Minute)
		target := callback.Target{Owner: owner, Run: "r1", Life: run.Generation, Key: "done"}
		w.must(w.Service.Control.Finish(w.ctx(), target, agent.CallbackResult{Output: json.RawMessage("1")}))
		w.pass(2 * time.Hour)
		w.want("heard", w.called("timed"), []string{"timed true", "timed true"})
	})
}

func TestACallbackEndsTheWait(t *testing.T) {
	for _, c := range []struct {
		name   string
		result agent.CallbackResult
		want   string
	}{
		{"with an output", agent.CallbackResult{Output: json.RawMessage(`{"rows":3}`)}, `{"rows":3}`},
		{"with an error", agent.CallbackResult{Error: "no such file"}, "the callback reports: no such file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(w *world) {
				w.waiter("outside", func(ctx context.Context, r *agent.Run) (string, error) {
					token, err := r.Callback(ctx, "done")
					if err != nil {
						return "", err
					}
					w.record("token %s", token)
					out, err := r.WaitCallback(ctx, "done", 0)
					if failed, ok := errors.AsType[*agent.CallbackError](err); ok {
						return failed.Error(), nil
					}
					return string(out), err
				})
				w.start()
				w.dispatch(request("r1", "outside", quietly))
				w.pass(time.Minute)
				token := strings.TrimPrefix(w.called("token")[0], "token ")
				signer := &callback.Signer{Ledger: w.Ledger}
				_, err := signer.Open(w.ctx(), token[:len(token)-2]+"AA")
				w.want("forged", errors.Is(err, callback.ErrToken), true)
				target, err := signer.Open(w.ctx(), token)
				w.must(err)
				half := 0.5
				w.must(w.Service.Control.Report(w.ctx(), target, &subagent.Progress{Fraction: &half, At: subagent.At(w.Ledger.Now())}, nil))
				w.want("progress", *w.run("r1").Progress.Fraction, 0.5)
				w.must(w.Service.Control.Finish(w.ctx(), target, c.result))
				w.pass(time.Second)
				w.want("result", w.run("r1").Summary, c.want)
				w.want("same token", w.called("token"), []string{"token " + token, "token " + token})
			})
		})
	}
}

// Clearing a conversation ends its waits, and a token of before is void.
func TestAClearEndsWaits(t *testing.T) {
	bubble(t, func(w *world) {
		w.waiter("outside", func(ctx context.Context, r *agent.Run) (string, error) {
			_, err := r.WaitCallback(ctx, "done", 0)
			return "", err
		})
		w.waitingChat(func(ctx context.Context, t *agent.Turn) (string, error) {
			if err := dispatched(ctx, t, "r1", "outside"); err != nil {
				return "", err
			}
			_, err := t.Await(ctx, "r1")
			return "", err
		})
		w.start()
		w.say("go")
		w.say("two")
		w.pass(time.Second)
		old := callback.Target{Owner: owner, Run: "r1", Life: w.run("r1").Generation, Key: "done"}
		w.must(w.Service.Control.Clear(w.ctx(), owner))
		w.pass(time.Hour)
		err := w.Service.Control.Finish(w.ctx(), old, agent.CallbackResult{})
		w.want("token", errors.Is(err, callback.ErrToken), true)
		w.want("messages", w.transcript(), []string{})
		w.want("armed", w.backbone().Armed, false)
		again := w.say("hello")
		w.pass(time.Second)
		w.want("again", w.turn(again.ID).Status, subagent.Completed)
		w.dispatch(request("r1", "outside", quietly))
		w.pass(time.Second)
		err = w.Service.Control.Finish(w.ctx(), old, agent.CallbackResult{})
		w.want("token of another life", errors.Is(err, callback.ErrToken), true)
		w.want("untouched", w.run("r1").Status, subagent.Waiting)
	})
}

// A turn whose agent is in maintenance waits in its place, those behind it in their order.
func TestATurnThatIsAcceptedInMaintenanceWaitsForItsEnd(t *testing.T) {
	bubble(t, func(w *world) {
		w.start()
		set := func(m subagent.Maintenance) {
			_, err := w.Service.Controls.Set(w.ctx(), "chat", subagent.Control{Maintenance: m})
			w.must(err)
		}
		set(subagent.AcceptInMaintenance)
		first, second := w.say("one"), w.say("two")
		w.pass(time.Hour)
		w.want("answered", w.called("turn"), []string{})
		view, err := w.Service.Turn(w.ctx(), owner, first.ID)
		w.must(err)
		w.want("status", view.Status, "waiting")
		set(subagent.NoMaintenance)
		w.pass(2 * time.Minute)
		w.want("answered", w.called("turn"), []string{"turn user: one", "turn user: two"})
		w.want("second", w.turn(second.ID).Status, subagent.Completed)
		w.pass(time.Hour)
		w.want("armed", w.backbone().Armed, false)
	})
}

// A conversation takes so many turns behind one that waits; then it is busy, and says so. A
// request that was accepted before is answered all the same.
func TestAConversationThatIsTooFarBehindIsBusy(t *testing.T) {
	bubble(t, func(w *world) {
		w.waitingChat(func(ctx context.Context, t *agent.Turn) (string, error) {
			return "awake", t.Sleep(ctx, "nap", 30*time.Minute)
		})
		w.start()
		w.say("go")
		w.pass(time.Second)
		for i := range subagent.MaxParked {
			_, _, err := w.accept("more", fmt.Sprint("key", i))
			w.must(err)
		}
		w.pass(time.Minute)
		_, _, err := w.accept("one too many", "")
		w.want("refused", errors.Is(err, ingress.ErrBusy), true)
		_, replayed, err := w.accept("more", "key7")
		w.must(err)
		w.want("replayed", replayed, true)
		w.pass(time.Hour)
		w.want("answered", len(w.called("turn")), subagent.MaxParked+2)
		_, _, err = w.accept("one more", "")
		w.must(err)
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

func TestTheAnswerThatComesBetweenTheLookAndTheWaitIsSeen(t *testing.T) {
	bubble(t, func(w *world) {
		w.waitingChat(func(ctx context.Context, t *agent.Turn) (string, error) {
			d, err := t.Approve(ctx, agent.Question{Name: "ok", Title: "OK?"}, time.Hour)
			if errors.Is(err, agent.ErrSuspended) {
				who := control.Asker{Owner: owner, Turn: t.ID}
				w.must(w.Service.Control.Decide(w.ctx(), who, "ok", agent.Decision{Approved: true}))
			}
			return fmt.Sprint(d.Approved), err
		})
		w.open()
		turn := w.say("go")
		r, _ := w.receive(platform.Turns)
		w.must(w.Executor.Turn(w.ctx(), w.wakeOf(r), r.Receives))
		w.must(w.Receiver().Acknowledge(w.ctx(), r))
		w.want("wakes, of the answer and of the look", len(w.take(platform.Turns)), 2)
		w.want("waits", w.turn(turn.ID).Status, subagent.Queued)
	})
}

// A turn's short wait ends on time, also when the cadence of its conversation is slow by then,
// and one that follows it too.
func TestAShortWaitOfATurnEndsOnTime(t *testing.T) {
	bubble(t, func(w *world) {
		w.waitingChat(func(ctx context.Context, t *agent.Turn) (string, error) {
			if err := t.Sleep(ctx, "one", 2*time.Second); err != nil {
				return "", err
			}
			return "awake", t.Sleep(ctx, "two", 3*time.Second)
		})
		w.start()
		w.dispatch(request("r1", "idle", quietly))
		w.pass(time.Hour)
		turn := w.say("go")
		w.pass(6 * time.Second)
		w.want("took", w.turn(turn.ID).EndedAt-turn.AcceptedAt < 5100, true)
		w.want("reply", w.turn(turn.ID).Reply.Inline, "awake")
	})
}
