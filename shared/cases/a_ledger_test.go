package cases_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/delivery"
	"github.com/errand-dev/errand/shared/platform"
	"github.com/errand-dev/errand/shared/subagent"
)

// A1: a finish that is delivered twice calls hook and handler once; the first result stands.
func TestA01FinishIsDeliveredOnce(t *testing.T) {
	bubble(t, func(w *world) {
		w.open()
		w.dispatch(request("r1", "done", byNote))
		w.lost("r1")
		w.must(ok(w.finish("r1", completed)))
		stale := w.run("r1")
		w.deliver("r1", subagent.Finish)
		w.deliver("r1", subagent.Finish)
		w.must(w.courier().Deliver(w.ctx(), delivery.Parcel{Run: stale, Slot: subagent.Finish, Attempt: "late"}))
		w.drain(platform.Turns)
		w.want("calls", w.called(), []string{"hook r1 completed", "note r1 completed"})
		w.want("second end", w.finish("r1", subagent.Result{Status: subagent.Error, Problem: "too late"}), subagent.Mine)
		run := w.run("r1")
		w.want("summary", run.Summary, "the result")
		w.want("finish", run.Finish.State, subagent.Delivered)
	})
}

// A1 for a message: delivered twice, also from a stale row, it is one message, one hook.
func TestA01FinishMessageIsDeliveredOnce(t *testing.T) {
	bubble(t, func(w *world) {
		w.open()
		w.dispatch(request("r1", "done", notify))
		w.lost("r1")
		w.must(ok(w.finish("r1", completed)))
		stale := w.run("r1")
		w.deliver("r1", subagent.Finish)
		w.must(w.courier().Deliver(w.ctx(), delivery.Parcel{Run: stale, Slot: subagent.Finish, Attempt: "late"}))
		w.drain(platform.Turns)
		w.want("hooks", w.called("hook"), []string{"hook r1 completed"})
		w.want("messages", len(w.transcript()), 2)
	})
}

// A2: two concurrent deliveries of a finish call the handler once.
func TestA02ConcurrentDeliveriesCallTheHandlerOnce(t *testing.T) {
	for _, notice := range []subagent.Notice{byNote, notify} {
		t.Run(fmt.Sprintf("message %v", notice.Message), func(t *testing.T) {
			bubble(t, func(w *world) {
				w.open()
				w.dispatch(request("r1", "done", notice))
				w.lost("r1")
				w.must(ok(w.finish("r1", completed)))
				row := w.run("r1")
				var deliveries sync.WaitGroup
				for i := range 8 {
					deliveries.Go(func() {
						p := delivery.Parcel{Run: row, Slot: subagent.Finish, Attempt: fmt.Sprint(i)}
						if err := w.courier().Deliver(w.ctx(), p); err != nil {
							t.Error(err)
						}
					})
				}
				deliveries.Wait()
				w.drain(platform.Turns)
				want := []string{"hook r1 completed", "note r1 completed"}
				if notice.Message {
					want = []string{"hook r1 completed", `turn finish: The background task "done" (run r1) has completed: the result`}
				}
				w.want("calls", w.called(), want)
			})
		})
	}
}

// A3: give-up, then the real end: the handler hears both in this order, the row is repaired.
func TestA03ALateResultIsHeardAfterTheGiveUp(t *testing.T) {
	bubble(t, func(w *world) {
		w.open()
		w.dispatch(request("r1", "done", byNote))
		w.lost("r1")
		w.giveUp("r1")
		w.deliver("r1", subagent.GiveUp)
		w.want("status", w.run("r1").Status, subagent.Interrupted)
		w.want("reason", w.run("r1").Reason, subagent.ReasonBudget)
		w.must(ok(w.finish("r1", completed)))
		w.deliver("r1", subagent.Finish)
		w.want("handler", w.called("note"), []string{"note r1 interrupted", "note r1 completed"})
		w.want("status", w.run("r1").Status, subagent.Completed)
	})
}

// A4: a give-up that is delivered twice is one call.
func TestA04GiveUpIsDeliveredOnce(t *testing.T) {
	bubble(t, func(w *world) {
		w.open()
		w.dispatch(request("r1", "done", byNote))
		w.lost("r1")
		w.giveUp("r1")
		w.deliver("r1", subagent.GiveUp)
		w.deliver("r1", subagent.GiveUp)
		w.want("handler", w.called("note"), []string{"note r1 interrupted"})
	})
}

