package cases_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/errand-dev/errand/shared/platform"
	"github.com/errand-dev/errand/shared/subagent"
)

// B19: after a signal, a silence longer than the window is a give-up for no progress.
func TestB19SilenceAfterASignalIsAGiveUp(t *testing.T) {
	bubble(t, func(w *world) {
		w.open()
		req := request("r1", "idle", byNote)
		req.Budget = subagent.Budget{Max: subagent.Unlimited, NoProgress: time.Second}
		w.dispatch(req)
		w.lost("r1")
		w.signal("r1")
		w.pass(5 * time.Second)
		w.tick()
		w.drain(platform.Turns)
		w.want("status", w.run("r1").Status, subagent.Interrupted)
		w.want("reason", w.run("r1").Reason, subagent.ReasonNoProgress)
		w.want("handler", w.called("note"), []string{"note r1 interrupted"})
	})
}

// B20: a run that was heard of within its window is left alone.
func TestB20AHealthyRunIsLeftAlone(t *testing.T) {
	bubble(t, func(w *world) {
		w.open()
		w.dispatch(request("r1", "idle", byNote))
		w.lost("r1")
		w.signal("r1")
		w.pass(30 * time.Second)
		w.tick()
		w.drain(platform.Turns)
		w.want("status", w.run("r1").Status, subagent.Running)
		w.want("handler", w.called("note"), []string{})
	})
}

// B21: silence counts only after a first signal.
func TestB21ARunThatNeverSignalledIsBoundedByItsDeadlineOnly(t *testing.T) {
	bubble(t, func(w *world) {
		w.start()
		req := request("r1", "idle", byNote)
		req.Budget = subagent.Budget{Max: 3 * time.Hour, NoProgress: time.Millisecond}
		w.dispatch(req)
		w.pass(2 * time.Hour)
		w.want("status", w.run("r1").Status, subagent.Running)
		w.pass(2 * time.Hour)
		w.want("reason", w.run("r1").Reason, subagent.ReasonBudget)
	})
}

// B22: a window that is switched off never trips; with both bounds tripped, the budget
// is the reason.
func TestB22TheBudgetIsTheReasonWhenBothBoundsTrip(t *testing.T) {
	bubble(t, func(w *world) {
		w.open()
		off := request("off", "idle", quietly)
		off.Budget = subagent.Budget{Max: subagent.Unlimited, NoProgress: subagent.Unlimited}
		both := request("both", "idle", quietly)
		both.Budget = subagent.Budget{Max: time.Second, NoProgress: time.Second}
		w.dispatch(off)
		w.dispatch(both)
		for _, id := range []string{"off", "both"} {
			w.lost(id)
			w.signal(id)
		}
		w.pass(48 * time.Hour)
		w.tick()
		w.want("switched off", w.run("off").Status, subagent.Running)
		w.want("both", w.run("both").Reason, subagent.ReasonBudget)
	})
}

// A tick that the platform has lost (a purge, a restored table) comes back with the next
// dispatch, and with it everything that waits for one.
func TestADispatchBringsALostTickBack(t *testing.T) {
	bubble(t, func(w *world) {
		w.open()
		w.dispatch(request("r1", "done", notify))
		w.take(platform.Runs)
		w.pass(6 * time.Second)
		w.want("ticks lost", len(w.take(platform.Ticks)), 1)
		w.pass(20 * time.Minute)
		w.dispatch(request("r2", "done", notify))
		w.take(platform.Runs)
		w.work()
		w.pass(time.Minute)
		w.want("r1", w.run("r1").Finish.State, subagent.Delivered)
		w.want("r2", w.run("r2").Finish.State, subagent.Delivered)
	})
}

// B24: the cadence is 5, 15, 30, 120 s; the last pause repeats.
func TestB24TheCadenceSlowsDown(t *testing.T) {
	bubble(t, func(w *world) {
		w.open()
		w.dispatch(request("r1", "idle", quietly))
		w.lost("r1")
		for i, want := range []time.Duration{5, 15, 30, 120, 120, 120} {
			b := w.backbone()
			w.want("pause", time.Until(b.Due.Time()).Round(time.Second), want*time.Second)
			w.want("rung", b.Rung, min(i, 3))
			w.pass(time.Until(b.Due.Time()))
			w.want("ticks handed out", w.drain(platform.Ticks), 1)
		}
	})
}

