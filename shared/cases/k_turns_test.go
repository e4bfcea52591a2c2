package cases_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/ingress"
	"github.com/errand-dev/errand/shared/platform"
	"github.com/errand-dev/errand/shared/subagent"
)

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

// A turn that waits is no work of any process: one that dies takes nothing of it along. (The
// steps of a suspension, and a crash between any two, are the simulation's.)
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
		for i := range subagent.BusyAt {
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
		w.want("answered", len(w.called("turn")), subagent.BusyAt+2)
		_, _, err = w.accept("one more", "")
		w.must(err)
	})
}

// Of what was accepted before a turn began to wait more may come than the row has room for,
// and the wake of the turn that waits comes behind it all: nothing stands still, and nothing
// is lost.
func TestABacklogBeyondTheRowDoesNotStandInTheWayOfAWake(t *testing.T) {
	bubble(t, func(w *world) {
		w.waitingChat(func(ctx context.Context, t *agent.Turn) (string, error) {
			return "awake", t.Sleep(ctx, "nap", time.Minute)
		})
		w.open()
		first := w.say("go")
		const more = subagent.MaxParked + 10
		for i := range more {
			_, _, err := w.accept("more", fmt.Sprint("key", i))
			w.must(err)
		}
		w.work()
		w.pass(10 * time.Minute)
		w.want("first", w.turn(first.ID).Status, subagent.Completed)
		w.want("answered", len(w.called("turn")), more+2)
	})
}
