package cases_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/control"
	"github.com/errand-dev/errand/shared/platform"
	"github.com/errand-dev/errand/shared/subagent"
)

// I120: a run can be read by its owner only; a guessed id of another conversation or
// tenant is not there.
func TestI120ARunIsThereForItsOwnerOnly(t *testing.T) {
	bubble(t, func(w *world) {
		w.start()
		w.dispatch(request("r1", "idle", quietly))
		for _, o := range []subagent.Owner{{Tenant: "default", Conversation: "c2"}, {Tenant: "other", Conversation: "c1"}} {
			run, err := w.Ledger.Run(w.ctx(), o, "r1")
			w.must(err)
			w.want("row", run.Status, subagent.Status(""))
			_, err = w.Service.Control.Cancel(w.ctx(), o, "r1", "")
			if !errors.Is(err, agent.ErrNoRun) {
				t.Errorf("cancel by %v: %v", o, err)
			}
			if err := w.Service.Control.FollowUp(w.ctx(), o, "r1", "hello"); !errors.Is(err, agent.ErrNoRun) {
				t.Errorf("follow-up by %v: %v", o, err)
			}
		}
		w.want("run", w.run("r1").Status, subagent.Running)
	})
}

// I120 and I121: clearing deletes every row of the conversation but its backbone and
// tombstones that expire, in whatever state its runs and turns are; what those still do
// leaves nothing behind.
func TestI120ClearingLeavesNothing(t *testing.T) {
	bubble(t, func(w *world) {
		w.talker()
		w.milestones("import", "m")
		w.start()
		long := strings.Repeat("long ", 100_000)
		w.task("long", func(context.Context, *agent.Run) (any, error) { return long, nil })
		big := request("big", "long", notify)
		big.Input = raw(long)
		w.dispatch(big)
		blob := w.run("big").Input.Blob
		w.dispatch(request("gated", "import", notify))
		w.dispatch(request("deaf", "deaf", byNote))
		w.pass(time.Second)
		w.say("wait")
		w.pass(30 * time.Second)
		w.must(w.Service.Control.Clear(w.ctx(), owner))
		w.free("deaf")
		w.free("turn")
		w.pass(24 * time.Hour)

		items, found := w.Receiver().(platform.Store)
		if !found {
			t.Fatal("the embedded platform keeps no items")
		}
		for _, partition := range []string{"default/c1", "default/c1/big", "default/c1/gated", "default/c1/deaf"} {
			left, err := items.List(w.ctx(), platform.Query{Partition: partition})
			w.must(err)
			for _, item := range left {
				tombstone := strings.HasPrefix(item.Key.Sort, "RUN#") && strings.Contains(string(item.Body), `"st":"void"`)
				if !tombstone && !strings.HasSuffix(item.Key.Sort, "BACKBONE") {
					t.Errorf("left: %s %s %.100s", partition, item.Key.Sort, item.Body)
				}
			}
		}
		if blob == "" {
			t.Error("the input was meant to be a blob")
		}
		if _, err := items.GetBlob(w.ctx(), blob); !errors.Is(err, platform.ErrNoBlob) {
			t.Errorf("blob after the clear: %v", err)
		}
		w.want("armed", w.backbone().Armed, false)
		w.want("handlers", w.called("note"), []string{})

		// The conversation can begin anew.
		w.dispatch(request("gated", "done", notify))
		w.pass(time.Minute)
		w.want("new run", w.run("gated").Finish.State, subagent.Delivered)
	})
}

// I122: what the original tells an observer, and more, is in the log: dispatch, claim,
// failure, delivery, give-up, dead letter, arming and disarming.
func TestI122TheLogTellsOfEveryDecision(t *testing.T) {
	bubble(t, func(w *world) {
		w.start()
		w.dispatch(request("a", "done", byNote))
		w.dispatch(request("b", "done", byBroken))
		over := request("c", "idle", quietly)
		over.Budget.Max = time.Second
		w.dispatch(over)
		w.dispatch(request("d", "idle", quietly))
		w.cancel("d", "")
		w.pass(24 * time.Hour)
		all, err := w.Ledger.Events(w.ctx(), owner, 0, 10_000)
		w.must(err)
		seen := map[string]bool{}
		for _, e := range all {
			seen[e.Type] = true
		}
		for _, typ := range []string{"run.dispatched", "run.started", "run.ended", "run.given_up", "run.cancel_requested", "turn.accepted",
			"turn.started", "turn.completed", "delivery.claimed", "delivery.failed", "delivery.delivered", "delivery.dead_lettered",
			"backbone.armed", "backbone.disarmed"} {
			if !seen[typ] {
				t.Errorf("no event %s", typ)
			}
		}
		w.want("claimed and failed as often as tried", len(w.events("delivery.failed", "b")), subagent.MaxAttempts)
	})
}