// B25: five dispatches at the same time arm one timer, at the first pause.
func TestB25ConcurrentDispatchesArmOneTimer(t *testing.T) {
	bubble(t, func(w *world) {
		w.open()
		var dispatches sync.WaitGroup
		for i := range 5 {
			dispatches.Go(func() { w.dispatch(request(fmt.Sprintf("r%d", i), "idle", quietly)) })
		}
		dispatches.Wait()
		b := w.backbone()
		w.want("rung", b.Rung, 0)
		w.want("due", b.Due, subagent.At(time.Now().Add(5*time.Second)))
		w.pass(time.Hour)
		w.want("ticks", w.liveTicks(), 1)
	})
}

// liveTicks takes every tick that is handed out now and counts those that are not stale.
func (w *world) liveTicks() int {
	w.Helper()
	live := 0
	for _, tick := range w.take(platform.Ticks) {
		if w.backbone().Current(tick.Tick) {
			live++
		}
	}
	return live
}

// B26: a new dispatch brings a slow timer back to the first pause; the repeated dispatch
// of a run leaves the backbone untouched.
func TestB26ADispatchBringsTheTimerBackToTheFastEnd(t *testing.T) {
	bubble(t, func(w *world) {
		w.open()
		w.dispatch(request("r1", "idle", quietly))
		w.lost("r1")
		for range 4 {
			w.tick()
		}
		slow := w.backbone()
		w.want("rung before", slow.Rung, 3)
		w.dispatch(request("r1", "idle", quietly))
		w.want("after a repeated dispatch", w.backbone(), slow)
		w.dispatch(request("r2", "idle", quietly))
		w.want("rung after", w.backbone().Rung, 0)
		w.want("due", w.backbone().Due, subagent.At(time.Now().Add(5*time.Second)))
	})
}

// B27: with nothing outstanding there is no timer, and no message is left.
func TestB27NothingOutstandingNothingTicks(t *testing.T) {
	bubble(t, func(w *world) {
		w.start()
		w.dispatch(request("r1", "done", notify))
		w.pass(10 * time.Second)
		w.want("armed", w.backbone().Armed, false)
		w.want("open", len(w.backbone().Open), 0)
		w.halt()
		w.pass(24 * time.Hour)
		for _, queue := range platform.Queues {
			w.want("messages in "+queue, len(w.take(queue)), 0)
		}
	})
}

// B28: a child that cannot be reached, within its budget, is not taken for lost.
func TestB28AnUnreachableChildWithinBudgetStaysOutstanding(t *testing.T) {
	bubble(t, func(w *world) {
		w.open()
		w.dispatch(request("r1", "idle", byNote))
		before := w.lost("r1")
		for range 5 {
			w.tick()
		}
		w.want("row", w.run("r1"), before)
		w.want("armed", w.backbone().Armed, true)
	})
}

// B29: without the fast path a finished run is delivered by the first tick, and the
// timer is gone afterwards.
func TestB29WithoutTheFastPathTheFirstTickDelivers(t *testing.T) {
	bubble(t, func(w *world) {
		w.open()
		w.dispatch(request("r1", "done", notify))
		w.lost("r1")
		w.must(ok(w.finish("r1", completed)))
		w.work()
		w.want("before the tick", w.run("r1").Finish.State, subagent.Open)
		w.pass(5 * time.Second)
		w.want("after it", w.run("r1").Finish.State, subagent.Delivered)
		w.want("messages", len(w.transcript()), 2)
		w.want("armed", w.backbone().Armed, false)
	})
}

// B30: after a kill the timer of an outstanding run is still there, and the run goes on.
func TestB30AfterAKillTheTimerStillRuns(t *testing.T) {
	bubble(t, func(w *world) {
		w.start()
		w.dispatch(request("r1", "gated", notify))
		w.pass(time.Second)
		w.kill()
		w.want("armed", w.backbone().Armed, true)
		w.work()
		w.free("r1")
		w.pass(10 * time.Second)
		w.want("status", w.run("r1").Status, subagent.Completed)
		w.want("finish", w.run("r1").Finish.State, subagent.Delivered)
	})
}

// B30: a tick that the platform lost for good is sent again by a repair; until then the
// run is only late, never forgotten.
func TestB30ALostTickIsRepaired(t *testing.T) {
	bubble(t, func(w *world) {
		w.open()
		w.dispatch(request("r1", "done", notify))
		w.lost("r1")
		w.must(ok(w.finish("r1", completed)))
		w.pass(time.Minute)
		w.take(platform.Ticks)
		w.pass(time.Hour)
		w.want("nothing ticks", len(w.take(platform.Ticks)), 0)
		w.must(w.Reconciler.Repair(w.ctx(), owner))
		w.drain(platform.Ticks)
		w.want("finish", w.run("r1").Finish.State, subagent.Delivered)
	})
}