// A5: a handler that fails once is tried again after a pause, never inside it, and then
// the slot closes. The hook is called again with it; the result was safe all the time.
func TestA05AFailedHandlerIsTriedAgainAfterAPause(t *testing.T) {
	bubble(t, func(w *world) {
		w.handler("flaky", func(_ context.Context, d agent.Delivery) error {
			if d.Attempt == 1 {
				return errors.New("not this time")
			}
			return nil
		})
		w.open()
		w.dispatch(request("r1", "done", subagent.Notice{Handler: "flaky"}))
		w.lost("r1")
		w.must(ok(w.finish("r1", completed)))
		w.deliver("r1", subagent.Finish)
		w.want("status after the failure", w.run("r1").Status, subagent.Completed)
		w.want("failures told", len(w.events("delivery.failed", "r1")), 1)
		w.deliver("r1", subagent.Finish)
		w.want("calls inside the pause", w.called("hook", "flaky"), []string{"hook r1 completed", "flaky r1 completed"})
		w.pass(subagent.Backoff(1) + time.Millisecond)
		w.deliver("r1", subagent.Finish)
		w.want("calls after it", w.called("hook", "flaky"),
			[]string{"hook r1 completed", "flaky r1 completed", "hook r1 completed", "flaky r1 completed"})
		w.want("finish", w.run("r1").Finish.State, subagent.Delivered)
	})
}

// A6: cancelling an awaited run calls no handler and sends no message; whoever awaits it
// hears of it.
func TestA06CancellingAnAwaitedRunIsHeardByItsParentOnly(t *testing.T) {
	bubble(t, func(w *world) {
		w.task("waits", func(ctx context.Context, r *agent.Run) (any, error) {
			child, err := r.Dispatch(ctx, agent.Dispatch{RunID: "child", Agent: "idle", Awaited: true, Notice: byNote})
			if err != nil {
				return nil, err
			}
			result, err := r.Await(ctx, child.ID)
			return string(result.Status), err
		})
		w.start()
		w.dispatch(request("r1", "waits", quietly))
		w.want("parent", w.run("r1").Status, subagent.Waiting)
		w.cancel("child", "")
		w.want("handler", w.called("note"), []string{})
		w.want("messages", w.transcript(), []string{})
		w.want("parent's summary", w.run("r1").Summary, "aborted")
	})
}

// A7: the source of a dispatch survives in the row, in what hooks see and in the message.
func TestA07TheNotifySourceSurvives(t *testing.T) {
	bubble(t, func(w *world) {
		w.agents.OnFinish = func(_ context.Context, d agent.Delivery) error {
			w.record("source %s", d.Run.Source)
			return nil
		}
		w.start()
		w.dispatch(request("r1", "done", subagent.Notice{Message: true, Source: "import-ui"}))
		w.restart()
		w.want("row", w.run("r1").Notice.Source, "import-ui")
		w.want("hook", w.called("source"), []string{"source import-ui"})
		m, _ := w.message("detached-finish:r1:completed")
		w.want("message", m.Source, "import-ui")
	})
}

// A8: a cancelled run has exactly one end in the log.
func TestA08ACancelIsOneEndInTheLog(t *testing.T) {
	bubble(t, func(w *world) {
		w.start()
		w.dispatch(request("r1", "idle", byNote))
		run := w.cancel("r1", "changed my mind")
		w.pass(time.Hour)
		w.want("status", run.Status, subagent.Aborted)
		w.want("problem", run.Problem, "changed my mind")
		w.want("ends", len(w.events("run.ended", "r1")), 1)
		w.want("calls", w.called("hook", "note"), []string{"hook r1 aborted", "note r1 aborted"})
	})
}

// A9: a given-up run has exactly one give-up in the log, and no end.
func TestA09AGiveUpIsOneEntryInTheLog(t *testing.T) {
	bubble(t, func(w *world) {
		w.start()
		req := request("r1", "idle", byNote)
		req.Budget.Max = time.Minute
		w.dispatch(req)
		w.pass(time.Hour)
		w.want("give-ups", len(w.events("run.given_up", "r1")), 1)
		w.want("ends", len(w.events("run.ended", "r1")), 0)
	})
}

