package cases_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/harness"
	"github.com/errand-dev/errand/shared/subagent"
)

// silent is a model that answers after each pause in turn, and the last time never.
func (w *world) silent(pauses ...time.Duration) vendor {
	return func(ctx context.Context, call int, _ string) (string, error) {
		w.record("call %d", call)
		var over <-chan time.Time
		if call <= len(pauses) {
			over = time.After(pauses[call-1])
		}
		select {
		case <-over:
			return "", nil
		case <-ctx.Done():
			w.record("stopped: %v", context.Cause(ctx))
			return "", context.Cause(ctx)
		}
	}
}

// An agent's run is watched from its beginning: one whose first call hangs is given up when
// its window is over, its call is stopped, and whoever dispatched it hears of that. The
// first sign of life costs one write.
func TestAnAgentsRunThatHangsFromItsBeginningIsGivenUp(t *testing.T) {
	bubble(t, func(w *world) {
		w.asker("asker", w.silent(), harness.Limits{})
		w.start()
		req := request("r1", "asker", notify)
		req.Input = raw("look around")
		w.dispatch(req)
		w.pass(time.Second)
		// Its dispatch, its lease, the first step, the sign of life, the second step.
		w.want("writes of its row", w.run("r1").Version, int64(5))
		w.pass(subagent.DefaultNoProgressBudget - time.Minute)
		w.want("status", w.run("r1").Status, subagent.Running)
		w.pass(2 * time.Minute)
		w.want("status", w.run("r1").Status, subagent.Interrupted)
		w.want("reason", w.run("r1").Reason, subagent.ReasonNoProgress)
		w.want("the call", w.called("stopped:"), []string{"stopped: the run was given up"})
		w.want("told", len(w.called("turn")), 1)
		w.want("still running", w.run("r1").ChildStillRunning(), false)
	})
}

// There is no limit but that: a run whose calls end goes on for as long as it likes. The
// heartbeat, which renews its lease all the time, is no progress.
func TestAnAgentsRunTakesAsLongAsItGetsFurther(t *testing.T) {
	bubble(t, func(w *world) {
		const pause = 50 * time.Minute
		w.asker("asker", w.silent(pause, pause, pause, pause, pause, pause), harness.Limits{})
		w.start()
		req := request("r1", "asker", notify)
		req.Input, req.Budget = raw("look around"), subagent.Budget{Max: subagent.Unlimited}
		w.dispatch(req)
		w.pass(6*pause + 59*time.Minute)
		w.want("status", w.run("r1").Status, subagent.Running)
		w.want("calls", len(w.called("call")), 7)
		w.pass(3 * time.Minute)
		w.want("reason", w.run("r1").Reason, subagent.ReasonNoProgress)
	})
}

// A window of zero switches it off.
func TestAnAgentsRunMayBeSilentWithoutAWindow(t *testing.T) {
	bubble(t, func(w *world) {
		w.asker("asker", w.silent(3*time.Hour), harness.Limits{})
		w.start()
		req := request("r1", "asker", notify)
		req.Input, req.Budget = raw("look around"), subagent.Budget{NoProgress: subagent.Unlimited}
		w.dispatch(req)
		w.pass(5 * time.Hour)
		w.want("status", w.run("r1").Status, subagent.Running)
		w.want("calls", len(w.called("call")), 2)
	})
}

// A turn has no limit but that of progress either: one that finishes steps goes on for
// hours, one that hangs ends as an error, and the next turn runs.
func TestATurnStallsWithoutAStepForAnHour(t *testing.T) {
	bubble(t, func(w *world) {
		w.must(w.agents.AddChat("slow", func(ctx context.Context, turn *agent.Turn) (string, error) {
			pauses := map[string][]time.Duration{
				"long":  {50 * time.Minute, 50 * time.Minute, 50 * time.Minute},
				"hangs": {50 * time.Minute, 70 * time.Minute},
			}
			for i, pause := range pauses[turn.Message] {
				if _, err := agent.Step(ctx, turn, string(rune('a'+i)), func(ctx context.Context) (bool, error) {
					select {
					case <-time.After(pause):
						return true, nil
					case <-ctx.Done():
						return false, context.Cause(ctx)
					}
				}); err != nil {
					w.record("stopped %t", errors.Is(err, agent.ErrStalled))
					return "", err
				}
			}
			return "done", nil
		}))
		w.agents.DefaultChat = "slow"
		w.start()
		long := w.say("long")
		w.pass(3 * time.Hour)
		w.want("long", w.turn(long.ID).Status, subagent.Completed)
		hangs, next := w.say("hangs"), w.say("next")
		w.pass(109 * time.Minute)
		w.want("hangs", w.turn(hangs.ID).Status, subagent.Queued)
		w.pass(2 * time.Minute)
		w.want("hangs", w.turn(hangs.ID).Status, subagent.Error)
		w.want("problem", w.turn(hangs.ID).Problem, "stalled without durable progress")
		w.want("stopped", w.called("stopped"), []string{"stopped true"})
		w.want("next", w.turn(next.ID).Status, subagent.Completed)
	})
}

// Nobody is silent whom nobody could hear: a machine that was switched off for a night, with
// or without a warning, goes on with what it had begun. Nor does it help a run that hangs.
func TestTimeInWhichNobodyExecutesARunIsNoSilence(t *testing.T) {
	for _, c := range []struct {
		name string
		off  func(w *world)
	}{
		{"stopped", func(w *world) { w.halt(); w.must(w.Close()) }},
		{"killed", func(w *world) { w.must(w.Close()); w.halt() }},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(w *world) {
				hung := false
				w.asker("asker", func(ctx context.Context, call int, _ string) (string, error) {
					w.record("call %d", call)
					if call < 3 || hung {
						return "", nil
					}
					hung = true
					<-ctx.Done()
					return "", context.Cause(ctx)
				}, harness.Limits{Iterations: 4})
				w.start()
				req := request("r1", "asker", notify)
				req.Input = raw("look around")
				w.dispatch(req)
				w.pass(30 * time.Minute)
				c.off(w)
				time.Sleep(9 * time.Hour)
				w.start()
				w.pass(5 * time.Minute)
				w.want("status", w.run("r1").Status, subagent.Error)
				w.want("problem", w.run("r1").Problem, "stopped after 4 model calls without an answer")
				w.want("calls", w.called("call"), []string{"call 1", "call 2", "call 3", "call 3", "call 4"})
			})
		})
	}
}

// A run that hangs in every execution has only so long in all of them.
func TestARunThatIsHandedOnAndHangsIsGivenUp(t *testing.T) {
	bubble(t, func(w *world) {
		w.asker("asker", w.silent(), harness.Limits{})
		w.start()
		req := request("r1", "asker", notify)
		req.Input = raw("look around")
		w.dispatch(req)
		for range 4 {
			w.pass(14 * time.Minute)
			w.restart()
		}
		w.want("status", w.run("r1").Status, subagent.Running)
		w.pass(6 * time.Minute)
		w.want("reason", w.run("r1").Reason, subagent.ReasonNoProgress)
	})
}