// B31: a run is never ended because its dispatcher has ended, or the process was stopped.
func TestB31ARunOutlivesItsDispatcherAndTheProcess(t *testing.T) {
	bubble(t, func(w *world) {
		w.dispatcher("boss", "r1", "gated", notify)
		w.start()
		w.dispatch(request("boss-1", "boss", quietly))
		w.pass(time.Second)
		w.want("dispatcher", w.run("boss-1").Status, subagent.Completed)
		w.restart()
		w.pass(time.Hour)
		w.want("run", w.run("r1").Status, subagent.Running)
		w.free("r1")
		w.pass(time.Second)
		w.want("run", w.run("r1").Status, subagent.Completed)
	})
}

// B32: a given-up run that stays unreachable is watched for one more budget (but
// not less than the lease), then its slot closes as abandoned and nothing ticks any more.
func TestB32WatchingAGivenUpRunEnds(t *testing.T) {
	bubble(t, func(w *world) {
		w.open()
		req := request("r1", "idle", byNote)
		req.Budget.Max = 20 * time.Second
		w.dispatch(req)
		w.lost("r1")
		w.work()
		w.pass(time.Minute)
		w.want("watched", w.run("r1").Finish.State, subagent.Open)
		w.pass(5 * time.Minute)
		w.want("closed", w.run("r1").Finish.State, subagent.Abandoned)
		w.want("armed", w.backbone().Armed, false)
		w.want("handler", w.called("note"), []string{"note r1 interrupted"})
	})
}

// B32: a result that comes within the window is delivered, one after it is dropped.
func TestB32TheLateResultWindow(t *testing.T) {
	for _, c := range []struct {
		name  string
		after time.Duration
		want  subagent.SlotState
	}{{"within", 15 * time.Minute, subagent.Delivered}, {"after", time.Hour, subagent.Abandoned}} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(w *world) {
				w.start()
				req := request("r1", "deaf", byNote)
				req.Budget.Max = 10 * time.Minute
				w.dispatch(req)
				w.pass(c.after)
				w.free("r1")
				w.pass(time.Hour)
				w.want("finish", w.run("r1").Finish.State, c.want)
				want := []string{"note r1 interrupted"}
				if c.want == subagent.Delivered {
					want = append(want, "note r1 completed")
				}
				w.want("handler", w.called("note"), want)
			})
		})
	}
}

// Section 2.1: the defaults are a day in all and an hour of silence.
func TestTheDefaultBudgetsAreADayAndAnHour(t *testing.T) {
	bubble(t, func(w *world) {
		w.open()
		run := w.dispatch(request("r1", "idle", quietly))
		w.want("ceiling", run.Deadline, subagent.At(time.Now().Add(24*time.Hour)))
		w.want("silence", run.Silence, time.Hour.Milliseconds())
		w.want("lease", w.Ledger.Terms.Lease, time.Minute)
	})
}

// A run whose deadline passed while the machine was off is given up at the next start, and
// not watched for long: its executor is known to be dead.
func TestARunThatExpiredWhileTheMachineWasOffIsClosedAtOnce(t *testing.T) {
	bubble(t, func(w *world) {
		w.start()
		req := request("r1", "idle", notify)
		req.Budget.Max = time.Hour
		w.dispatch(req)
		w.pass(time.Minute)
		w.must(w.Close())
		w.halt()
		w.pass(48 * time.Hour)
		w.start()
		// An executor may be faster than the first tick; then it is torn down.
		w.pass(10 * time.Minute)
		run := w.run("r1")
		w.want("status", run.Status, subagent.Interrupted)
		w.want("still running", run.ChildStillRunning(), false)
		w.want("finish", run.Finish.State, subagent.Silent)
		w.want("armed", w.backbone().Armed, false)
		w.want("turns", len(w.called("turn")), 1)
	})
}

// A budget is noticed when it is over, not at the next rung of a slow cadence: a tick
// sees when something will be due.
func TestABudgetIsNoticedWhenItIsOver(t *testing.T) {
	bubble(t, func(w *world) {
		w.start()
		long := request("long", "idle", byNote)
		long.Budget = subagent.Budget{Max: 10 * time.Minute}
		w.dispatch(long)
		w.pass(10*time.Minute - time.Second)
		w.want("status", w.run("long").Status, subagent.Running)
		w.pass(7 * time.Second)
		w.want("reason", w.run("long").Reason, subagent.ReasonBudget)
	})
}