// A10: cancelling an unknown run is an error that changes nothing; an ended one stays as
// it is; a second cancel calls nobody again.
func TestA10ACancelIsIdempotent(t *testing.T) {
	bubble(t, func(w *world) {
		w.start()
		if _, err := w.Service.Control.Cancel(w.ctx(), owner, "nobody", ""); !errors.Is(err, agent.ErrNoRun) {
			t.Errorf("cancelling an unknown run: %v", err)
		}
		w.dispatch(request("r1", "done", byNote))
		w.want("cancel of an ended run", w.cancel("r1", "").Status, subagent.Completed)
		w.dispatch(request("r2", "idle", byNote))
		w.cancel("r2", "first")
		w.want("second cancel", w.cancel("r2", "second").Problem, "first")
		w.pass(time.Hour)
		w.want("handler", w.called("note"), []string{"note r1 completed", "note r2 aborted"})
	})
}

// A11: a handler that is no longer registered at delivery: the hook is called, the slot
// closes, nothing fails.
func TestA11AHandlerThatIsGoneClosesTheSlot(t *testing.T) {
	bubble(t, func(w *world) {
		w.open()
		w.handler("old", func(context.Context, agent.Delivery) error { return nil })
		w.dispatch(request("r1", "done", subagent.Notice{Handler: "old"}))
		w.must(w.Close())
		w.agents = agent.NewRegistry()
		w.options.Agents = w.agents
		w.register()
		w.start()
		w.pass(time.Minute)
		w.want("finish", w.run("r1").Finish.State, subagent.Delivered)
		w.want("calls", w.called(), []string{"hook r1 completed"})
		w.want("failures", len(w.events("delivery.failed", "r1")), 0)
	})
}

// A13: a delivery for a run that was cleared does nothing.
func TestA13ADeliveryOfAClearedRunIsNothing(t *testing.T) {
	bubble(t, func(w *world) {
		w.open()
		w.dispatch(request("r1", "done", byNote))
		w.lost("r1")
		w.must(ok(w.finish("r1", completed)))
		stale := w.run("r1")
		w.must(w.courier().Deliver(w.ctx(), delivery.Parcel{Run: stale, Slot: subagent.Finish}))
		w.must(w.Service.Control.Clear(w.ctx(), owner))
		w.must(w.courier().Deliver(w.ctx(), delivery.Parcel{Run: stale, Slot: subagent.Finish, Attempt: "late"}))
		w.drain(platform.Turns)
		w.want("handler", w.called("note"), []string{})
		w.want("row", w.run("r1").Status, subagent.Void)
		w.want("messages", w.transcript(), []string{})
	})
}

// A15: a handler that takes longer than the lease keeps its claim: it runs once.
func TestA15AHandlerLongerThanTheLeaseRunsOnce(t *testing.T) {
	bubble(t, func(w *world) {
		var mu sync.Mutex
		running, most := 0, 0
		w.handler("slow", func(context.Context, agent.Delivery) error {
			mu.Lock()
			running++
			most = max(most, running)
			mu.Unlock()
			time.Sleep(10 * time.Minute)
			mu.Lock()
			running--
			mu.Unlock()
			return nil
		})
		w.start()
		w.dispatch(request("r1", "done", subagent.Notice{Handler: "slow"}))
		w.pass(time.Hour)
		w.want("at the same time", most, 1)
		w.want("calls", w.called("slow"), []string{"slow r1 completed"})
		w.want("finish", w.run("r1").Finish.State, subagent.Delivered)
	})
}

// A15: a handler that has lost its claim is stopped, and cannot mark the slot.
func TestA15AHandlerThatLostItsClaimCannotMarkTheSlot(t *testing.T) {
	bubble(t, func(w *world) {
		w.handler("robbed", func(ctx context.Context, d agent.Delivery) error {
			if d.Attempt > 1 {
				return nil
			}
			// Another deliverer has the claim now, as after a stop of this process that no
			// renewal survived.
			w.rule("r1", func(r subagent.Run) (subagent.Run, subagent.Outcome) {
				r.Claim = subagent.Claim{Token: w.Ledger.Token(), Until: r.Claim.Until, N: r.Claim.N + 1}
				return r, subagent.Apply
			})
			<-ctx.Done()
			return nil
		})
		w.start()
		w.dispatch(request("r1", "done", subagent.Notice{Handler: "robbed"}))
		w.pass(30 * time.Second)
		w.want("finish", w.run("r1").Finish.State, subagent.Open)
		w.pass(time.Hour)
		w.want("finish", w.run("r1").Finish.State, subagent.Delivered)
		w.want("calls", w.called("robbed"), []string{"robbed r1 completed", "robbed r1 completed"})
	})
}