// live dispatches runs until so many are live.
func (w *world) crowd(from, to int) {
	w.Helper()
	for i := from; i < to; i++ {
		w.dispatch(request(fmt.Sprintf("r%d", i), "idle", quietly))
	}
}

// I124: one warning when 50 runs are live, none at 51, and another one only after there
// were fewer.
func TestI124TheLiveCountWarningIsGivenOnce(t *testing.T) {
	bubble(t, func(w *world) {
		w.start()
		warnings := func() int { return len(w.events("run.live_count_warning", "")) }
		w.crowd(0, 49)
		w.want("at 49", warnings(), 0)
		w.crowd(49, 50)
		w.want("at 50", warnings(), 1)
		w.crowd(50, 51)
		w.want("at 51", warnings(), 1)
		for i := range 3 {
			w.cancel(fmt.Sprintf("r%d", i), "")
		}
		w.crowd(51, 52)
		w.want("below again", warnings(), 1)
		w.crowd(52, 53)
		w.want("at 50 again", warnings(), 2)
	})
}

// I126: clearing a conversation with a run at work cancels it, tells the hook once, and
// nobody else.
func TestI126ClearingTellsTheHookOnceAndNobodyElse(t *testing.T) {
	bubble(t, func(w *world) {
		w.start()
		w.dispatch(request("r1", "gated", byNote))
		w.dispatch(request("r2", "gated", notify))
		w.pass(time.Minute)
		w.must(w.Service.Control.Clear(w.ctx(), owner))
		w.must(w.Service.Control.Clear(w.ctx(), owner))
		w.pass(time.Hour)
		got := w.called()
		slices.Sort(got)
		w.want("calls", got, []string{"hook r1 aborted", "hook r2 aborted"})
		w.want("messages", w.transcript(), []string{})
		w.want("at work", w.Executor.Running(), 0)
	})
}

// A dead-lettered slot is delivered again when it is redriven, once, under a delivery id
// of its own; the run that needs no redrive refuses it.
func TestARedriveDeliversADeadLetter(t *testing.T) {
	bubble(t, func(w *world) {
		broken := true
		ids := map[string]bool{}
		w.handler("mended", func(_ context.Context, d agent.Delivery) error {
			ids[d.ID] = true
			if broken {
				return errors.New("still broken")
			}
			return nil
		})
		w.start()
		w.dispatch(request("r1", "done", subagent.Notice{Handler: "mended"}))
		w.pass(24 * time.Hour)
		w.want("dead", w.run("r1").Finish.State, subagent.Dead)
		w.want("armed", w.backbone().Armed, false)
		broken = false
		_, err := w.Service.Control.Redrive(w.ctx(), owner, "r1", "")
		w.must(err)
		w.pass(time.Minute)
		w.want("delivered", w.run("r1").Finish.State, subagent.Delivered)
		w.want("armed", w.backbone().Armed, false)
		w.want("delivery ids", ids, map[string]bool{"r1:finish": true, "r1:finish:1": true})
		if _, err := w.Service.Control.Redrive(w.ctx(), owner, "r1", ""); !errors.Is(err, control.ErrNothingToRedrive) {
			t.Errorf("second redrive: %v", err)
		}
	})
}

// A follow-up is read between the steps of a run, once, also over a kill; an ended run
// refuses it.
func TestAFollowUpIsReadOnce(t *testing.T) {
	bubble(t, func(w *world) {
		w.task("reads", func(ctx context.Context, r *agent.Run) (any, error) {
			heard := []string{}
			for _, gate := range []string{"one", "two"} {
				select {
				case <-ctx.Done():
					return nil, context.Cause(ctx)
				case <-w.gate(gate):
				}
				messages, err := r.Inbox(ctx)
				if err != nil {
					return nil, err
				}
				for _, m := range messages {
					heard = append(heard, gate+" "+m.Text)
				}
			}
			return strings.Join(heard, ", "), nil
		})
		w.start()
		w.dispatch(request("r1", "reads", quietly))
		w.must(w.Service.Control.FollowUp(w.ctx(), owner, "r1", "faster"))
		w.free("one")
		w.pass(time.Second)
		w.kill()
		w.work()
		w.must(w.Service.Control.FollowUp(w.ctx(), owner, "r1", "slower"))
		w.free("two")
		w.pass(time.Minute)
		w.want("heard", w.run("r1").Summary, "one faster, two slower")
		if err := w.Service.Control.FollowUp(w.ctx(), owner, "r1", "late"); !errors.Is(err, agent.ErrRunEnded) {
			t.Errorf("follow-up to an ended run: %v", err)
		}
	})
}

