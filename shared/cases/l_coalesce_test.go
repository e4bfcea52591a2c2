package cases_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/platform"
	"github.com/errand-dev/errand/shared/subagent"
)

// busy makes the default chat one whose turn on "go" lasts until the gate "busy" opens; it
// records what each turn tells.
func (w *world) busy() {
	w.Helper()
	w.must(w.agents.AddChat("busy", func(ctx context.Context, t *agent.Turn) (string, error) {
		told := []string{t.Run}
		for _, also := range t.Also {
			told = append(told, also.Run)
		}
		w.record("turn %s", strings.Join(told, " "))
		if t.Message == "go" {
			<-w.gate("busy")
		}
		return "heard" + strings.Join(told, " "), nil
	}))
	w.agents.DefaultChat = "busy"
}

// Ends that come while a turn runs are told in one turn, in their order; each run is
// delivered and marked by itself, and each turn row ends.
func TestEndsThatComeWhileATurnRunsAreToldTogether(t *testing.T) {
	bubble(t, func(w *world) {
		w.busy()
		w.start()
		w.say("go")
		for i := range 4 {
			w.dispatch(request(fmt.Sprintf("r%d", i), "gated", notify))
		}
		for _, run := range []string{"r2", "r0", "r3", "r1"} {
			w.free(run)
			w.pass(time.Second)
		}
		w.free("busy")
		w.pass(time.Second)
		w.want("turns", w.called("turn"), []string{"turn ", "turn r2 r0 r3 r1"})
		for i := range 4 {
			id := fmt.Sprintf("r%d", i)
			w.want(id, w.run(id).Finish.State, subagent.Delivered)
			turn := w.turn("detached-finish:" + id + ":completed")
			w.want(id+" turn", turn.Status, subagent.Completed)
			into := "detached-finish:r2:completed"
			if id == "r2" {
				into = ""
			}
			w.want(id+" into", turn.Into, into)
			m, ok := w.message("detached-finish:" + id + ":completed")
			w.want(id+" message", ok && m.Run == id, true)
		}
		w.want("messages", len(w.transcript()), 7)
		w.pass(time.Hour)
		w.want("turns", len(w.called("turn")), 2)
	})
}

// However long the log has become since: nobody is told before one whose turn came first.
func TestManyEndsThatComeWhileATurnRunsAreToldInTheirOrder(t *testing.T) {
	bubble(t, func(w *world) {
		w.busy()
		w.start()
		w.say("go")
		var runs []string
		for i := range 40 {
			runs = append(runs, fmt.Sprintf("r%02d", i))
			w.dispatch(request(runs[i], "done", notify))
			w.pass(time.Second)
		}
		w.free("busy")
		w.pass(time.Second)
		want := []string{"turn "}
		for together := range slices.Chunk(runs, subagent.DefaultCoalescing.Max) {
			want = append(want, "turn "+strings.Join(together, " "))
		}
		w.want("turns", w.called("turn"), want)
	})
}

// What comes while nobody is busy is told at once, by itself.
func TestAnEndThatWaitsForNobodyIsToldAlone(t *testing.T) {
	bubble(t, func(w *world) {
		w.busy()
		w.start()
		for i := range 3 {
			w.dispatch(request(fmt.Sprintf("r%d", i), "done", notify))
			w.pass(time.Second)
		}
		w.want("turns", w.called("turn"), []string{"turn r0", "turn r1", "turn r2"})
	})
}

func TestTheCapAndTheWindowOfCoalescing(t *testing.T) {
	for _, c := range []struct {
		name string
		rule subagent.Coalescing
		want []string
	}{
		{"at most two", subagent.Coalescing{Max: 2, Window: time.Hour}, []string{"turn ", "turn r0 r1", "turn r2 r3"}},
		{"none", subagent.Coalescing{Max: 1, Window: time.Hour}, []string{"turn ", "turn r0", "turn r1", "turn r2", "turn r3"}},
		{"within 90 s", subagent.Coalescing{Max: 9, Window: 90 * time.Second}, []string{"turn ", "turn r0 r1", "turn r2 r3"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(w *world) {
				w.options.Coalesce = c.rule
				w.busy()
				w.start()
				w.say("go")
				for i := range 4 {
					w.dispatch(request(fmt.Sprintf("r%d", i), "done", notify))
					w.pass(time.Minute)
				}
				w.free("busy")
				w.pass(time.Second)
				w.want("turns", w.called("turn"), c.want)
			})
		})
	}
}

// Executed again after a crash, the turn tells the same ends, and one that came meanwhile
// in a turn of its own: nothing is told twice, nothing is forgotten.
func TestACrashWhileEndsAreToldTogether(t *testing.T) {
	bubble(t, func(w *world) {
		tries := 0
		w.must(w.agents.AddChat("dies", func(ctx context.Context, t *agent.Turn) (string, error) {
			told := t.Run
			for _, also := range t.Also {
				told += " " + also.Run
			}
			w.record("turn %s", told)
			if tries++; t.Message != "go" && tries == 2 {
				return "", agent.Retryable(context.DeadlineExceeded)
			}
			return "heard " + told, nil
		}))
		w.agents.DefaultChat = "dies"
		w.open()
		w.say("go")
		for _, id := range []string{"r0", "r1"} {
			w.dispatch(request(id, "done", notify))
		}
		w.drain(platform.Runs)
		w.pass(time.Millisecond)
		w.drain(platform.Turns) // the user's turn, then r0 with r1, which fails
		w.dispatch(request("r2", "done", notify))
		w.drain(platform.Runs)
		w.kill()
		w.work()
		w.pass(10 * time.Minute)
		w.want("turns", w.called("turn"), []string{"turn ", "turn r0 r1", "turn r0 r1", "turn r2"})
		w.want("messages", len(w.transcript()), 2+3+2)
	})
}
