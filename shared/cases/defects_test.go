package cases_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/delivery"
	"github.com/errand-dev/errand/shared/platform"
	"github.com/errand-dev/errand/shared/subagent"
)

// D1: a teardown that we caused is not told as a second end; the reason is kept.
func TestDefectD01ATeardownIsNotToldAsASecondEnd(t *testing.T) {
	bubble(t, func(w *world) {
		w.start()
		for id, n := range map[string]subagent.Notice{"handler": byNote, "message": notify} {
			req := request(id, "idle", n)
			req.Budget.Max = 10 * time.Minute
			w.dispatch(req)
		}
		w.pass(48 * time.Hour)
		for _, id := range []string{"handler", "message"} {
			run := w.run(id)
			w.want(id, run.Status, subagent.Interrupted)
			w.want(id, run.Reason, subagent.ReasonBudget)
			w.want(id, run.Finish.State, subagent.Silent)
		}
		w.want("handler", w.called("note"), []string{"note handler interrupted"})
		w.want("turns", len(w.called("turn")), 1)
		w.want("hooks", len(w.called("hook")), 2)
	})
}

// D2: a given-up run whose child never answers does not tick for ever.
func TestDefectD02WatchingAnUnreachableRunEnds(t *testing.T) {
	bubble(t, func(w *world) {
		w.open()
		req := request("r1", "idle", quietly)
		req.Budget.Max = 20 * time.Second
		w.dispatch(req)
		w.lost("r1")
		w.work()
		w.pass(10 * time.Minute)
		w.want("finish", w.run("r1").Finish.State, subagent.Abandoned)
		w.halt()
		w.pass(24 * time.Hour)
		w.want("ticks", len(w.take(platform.Ticks)), 0)
	})
}

// D3: no "interrupted" is ever delivered after "completed", whichever was decided first.
func TestDefectD03NoInterruptedAfterCompleted(t *testing.T) {
	for _, notice := range []subagent.Notice{byNote, notify} {
		t.Run(fmt.Sprintf("message %v", notice.Message), func(t *testing.T) {
			bubble(t, func(w *world) {
				w.open()
				w.dispatch(request("r1", "done", notice))
				w.lost("r1")
				w.giveUp("r1")
				seen := w.run("r1")
				w.must(w.courier().Deliver(w.ctx(), delivery.Parcel{Run: seen, Slot: subagent.GiveUp}))
				w.must(ok(w.finish("r1", completed)))
				w.must(w.courier().Deliver(w.ctx(), delivery.Parcel{Run: w.run("r1"), Slot: subagent.Finish}))
				w.must(w.courier().Deliver(w.ctx(), delivery.Parcel{Run: seen, Slot: subagent.GiveUp, Attempt: "late"}))
				w.drain(platform.Turns)
				want := []string{"note r1 completed"}
				if notice.Message {
					want = []string{`turn finish: The background task "done" (run r1) has completed: the result`}
					if _, found := w.message("detached-finish:r1:interrupted"); found {
						t.Error("the give-up was shown")
					}
				}
				w.want("told", w.called("note", "turn"), want)
			})
		})
	}
}

// D3, the rare way: the give-up's turn is given up itself after the run has ended.
func TestDefectD03AGiveUpTurnThatIsGivenUpIsNotShownAfterTheEnd(t *testing.T) {
	bubble(t, func(w *world) {
		w.open()
		w.dispatch(request("r1", "done", notify))
		w.lost("r1")
		w.giveUp("r1")
		w.must(w.courier().Deliver(w.ctx(), delivery.Parcel{Run: w.run("r1"), Slot: subagent.GiveUp}))
		w.must(ok(w.finish("r1", completed)))
		wakes := w.take(platform.Turns)
		w.died(wakes[0].Turn)
		w.must(w.Executor.Turn(w.ctx(), wakes[0], platform.MaxReceives))
		w.want("transcript", w.transcript(), []string{})
	})
}

