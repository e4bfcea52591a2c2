package audit_test

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/audit"
	"github.com/errand-dev/errand/shared/dispatch"
	"github.com/errand-dev/errand/shared/ingress"
	"github.com/errand-dev/errand/shared/platform"
	"github.com/errand-dev/errand/shared/serve"
	"github.com/errand-dev/errand/shared/subagent"
	"github.com/errand-dev/errand/shared/timetable"
)

var owner = subagent.Owner{Tenant: "default", Conversation: "c"}

// world is a stack in fake time whose messages the test may lose.
type world struct {
	*testing.T
	*serve.Stack
	auditor audit.Auditor
}

func bubble(t *testing.T, body func(w *world)) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		agents := agent.NewRegistry()
		w := &world{T: t}
		w.must(agents.AddTask("done", func(context.Context, *agent.Run) (any, error) { return "the result", nil }))
		w.must(agents.AddChat("chat", func(_ context.Context, turn *agent.Turn) (string, error) { return "heard " + string(turn.Kind), nil }))
		var err error
		w.Stack, err = serve.Open(t.Context(), serve.Options{Dir: dir, Agents: agents})
		w.must(err)
		w.auditor.Ledger = w.Ledger
		body(w)
		w.must(w.Close())
	})
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) dispatch(id string) {
	w.Helper()
	_, _, err := w.Service.Dispatcher.Start(w.Context(), dispatch.Request{
		Owner: owner, Run: id, Agent: "done", Input: json.RawMessage(`{}`), Notice: subagent.Notice{Message: true}})
	w.must(err)
}

// purge loses every message of the queue, as an operator's purge does, and lets an hour pass.
func (w *world) purge(queues ...string) {
	w.Helper()
	time.Sleep(time.Hour)
	for _, queue := range queues {
		for {
			ctx, cancel := context.WithTimeout(w.Context(), time.Millisecond)
			got, err := w.Receiver().Receive(ctx, queue, 1, time.Minute)
			cancel()
			if len(got) == 0 {
				break
			}
			w.must(err)
			w.must(w.Receiver().Acknowledge(w.Context(), got[0]))
		}
	}
}

// work lets the stack work for a while.
func (w *world) work() {
	ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
	defer cancel()
	w.Stack.Run(ctx)
}

func (w *world) kinds() []string {
	w.Helper()
	report, err := w.auditor.Audit(w.Context(), owner)
	w.must(err)
	kinds := []string{}
	for _, f := range report.Findings {
		kinds = append(kinds, string(f.Kind)+" "+f.Run+f.Turn)
	}
	return kinds
}

func (w *world) want(what string, got, want any) {
	w.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		w.Errorf("%s (-want +got)\n%s", what, diff)
	}
}

func TestARunWhoseMessagesWereLostIsNamedAndRepaired(t *testing.T) {
	bubble(t, func(w *world) {
		w.dispatch("r1")
		w.want("at once", w.kinds(), []string{})
		w.purge(platform.Runs, platform.Ticks)
		w.want("an hour later", w.kinds(), []string{"overdue-backbone ", "not-started r1"})
		w.work()
		w.want("without a repair", w.kinds(), []string{"overdue-backbone ", "not-started r1"})

		before, err := w.Ledger.Backbone(w.Context(), owner)
		w.must(err)
		sent, err := w.auditor.Repair(w.Context(), owner)
		w.must(err)
		after, err := w.Ledger.Backbone(w.Context(), owner)
		w.must(err)
		w.want("sent", sent, audit.Sent{Tick: before.Epoch})
		w.want("the backbone", after, before)
		w.work()
		w.want("repaired", w.kinds(), []string{})
		run, err := w.Ledger.Run(w.Context(), owner, "r1")
		w.must(err)
		w.want("the end", run.Finish.State, subagent.Delivered)
	})
}

func TestATurnWhoseWakeWasLostIsNamedAndWoken(t *testing.T) {
	bubble(t, func(w *world) {
		turn, _, err := w.Service.Accept(w.Context(), ingress.TurnRequest{Owner: owner, Message: "hello"})
		w.must(err)
		w.purge(platform.Turns)
		w.want("an hour later", w.kinds(), []string{"stuck-turn " + turn.ID})
		sent, err := w.auditor.Repair(w.Context(), owner)
		w.must(err)
		w.want("sent", sent, audit.Sent{Turn: turn.ID})
		w.work()
		w.want("repaired", w.kinds(), []string{})
		turn, err = w.Ledger.Turn(w.Context(), owner, turn.ID)
		w.must(err)
		w.want("the turn", turn.Status, subagent.Completed)
	})
}

// The conversation has nothing else: its first turn is the schedule's.
func TestAScheduleWhoseTimerWasLostIsNamedAndFires(t *testing.T) {
	bubble(t, func(w *world) {
		often, prompt := "rate(30 minutes)", "report"
		_, _, err := w.Service.Timetable.Create(w.Context(), owner, timetable.Change{Expression: &often, Prompt: &prompt}, "")
		w.must(err)
		w.want("at first", w.kinds(), []string{})
		w.purge(platform.Ticks)
		w.want("an hour later", w.kinds(), []string{"overdue-schedule "})
		sent, err := w.auditor.Repair(w.Context(), owner)
		w.must(err)
		w.want("sent", sent, audit.Sent{Timers: 1})
		w.work()
		w.want("repaired", w.kinds(), []string{})
		turns, err := w.Ledger.ListTurns(w.Context(), owner, "", 9)
		w.must(err)
		w.want("turns", len(turns), 1)
	})
}

// A conversation with more rows than are read at once.
func TestEveryRowIsLookedAt(t *testing.T) {
	bubble(t, func(w *world) {
		const turns = 1001
		for range turns {
			_, _, err := w.Service.Accept(w.Context(), ingress.TurnRequest{Owner: owner, Message: "hello"})
			w.must(err)
		}
		w.work()
		report, err := w.auditor.Audit(w.Context(), owner)
		w.must(err)
		w.want("report", report, audit.Report{Turns: turns, Messages: 2 * turns})
	})
}

// What the second look does not show any more was on its way at the first, and what it shows
// anew may be on its way.
func TestOnlyWhatIsSeenTwiceIsReported(t *testing.T) {
	for name, test := range map[string]struct {
		later time.Duration
		want  []string
	}{"all is well at the second": {0, []string{}}, "something else is wrong at the second": {time.Hour, []string{"overdue-backbone "}}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				w.dispatch("r1")
				looks, hurried := 0, *w.Ledger
				hurried.Now = func() time.Time {
					if looks++; looks > 1 {
						return time.Now().Add(test.later)
					}
					// The rows were read; before they are read again, another writes.
					_, _, err := w.Ledger.UpdateRun(w.Context(), subagent.Run{Owner: owner, ID: "r1"}, func(r subagent.Run) (subagent.Run, subagent.Outcome) {
						r.Deadline = subagent.At(time.Now().Add(time.Second))
						return r, subagent.Apply
					})
					w.must(err)
					return time.Now().Add(time.Hour)
				}
				w.auditor.Ledger = &hurried
				w.want("findings", w.kinds(), test.want)
				w.want("looks", looks, 2)
			})
		})
	}
}
