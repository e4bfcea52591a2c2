package cases_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/platform"
	"github.com/errand-dev/errand/shared/subagent"
)

// stepper makes the default chat one that makes so many steps. The process dies behind each
// of the first ones; from the step stuck on it dies inside, each time.
func (w *world) stepper(steps, stuck int) {
	w.Helper()
	w.must(w.agents.AddChat("steps", func(ctx context.Context, t *agent.Turn) (string, error) {
		if t.Message != "go" {
			return "heard", nil
		}
		w.record("receive")
		for i := range steps {
			fresh := false
			_, err := agent.Step(ctx, t, fmt.Sprint("step-", i), func(ctx context.Context) (int, error) {
				fresh = true
				if i >= stuck {
					<-ctx.Done()
					return 0, context.Cause(ctx)
				}
				w.record("step %d", i)
				return i, nil
			})
			if err != nil {
				return "", err
			}
			if fresh {
				<-ctx.Done() // the test kills us here
				return "", context.Cause(ctx)
			}
		}
		return "done", nil
	}))
	w.agents.DefaultChat = "steps"
}

// killOften kills the process n times, a minute apart.
func (w *world) killOften(n int) {
	for range n {
		w.pass(time.Minute)
		w.kill()
		w.work()
	}
	w.pass(time.Minute)
}

// A turn whose executors die is no poison while each of them finishes a step: it outlives
// more of them than its message is handed out.
func TestATurnWhoseExecutorsDieGoesOnWhileItGetsFurther(t *testing.T) {
	bubble(t, func(w *world) {
		w.stepper(8, 8)
		w.start()
		turn := w.say("go")
		w.say("next")
		w.killOften(8)
		w.want("status", w.turn(turn.ID).Status, subagent.Completed)
		w.want("steps", len(w.called("step")), 8)
		w.want("revivals", w.turn(turn.ID).Revivals, 2)
		w.want("transcript", w.transcript(), []string{"user user: go", "assistant agent: done", "user user: next", "assistant agent: heard"})
	})
}

// One that gets no further is given up as soon as any other: after two messages here, where
// all work of a process dies with it.
func TestATurnThatGetsNoFurtherIsGivenUpWithItsMessage(t *testing.T) {
	bubble(t, func(w *world) {
		w.stepper(8, 1)
		w.start()
		turn := w.say("go")
		w.say("next")
		w.killOften(10)
		w.want("status", w.turn(turn.ID).Status, subagent.Error)
		w.want("executions", len(w.called("receive")), 2*(platform.MaxReceives-1))
		w.want("transcript", w.transcript(), []string{"user user: go", "user user: next", "assistant agent: heard"})
	})
}

// A handler's turn is not given up with its message: at its last receive the handler is called
// like before, and not only when the claim of that receive has lapsed.
func TestAHandlersTurnAtItsLastReceiveCallsItsHandler(t *testing.T) {
	bubble(t, func(w *world) {
		calls := 0
		w.handler("slow", func(ctx context.Context, _ agent.Delivery) error {
			if calls++; calls < platform.MaxReceives {
				<-ctx.Done()
			}
			return ctx.Err()
		})
		w.start()
		w.dispatch(request("r1", "done", subagent.Notice{Handler: "slow"}))
		for range platform.MaxReceives - 1 {
			w.pass(time.Second)
			w.kill()
			w.work()
		}
		w.pass(5 * time.Second)
		w.want("calls", calls, platform.MaxReceives)
		w.want("slot", w.run("r1").Finish.State, subagent.Delivered)
	})
}