// D4: handlers that throw neither stop the backbone nor keep siblings waiting, also after
// a restart.
func TestDefectD04PoisonHandlersStopNobody(t *testing.T) {
	bubble(t, func(w *world) {
		w.open()
		for i := range 4 {
			id := fmt.Sprintf("bad%d", i)
			w.dispatch(request(id, "done", byBroken))
			w.lost(id)
			w.must(ok(w.finish(id, completed)))
		}
		w.dispatch(request("good", "done", byNote))
		w.lost("good")
		w.must(ok(w.finish("good", completed)))
		w.work()
		w.pass(5 * time.Second)
		w.want("handler", w.called("note"), []string{"note good completed"})
		w.restart()
		w.want("armed", w.backbone().Armed, true)
		w.pass(24 * time.Hour)
		w.want("armed in the end", w.backbone().Armed, false)
	})
}

// D5: a handler that always throws is tried eight times, ever more slowly, and is then a
// dead letter for all to see, with its result safe.
func TestDefectD05AHandlerThatAlwaysThrowsBecomesADeadLetter(t *testing.T) {
	bubble(t, func(w *world) {
		var at []time.Time
		w.handler("never", func(context.Context, agent.Delivery) error {
			at = append(at, time.Now())
			return errors.New("never")
		})
		w.start()
		w.dispatch(request("r1", "done", subagent.Notice{Handler: "never"}))
		w.pass(48 * time.Hour)
		w.want("attempts", len(at), 8)
		for i := 1; i < len(at); i++ {
			if pause := at[i].Sub(at[i-1]); pause < subagent.Backoff(i) {
				t.Errorf("attempt %d came after %v, back-off is %v", i+1, pause, subagent.Backoff(i))
			}
		}
		w.want("finish", w.run("r1").Finish.State, subagent.Dead)
		w.want("dead since", w.run("r1").Finish.At, subagent.At(at[len(at)-1]))
		w.want("told", len(w.events("delivery.dead_lettered", "r1")), 1)
		w.want("result", w.run("r1").Summary, "the result")
		w.want("armed", w.backbone().Armed, false)
	})
}

// D5: a handler that panics has failed like one that returns an error.
func TestDefectD05AHandlerThatPanicsIsTriedAgain(t *testing.T) {
	bubble(t, func(w *world) {
		w.handler("panics", func(_ context.Context, d agent.Delivery) error {
			if d.Attempt < 3 {
				panic("oh")
			}
			return nil
		})
		w.start()
		w.dispatch(request("r1", "done", subagent.Notice{Handler: "panics"}))
		w.pass(time.Hour)
		w.want("calls", len(w.called("panics")), 3)
		w.want("finish", w.run("r1").Finish.State, subagent.Delivered)
	})
}

// D5: an attempt that takes its process down counts too.
func TestDefectD05AHandlerThatKillsItsProcessBecomesADeadLetter(t *testing.T) {
	bubble(t, func(w *world) {
		w.open()
		w.dispatch(request("r1", "done", byNote))
		w.lost("r1")
		w.must(ok(w.finish("r1", completed)))
		for range subagent.MaxAttempts {
			w.must(ok(w.rule("r1", func(r subagent.Run) (subagent.Run, subagent.Outcome) {
				return r.Take(subagent.Finish, w.Ledger.Token(), w.Ledger.Now(), w.Ledger.Terms)
			})))
			w.pass(2 * time.Minute)
		}
		w.tick()
		w.want("finish", w.run("r1").Finish.State, subagent.Dead)
		w.want("told", len(w.events("delivery.dead_lettered", "r1")), 1)
	})
}

// D6: a failed start ends the run, frees its place and is told; a retry of the same id
// answers with that end.
func TestDefectD06AFailedStartEndsTheRun(t *testing.T) {
	bubble(t, func(w *world) {
		w.agents.OnStart = func(context.Context, agent.Delivery) error { return errors.New("no room") }
		w.start()
		w.dispatch(request("r1", "done", byNote))
		w.pass(time.Second)
		run, known, err := w.Service.Dispatcher.Start(w.ctx(), request("r1", "done", byNote))
		w.must(err)
		w.want("known", known, true)
		w.want("status", run.Status, subagent.Error)
		w.want("finish", run.Finish.State, subagent.Delivered)
		w.want("place", w.backbone().Live(), 0)
	})
}