// A finished step is a sign of life, once the run has given a first one: a run that works
// on is not silent.
func TestAFinishedStepIsASignOfLife(t *testing.T) {
	bubble(t, func(w *world) {
		w.task("steps", func(ctx context.Context, r *agent.Run) (any, error) {
			if err := r.Progress(ctx, agent.Progress{Message: "the only report"}); err != nil {
				return nil, err
			}
			for i := range 10 {
				_, err := agent.Step(ctx, r, fmt.Sprintf("step-%d", i), func(ctx context.Context) (int, error) {
					timer := time.NewTimer(20 * time.Minute)
					defer timer.Stop()
					select {
					case <-timer.C:
						return i, nil
					case <-ctx.Done():
						return 0, context.Cause(ctx)
					}
				})
				if err != nil {
					return nil, err
				}
			}
			return "the result", nil
		})
		w.start()
		w.dispatch(request("r1", "steps", notify))
		w.pass(5 * time.Hour)
		w.want("status", w.run("r1").Status, subagent.Completed)
		w.want("give-ups", len(w.events("run.given_up", "r1")), 0)
	})
}

// A conversation can begin anew at once after a clear: the same run id and the same
// Idempotency-Key are new ones, whatever the queue still remembers.
func TestAfterAClearTheSameNamesBeginAnewAtOnce(t *testing.T) {
	bubble(t, func(w *world) {
		w.start()
		for round := range 2 {
			w.dispatch(request("r1", "done", notify))
			w.dispatch(request("r2", "done", byNote))
			_, replayed, err := w.accept("hello", "key-1")
			w.must(err)
			w.want("replayed", replayed, false)
			w.pass(time.Second)
			w.want(fmt.Sprintf("messages of round %d", round), len(w.transcript()), 4)
			w.must(w.Service.Control.Clear(w.ctx(), owner))
			w.pass(time.Second)
		}
		w.want("handler", w.called("note"), []string{"note r2 completed", "note r2 completed"})
	})
}

// A give-up that is a dead letter can be redriven too, although the run's finish slot is
// closed; a real end that came meanwhile refuses it.
func TestARedriveDeliversADeadGiveUp(t *testing.T) {
	bubble(t, func(w *world) {
		broken := true
		w.handler("mended", func(context.Context, agent.Delivery) error {
			if broken {
				return errors.New("still broken")
			}
			return nil
		})
		w.start()
		req := request("r1", "idle", subagent.Notice{Handler: "mended"})
		req.Budget.Max = time.Minute
		w.dispatch(req)
		w.pass(24 * time.Hour)
		run := w.run("r1")
		w.want("give_up", run.GiveUp.State, subagent.Dead)
		w.want("finish", run.Finish.State, subagent.Silent)
		broken = false
		_, err := w.Service.Control.Redrive(w.ctx(), owner, "r1", "")
		w.must(err)
		w.pass(time.Hour)
		run = w.run("r1")
		w.want("give_up", run.GiveUp.State, subagent.Delivered)
		w.want("finish", run.Finish.State, subagent.Silent)
		w.want("armed", w.backbone().Armed, false)
	})
}

// A tick that cannot be read stays a dead letter; it is not tried for ever.
func TestAMalformedTickStaysADeadLetter(t *testing.T) {
	bubble(t, func(w *world) {
		w.start()
		sender, _ := w.Receiver().(platform.Sender)
		w.must(sender.Send(w.ctx(), platform.Message{Queue: platform.Ticks, Group: "bad", Dedup: "bad", Body: []byte(`{"not":`)}))
		w.pass(time.Hour)
		dead, err := w.Receiver().DeadLetters(w.ctx(), platform.Ticks, 10)
		w.must(err)
		w.want("dead letters", len(dead), 1)
		w.pass(2*time.Minute + time.Second)
		dead, err = w.Receiver().DeadLetters(w.ctx(), platform.Ticks, 10)
		w.must(err)
		w.want("dead letters", len(dead), 1)
	})
}
