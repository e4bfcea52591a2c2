package cases_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/platform"
	"github.com/errand-dev/errand/shared/subagent"
	"github.com/errand-dev/errand/shared/timetable"
)

// plan creates a schedule with a prompt.
func (w *world) plan(expression, zone string) timetable.Schedule {
	w.Helper()
	prompt := "report"
	made, _, err := w.Service.Timetable.Create(w.ctx(), owner, timetable.Change{Expression: &expression, Zone: &zone, Prompt: &prompt}, "")
	w.must(err)
	return made
}

// firings counts the turns that the chat was given by schedules.
func (w *world) firings() int {
	n := 0
	for _, call := range w.called("turn") {
		if strings.HasPrefix(call, "turn schedule: ") {
			n++
		}
	}
	return n
}

// A schedule of days fires on time through the whole stack, over restarts and kills on
// the way: its timer goes in hops, and each is a message that outlives the process.
func TestAScheduleOfDaysFiresOverRestartsAndKills(t *testing.T) {
	bubble(t, func(w *world) {
		w.start()
		w.plan("rate(1 day)", "")
		w.pass(time.Second)
		for day := range 2 {
			w.pass(8 * time.Hour)
			w.restart()
			w.pass(8 * time.Hour)
			w.kill()
			w.work()
			w.pass(8*time.Hour - 2*time.Second)
			w.want("firings before the day is over", w.firings(), day)
			w.pass(2 * time.Second)
			w.want("firings after it", w.firings(), day+1)
		}
		w.want("transcript", w.transcript()[0], "user schedule: report")
	})
}

// A schedule keeps to the clocks of its zone when they change.
func TestAScheduleFollowsTheClocksOfItsZone(t *testing.T) {
	bubble(t, func(w *world) {
		saturday := time.Date(2000, 4, 1, 12, 0, 0, 0, time.UTC) // the clocks change on Sunday at 2 am
		time.Sleep(time.Until(saturday))
		w.start()
		made := w.plan("cron(30 9 ? * * *)", "America/New_York")
		w.want("in winter", made.NextAt.Time(), time.Date(2000, 4, 1, 14, 30, 0, 0, time.UTC))
		w.pass(26 * time.Hour)
		list, err := w.Service.Timetable.List(w.ctx(), owner)
		w.must(err)
		w.want("in summer", list[0].LastAt.Time(), time.Date(2000, 4, 2, 13, 30, 0, 0, time.UTC))
		w.want("firings", w.firings(), 2)
	})
}

// A laptop that was closed for a week hears once of what it missed, and then goes on.
func TestWhatWasMissedIsFiredOnce(t *testing.T) {
	bubble(t, func(w *world) {
		w.start()
		w.plan("rate(1 hour)", "")
		w.pass(90 * time.Minute)
		w.want("firings", w.firings(), 1)
		w.halt()
		w.must(w.Close())
		time.Sleep(7 * 24 * time.Hour)
		w.start()
		w.pass(time.Second)
		w.want("firings after a week", w.firings(), 2)
		w.pass(time.Hour)
		w.want("an hour later", w.firings(), 3)
	})
}

// Firings come one after the other like all turns, also while one of them takes long.
func TestAFiringWaitsForItsPlaceInTheConversation(t *testing.T) {
	bubble(t, func(w *world) {
		w.start()
		made := w.plan("rate(1 minute)", "")
		w.died("another turn")
		w.pass(3 * time.Minute)
		w.must(w.Service.Timetable.Delete(w.ctx(), owner, made.ID))
		w.pass(time.Hour)
		turns, err := w.Ledger.ListTurns(w.ctx(), owner, "", 100)
		w.must(err)
		w.want("every accepted firing was heard", w.firings(), len(turns))
		w.want("firings", w.firings(), 3)
	})
}

// Clearing a conversation ends its schedules: their timers find nothing and die.
func TestClearingAConversationEndsItsSchedules(t *testing.T) {
	bubble(t, func(w *world) {
		w.start()
		w.plan("rate(1 minute)", "")
		w.pass(61 * time.Second)
		w.want("firings", w.firings(), 1)
		w.must(w.Service.Control.Clear(w.ctx(), owner))
		w.pass(time.Hour)
		w.want("firings after the clear", w.firings(), 1)
		w.halt()
		w.want("messages that are left", len(w.take(platform.Ticks)), 0)
	})
}

// A run cannot dispatch a disabled agent: it is told why, and nothing is left behind. What
// it dispatched before is its child still, also when its code runs again.
func TestARunThatDispatchesADisabledAgentIsToldWhy(t *testing.T) {
	bubble(t, func(w *world) {
		var refusals []error
		w.task("parent", func(ctx context.Context, r *agent.Run) (any, error) {
			if _, err := r.Dispatch(ctx, agent.Dispatch{RunID: "before", Agent: "gated"}); err != nil {
				return nil, err
			}
			select {
			case <-w.gate("parent"):
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
			_, err := r.Dispatch(ctx, agent.Dispatch{RunID: "after", Agent: "gated"})
			refusals = append(refusals, err)
			_, err = r.Dispatch(ctx, agent.Dispatch{RunID: "other", Agent: "done"})
			return nil, err
		})
		w.start()
		w.dispatch(request("p1", "parent", quietly))
		_, err := w.Service.Controls.Set(w.ctx(), "gated", subagent.Control{Disabled: true})
		w.must(err)
		w.restart() // the parent runs again from its beginning
		w.pass(time.Minute)
		w.want("before the gate opens", w.run("p1").Status, subagent.Running)
		w.free("parent")
		w.pass(time.Second)
		w.want("the parent", w.run("p1").Status, subagent.Completed)
		if len(refusals) != 1 || !errors.Is(refusals[0], agent.ErrAgentDisabled) {
			t.Errorf("the refusals are %v", refusals)
		}
		w.want("the refused run", w.run("after").Status, subagent.Status(""))
		w.want("another agent's run", w.run("other").Status, subagent.Completed)
		w.want("the child of before goes on", w.run("before").Status, subagent.Running)
		w.free("before")
		w.pass(time.Second)
		w.want("and ends", w.run("before").Status, subagent.Completed)
	})
}

// A run that is accepted in maintenance waits, one that has begun goes on; when the
// maintenance is over, a tick begins what waits.
func TestARunThatIsAcceptedInMaintenanceWaitsForItsEnd(t *testing.T) {
	bubble(t, func(w *world) {
		w.start()
		w.dispatch(request("begun", "gated", quietly))
		_, err := w.Service.Controls.Set(w.ctx(), "gated", subagent.Control{Maintenance: subagent.AcceptInMaintenance})
		w.must(err)
		w.dispatch(request("waits", "gated", notify))
		w.free("waits")
		w.restart()
		w.pass(20 * time.Minute)
		w.want("the one that has begun", w.run("begun").Status, subagent.Running)
		w.want("the one that waits", w.run("waits").Status, subagent.Queued)
		w.free("begun")
		w.pass(time.Second)
		w.want("the one that had begun", w.run("begun").Status, subagent.Completed)
		_, err = w.Service.Controls.Set(w.ctx(), "gated", subagent.Control{})
		w.must(err)
		w.pass(2*time.Minute + time.Second)
		w.want("after the maintenance", w.run("waits").Status, subagent.Completed)
		w.want("and it is told", len(w.events("delivery.delivered", "waits")), 1)
	})
}