// D6: a dispatch that crashed after it reserved its place gives it back, and the same id
// can be dispatched again.
func TestDefectD06ACrashedDispatchGivesItsPlaceBack(t *testing.T) {
	bubble(t, func(w *world) {
		w.open()
		w.must(w.Service.Dispatcher.Reserve(w.ctx(), subagent.Run{Owner: owner, ID: "r1"}, 0))
		w.work()
		w.want("reserved", w.backbone().Live(), 1)
		w.pass(5 * time.Minute)
		w.want("reserved", w.backbone().Live(), 0)
		w.want("armed", w.backbone().Armed, false)
		run, known, err := w.Service.Dispatcher.Start(w.ctx(), request("r1", "done", notify))
		w.must(err)
		w.want("known", known, false)
		w.pass(time.Minute)
		w.want("status", w.run(run.ID).Status, subagent.Completed)
		w.want("messages", len(w.transcript()), 2)
	})
}

// D7: a repeated dispatch answers with the run as it is; one that the cap refused can be
// dispatched later.
func TestDefectD07ARepeatedDispatchTellsTheTruth(t *testing.T) {
	bubble(t, func(w *world) {
		w.options.MaxConcurrentRuns = 1
		w.start()
		w.dispatch(request("r1", "gated", notify))
		var full *agent.CapError
		if err := w.try("r2", "done", notify); !errors.As(err, &full) {
			t.Fatalf("at the cap: %v", err)
		}
		run, known, err := w.Service.Dispatcher.Start(w.ctx(), request("r1", "gated", notify))
		w.must(err)
		w.want("known, at the cap", known, true)
		w.want("status", run.Status, subagent.Running)
		w.free("r1")
		w.pass(time.Second)
		ended := w.dispatch(request("r1", "gated", notify))
		w.want("status", ended.Status, subagent.Completed)
		w.want("delivered", ended.Finish.State, subagent.Delivered)
		fresh, known, err := w.Service.Dispatcher.Start(w.ctx(), request("r2", "done", notify))
		w.must(err)
		w.want("known", known, false)
		w.want("status", fresh.Status, subagent.Queued)
	})
}

// D8: neither a turn nor a handler that takes longer than the lease makes a handler run
// twice; only the claim's own token marks the slot.
func TestDefectD08ASlowTurnOrHandlerIsNotDoubled(t *testing.T) {
	bubble(t, func(w *world) {
		var mu sync.Mutex
		running, most := 0, 0
		w.handler("slow", func(context.Context, agent.Delivery) error {
			mu.Lock()
			running++
			most = max(most, running)
			mu.Unlock()
			time.Sleep(5 * time.Minute)
			mu.Lock()
			defer mu.Unlock()
			running--
			return nil
		})
		w.talker()
		w.start()
		w.say("wait")
		for i := range 3 {
			w.dispatch(request(fmt.Sprintf("r%d", i), "done", subagent.Notice{Handler: "slow"}))
		}
		w.pass(10 * time.Minute)
		w.free("turn")
		w.pass(time.Hour)
		w.want("calls", w.called("slow"), []string{"slow r0 completed", "slow r1 completed", "slow r2 completed"})
		w.want("at the same time", most, 1)
		w.want("foreign mark", w.rule("r0", func(r subagent.Run) (subagent.Run, subagent.Outcome) {
			r.Finish.State = subagent.Open
			return r.Mark(subagent.Finish, "somebody", w.Ledger.Now())
		}), subagent.Stale)
	})
}

// D9: clearing with a live run calls the hook with "aborted" once, and tells nobody else.
func TestDefectD09ClearingCallsTheHookWithAborted(t *testing.T) {
	bubble(t, func(w *world) {
		w.start()
		w.dispatch(request("r1", "idle", byNote))
		w.pass(time.Minute)
		w.must(w.Service.Control.Clear(w.ctx(), owner))
		w.pass(time.Hour)
		w.want("calls", w.called(), []string{"hook r1 aborted"})
	})
}