// A16: a run that ends between the tick's read and its give-up is not given up.
func TestA16NoGiveUpAfterTheFinish(t *testing.T) {
	bubble(t, func(w *world) {
		w.open()
		w.dispatch(request("r1", "done", byNote))
		seen := w.lost("r1")
		w.must(ok(w.finish("r1", completed)))
		w.deliver("r1", subagent.Finish)
		outcome := w.rule("r1", func(r subagent.Run) (subagent.Run, subagent.Outcome) {
			return r.Interrupt(subagent.ReasonBudget, seen, w.Ledger.Now(), w.Ledger.Terms)
		})
		w.want("late give-up", outcome, subagent.Ended)
		interrupted := seen
		interrupted.Status = subagent.Interrupted
		w.must(w.courier().Deliver(w.ctx(), delivery.Parcel{Run: interrupted, Slot: subagent.GiveUp, Attempt: "late"}))
		w.drain(platform.Turns)
		w.want("handler", w.called("note"), []string{"note r1 completed"})
		w.want("status", w.run("r1").Status, subagent.Completed)
	})
}

// A17: three handlers that always fail delay nobody: the two others are delivered in the
// same tick, and the next tick is armed.
func TestA17PoisonHandlersDelayNobody(t *testing.T) {
	bubble(t, func(w *world) {
		w.open()
		for i, n := range []subagent.Notice{byBroken, byBroken, byBroken, byNote, byNote} {
			id := fmt.Sprintf("r%d", i)
			w.dispatch(request(id, "done", n))
			w.lost(id)
			w.must(ok(w.finish(id, completed)))
			w.pass(time.Millisecond)
		}
		w.tick()
		w.drain(platform.Turns)
		w.want("healthy handlers", w.called("note"), []string{"note r3 completed", "note r4 completed"})
		w.want("failures told", len(w.events("delivery.failed", "")), 3)
		w.want("armed", w.backbone().Armed, true)
		w.want("outstanding", len(w.backbone().Open), 3)
	})
}

// A18: a give-up whose teardown is confirmed is one callback; a child that completes all
// the same is a second one.
func TestA18ATeardownIsNotASecondEnd(t *testing.T) {
	bubble(t, func(w *world) {
		w.start()
		for _, task := range []string{"idle", "deaf"} {
			req := request(task, task, byNote)
			req.Budget.Max = time.Minute
			w.dispatch(req)
		}
		w.pass(90 * time.Second)
		w.want("give-ups", w.called("note"), []string{"note deaf interrupted", "note idle interrupted"})
		w.want("confirmed teardown", w.run("idle").ChildStillRunning(), false)
		w.want("unconfirmed", w.run("deaf").ChildStillRunning(), true)
		w.free("deaf")
		w.pass(time.Hour)
		w.want("calls", w.called("note"), []string{"note deaf interrupted", "note idle interrupted", "note deaf completed"})
		w.want("torn down", w.run("idle").Status, subagent.Interrupted)
		w.want("its finish slot", w.run("idle").Finish.State, subagent.Silent)
	})
}

// A hook that uses up its time delays its handler, and fails no delivery.
func TestASlowHookFailsNoDelivery(t *testing.T) {
	bubble(t, func(w *world) {
		w.agents.OnFinish = func(ctx context.Context, d agent.Delivery) error {
			<-ctx.Done()
			w.record("hook %s", d.ID)
			return ctx.Err()
		}
		w.handler("tell", func(context.Context, agent.Delivery) error { return nil })
		w.start()
		w.dispatch(request("r1", "done", subagent.Notice{Handler: "tell"}))
		w.pass(2 * time.Minute)
		w.want("calls", w.called("hook", "tell"), []string{"hook r1:finish", "tell r1 completed"})
		w.want("finish", w.run("r1").Finish.State, subagent.Delivered)
		w.want("attempts", w.run("r1").Finish.Attempts, 1)
	})
}

// A hook that a kill has cut off is called again by the first tick of the next process.
func TestAHookThatAKillCutOffIsCalledAgain(t *testing.T) {
	bubble(t, func(w *world) {
		w.agents.OnFinish = func(ctx context.Context, d agent.Delivery) error {
			w.record("hook %s", d.ID)
			select {
			case <-w.gate("hook"):
			case <-ctx.Done():
			}
			return nil
		}
		w.start()
		w.dispatch(request("r1", "done", notify))
		w.pass(time.Second)
		w.must(w.Close())
		w.free("hook")
		w.halt()
		w.start()
		w.pass(10 * time.Second)
		w.want("hooks", w.called("hook"), []string{"hook r1:finish", "hook r1:finish"})
		w.want("messages", len(w.transcript()), 2)
	})
}