// D10: configured milestones are told warm, in both modes.
func TestDefectD10MilestonesAreToldWarm(t *testing.T) {
	for _, react := range []bool{false, true} {
		t.Run(fmt.Sprintf("react %v", react), func(t *testing.T) {
			bubble(t, func(w *world) {
				w.milestones("import", "ready")
				w.start()
				at := time.Now()
				w.dispatch(request("r1", "import", subagent.Notice{Milestones: []string{"ready"}, React: react}))
				_, found := w.message("detached-ms:r1:ready")
				w.want("told", found, true)
				w.want("after", time.Since(at), time.Duration(0))
			})
		})
	}
}

// D11: a milestone that was told is not offered again by every tick.
func TestDefectD11TicksDoNotOfferMilestonesAgain(t *testing.T) {
	bubble(t, func(w *world) {
		w.milestones("import", "ready")
		offered := 0
		w.agents.FormatMilestone = func(agent.Info, agent.Milestone) string { offered++; return "ready" }
		w.start()
		w.dispatch(request("r1", "import", subagent.Notice{Milestones: []string{"ready"}}))
		w.pass(time.Hour)
		w.want("offered", offered, 1)
		w.want("noted", w.run("r1").MilestonesTold, 1)
	})
}

// D12: reports that are not shown count as signs of life, and the last one is stored.
func TestDefectD12ACoalescedReportCountsAsASignOfLife(t *testing.T) {
	bubble(t, func(w *world) {
		work := w.reporter("works")
		w.start()
		req := request("r1", "works", quietly)
		req.Budget.NoProgress = 10 * time.Second
		w.dispatch(req)
		for i := range 1200 {
			work <- progress(0.5, fmt.Sprint(i))
			w.pass(50 * time.Millisecond)
		}
		w.want("status", w.run("r1").Status, subagent.Running)
		w.pass(time.Second)
		w.want("last", w.run("r1").Progress.Message, "1199")
		w.pass(time.Hour)
		w.want("reason", w.run("r1").Reason, subagent.ReasonNoProgress)
	})
}

// D13: a dispatch during a tick leaves one live tick, not two.
func TestDefectD13ADispatchDuringATickLeavesOneTimer(t *testing.T) {
	bubble(t, func(w *world) {
		w.open()
		w.dispatch(request("r1", "idle", quietly))
		w.lost("r1")
		for i := range 10 {
			var race sync.WaitGroup
			race.Go(w.tick)
			race.Go(func() { w.dispatch(request(fmt.Sprintf("more%d", i), "idle", quietly)) })
			race.Wait()
		}
		// Two may carry the same number: the first to fire makes the other stale.
		w.pass(time.Hour)
		w.drain(platform.Ticks)
		w.pass(time.Hour)
		w.want("live ticks", w.liveTicks(), 1)
	})
}

// D14: a late completion cannot overwrite a cancel, nor a cancel a completion.
func TestDefectD14AHardEndNeverChanges(t *testing.T) {
	bubble(t, func(w *world) {
		w.open()
		w.dispatch(request("r1", "idle", quietly))
		w.lost("r1")
		w.cancel("r1", "")
		w.want("late end", w.finish("r1", completed), subagent.Ended)
		w.want("status", w.run("r1").Status, subagent.Aborted)
		w.dispatch(request("r2", "idle", quietly))
		w.lost("r2")
		w.must(ok(w.finish("r2", completed)))
		w.want("late cancel", w.cancel("r2", "").Status, subagent.Completed)
	})
}

// D15: a handler gets the output, not just a summary.
func TestDefectD15AHandlerGetsTheOutput(t *testing.T) {
	bubble(t, func(w *world) {
		w.handler("reads", func(_ context.Context, d agent.Delivery) error {
			w.record("output %s", d.Output)
			return nil
		})
		w.task("rows", func(context.Context, *agent.Run) (any, error) { return map[string]int{"rows": 80000}, nil })
		w.start()
		w.dispatch(request("r1", "rows", subagent.Notice{Handler: "reads"}))
		w.pass(time.Second)
		w.want("output", w.called("output"), []string{`output {"rows":80000}`})
	})
}

// D16: runs can be listed, waited for and sent a message; executions are limited.
func TestDefectD16RunsCanBeListedWaitedForAndReached(t *testing.T) {
	bubble(t, func(w *world) {
		w.start()
		for _, id := range []string{"b", "a"} {
			w.dispatch(request(id, "gated", quietly))
			w.pass(time.Second)
		}
		active, err := w.Service.Control.Active(w.ctx(), owner)
		w.must(err)
		ids := []string{}
		for _, r := range active {
			ids = append(ids, r.ID)
		}
		w.want("active, oldest first", ids, []string{"b", "a"})
		w.must(w.Service.Control.FollowUp(w.ctx(), owner, "a", "hello"))
		changed, stop, _ := w.Ledger.WatchRun(owner, "a")
		defer stop()
		w.free("a")
		<-changed
		w.pass(time.Second)
		w.want("status", w.run("a").Status, subagent.Completed)
		all, err := w.Ledger.ListRuns(w.ctx(), owner, "", 10)
		w.must(err)
		w.want("all", len(all), 2)
	})
}

// D17: the live-count warning is looked at by ticks too: it is reset without a dispatch.
func TestDefectD17TicksLookAtTheLiveCount(t *testing.T) {
	bubble(t, func(w *world) {
		w.open()
		w.crowd(0, 52)
		w.want("warned", w.backbone().Warned, true)
		for i := range 5 {
			w.cancel(fmt.Sprintf("r%d", i), "")
		}
		w.want("before the tick", w.backbone().Warned, true)
		w.tick()
		w.want("after it", w.backbone().Warned, false)
	})
}

// D18: the cap holds under any number of dispatches at the same time.
func TestDefectD18TheCapHoldsUnderConcurrentDispatches(t *testing.T) {
	bubble(t, func(w *world) {
		w.options.MaxConcurrentRuns = 8
		w.open()
		var dispatches sync.WaitGroup
		var mu sync.Mutex
		accepted := []string{}
		for i := range 64 {
			dispatches.Go(func() {
				id := fmt.Sprintf("r%d", i)
				err := w.try(id, "idle", quietly)
				var full *agent.CapError
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil:
					accepted = append(accepted, id)
				case !errors.As(err, &full):
					t.Error(err)
				}
			})
		}
		dispatches.Wait()
		w.want("accepted", len(accepted), 8)
		rows, err := w.Ledger.ListRuns(w.ctx(), owner, "", 100)
		w.must(err)
		stored := []string{}
		for _, r := range rows {
			stored = append(stored, r.ID)
		}
		slices.Sort(accepted)
		w.want("rows", stored, accepted)
		w.want("jobs", len(w.take(platform.Runs)), 8)
		// What holds it is the rule itself, not the look before it.
		b := w.backbone()
		_, outcome := b.Reserve("extra", 8, subagent.Arming{By: b.Due}, 0, w.Ledger.Now())
		w.want("one more", outcome, subagent.Full)
	})
}

// D19: a real end clears reason and still-running of the give-up before it.
func TestDefectD19ARealEndClearsTheGiveUp(t *testing.T) {
	for _, res := range []subagent.Result{completed, {Status: subagent.Error, Problem: "it broke"}} {
		t.Run(string(res.Status), func(t *testing.T) {
			bubble(t, func(w *world) {
				w.open()
				w.dispatch(request("r1", "idle", quietly))
				w.lost("r1")
				w.giveUp("r1")
				w.must(ok(w.finish("r1", res)))
				info := agent.InfoOf(w.run("r1"))
				w.want("status", info.Status, res.Status)
				w.want("reason", info.Reason, "")
				w.want("still running", info.ChildStillRunning, false)
			})
		})
	}
}
