package cases_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/ledger"
	"github.com/errand-dev/errand/shared/subagent"
)

// reporter registers a task that does what the test sends it, one thing after the other.
func (w *world) reporter(name string) chan func(context.Context, *agent.Run) error {
	w.Helper()
	work := make(chan func(context.Context, *agent.Run) error)
	w.task(name, func(ctx context.Context, r *agent.Run) (any, error) {
		for {
			select {
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			case do, more := <-work:
				if !more {
					return nil, nil
				}
				if err := do(ctx, r); err != nil {
					return nil, err
				}
			}
		}
	})
	return work
}

func progress(fraction float64, message string) func(context.Context, *agent.Run) error {
	return func(ctx context.Context, r *agent.Run) error {
		return r.Progress(ctx, agent.Progress{Fraction: &fraction, Message: message, Phase: "rows", Data: json.RawMessage(`{"private":1}`)})
	}
}

// H108: after the end of its run a report is refused and changes nothing.
func TestH108AReportAfterTheEndIsRefused(t *testing.T) {
	bubble(t, func(w *world) {
		var kept *agent.Run
		var ended context.Context
		w.task("leaks", func(ctx context.Context, r *agent.Run) (any, error) {
			kept, ended = r, ctx
			return "the result", nil
		})
		w.start()
		w.dispatch(request("r1", "leaks", quietly))
		before := w.run("r1")
		if err := progress(1, "late")(ended, kept); err == nil {
			t.Error("a late report succeeded")
		}
		if err := kept.Milestone(ended, "late", nil); err == nil {
			t.Error("a late milestone succeeded")
		}
		w.pass(time.Minute)
		w.want("row", w.run("r1"), before)
		w.want("shown", len(w.shown), 0)
	})
}

// H109: a report is shown at once without a number of its own, and kept as the latest
// snapshot; it counts as a sign of life.
func TestH109AReportIsShownAndKept(t *testing.T) {
	bubble(t, func(w *world) {
		work := w.reporter("works")
		w.start()
		w.dispatch(request("r1", "works", quietly))
		w.pass(time.Minute)
		work <- progress(0.25, "a quarter")
		w.pass(0)
		run := w.run("r1")
		w.want("message", run.Progress.Message, "a quarter")
		w.want("fraction", *run.Progress.Fraction, 0.25)
		w.want("last signal", run.LastSignal, subagent.At(time.Now()))
		if len(w.shown) != 1 || w.shown[0].Seq != 0 || w.shown[0].Type != "run.progress" {
			t.Errorf("shown: %+v", w.shown)
		}
		w.want("in the log", len(w.events("run.progress", "")), 0)
	})
}

// H110: the free data of a report is shown and not kept; that of a milestone is kept.
func TestH110FreeDataIsShownAndNotKept(t *testing.T) {
	bubble(t, func(w *world) {
		work := w.reporter("works")
		w.start()
		w.dispatch(request("r1", "works", quietly))
		work <- progress(0.5, "half")
		work <- func(ctx context.Context, r *agent.Run) error { return r.Milestone(ctx, "m", map[string]int{"kept": 1}) }
		w.pass(time.Minute)
		var shown agent.Progress
		w.must(json.Unmarshal(w.shown[0].Data, &shown))
		w.want("shown", string(shown.Data), `{"private":1}`)
		if row := string(raw(w.run("r1"))); len(row) > 1024 {
			t.Errorf("the control row has %d bytes", len(row))
		}
		w.want("snapshot", w.run("r1").Progress.Message, "half")
		ms, err := w.Ledger.Milestones(w.ctx(), ledger.LifeOf(w.run("r1")), 0)
		w.must(err)
		w.want("milestone", string(ms[0].Data), `{"kept":1}`)
	})
}

// H111: a burst is shown at most every 200 ms and stored at most every second; its last
// report is stored all the same, and 100 % always at once.
func TestH111ABurstIsCoalescedAndItsEndIsKept(t *testing.T) {
	bubble(t, func(w *world) {
		work := w.reporter("works")
		w.start()
		w.dispatch(request("r1", "works", quietly))
		w.pass(time.Minute)
		before := w.run("r1").Version
		for i := range 100 {
			work <- progress(float64(i)/1000, fmt.Sprint(i))
			time.Sleep(time.Millisecond)
		}
		w.pass(0)
		w.want("shown", len(w.shown), 1)
		w.want("writes", w.run("r1").Version-before, int64(1))
		w.pass(2 * time.Second)
		w.want("the last of the burst", w.run("r1").Progress.Message, "99")
		w.want("writes", w.run("r1").Version-before, int64(2))
		work <- progress(0.9, "nearly")
		work <- progress(1, "all")
		w.pass(0)
		w.want("100 %", w.run("r1").Progress.Message, "all")
		w.want("shown last", w.shown[len(w.shown)-1].Run, "r1")
		w.want("shown", len(w.shown), 3)
	})
}

// H111: the last report of a run is kept with its end.
func TestH111TheLastReportIsKeptWithTheEnd(t *testing.T) {
	bubble(t, func(w *world) {
		work := w.reporter("works")
		w.start()
		w.dispatch(request("r1", "works", quietly))
		work <- progress(0.1, "first")
		work <- progress(0.2, "last")
		close(work)
		w.pass(time.Second)
		w.want("status", w.run("r1").Status, subagent.Completed)
		w.want("progress", w.run("r1").Progress.Message, "last")
	})
}

// H112: milestones are never coalesced: each is kept, in sequence, in the log, and once
// over executions.
func TestH112MilestonesAreNeverCoalesced(t *testing.T) {
	bubble(t, func(w *world) {
		w.milestones("import", "a", "b", "c", "a")
		w.start()
		w.dispatch(request("r1", "import", quietly))
		w.restart()
		w.kill()
		w.work()
		w.pass(time.Second)
		w.free("r1")
		w.pass(time.Minute)
		ms, err := w.Ledger.Milestones(w.ctx(), ledger.LifeOf(w.run("r1")), 0)
		w.must(err)
		got := []string{}
		for i, m := range ms {
			w.want("sequence", m.Sequence, i)
			got = append(got, m.Name)
		}
		w.want("kept", got, []string{"a", "b", "c", "a"})
		w.want("counted", w.run("r1").Milestones, 4)
		w.want("in the log", len(w.events("run.milestone", "r1")), 4)
		w.want("executions", w.run("r1").Exec.Epoch, int64(3))
	})
}

// Section 5.1: wrong fractions are bounded, long texts cut.
func TestAReportIsMadeToFit(t *testing.T) {
	bubble(t, func(w *world) {
		work := w.reporter("works")
		w.start()
		w.dispatch(request("r1", "works", quietly))
		work <- progress(17, string(make([]byte, 10_000)))
		w.pass(time.Second)
		p := w.run("r1").Progress
		w.want("fraction", *p.Fraction, 1.0)
		w.want("message", len(p.Message), 200)
	})
}

// H116: a client that joins late, or comes back, rebuilds the run from the log: every
// event of it once, its end and its give-up with their reasons.
func TestH116ALateClientRebuildsTheRunFromTheLog(t *testing.T) {
	bubble(t, func(w *world) {
		w.start()
		req := request("r1", "deaf", notify)
		req.Budget.Max = 10 * time.Minute
		w.dispatch(req)
		w.pass(13 * time.Minute)
		w.free("r1")
		w.pass(time.Hour)
		var types []string
		var after int64
		for {
			page, err := w.Ledger.Events(w.ctx(), owner, after, 2)
			w.must(err)
			if len(page) == 0 {
				break
			}
			for _, e := range page {
				after = e.Seq
				if e.Run == "r1" && (e.Type != "delivery.delivered") {
					types = append(types, e.Type)
				}
			}
		}
		w.want("history", types, []string{"run.dispatched", "run.started", "run.given_up", "turn.accepted", "turn.started", "message.added",
			"message.added", "turn.completed", "run.ended", "turn.accepted", "turn.started", "message.added", "message.added", "turn.completed"})
		w.want("reason", string(w.events("run.given_up", "r1")[0].Data), `{"reason":"budget-exceeded"}`)
		w.want("end", string(w.events("run.ended", "r1")[0].Data), `{"status":"completed"}`)
	})
}

// H117: why a run was given up and whether it may still be at work are kept over a
// restart, and cleared when a real end repairs it.
func TestH117ReasonAndStillRunningAreKeptAndCleared(t *testing.T) {
	bubble(t, func(w *world) {
		w.open()
		w.dispatch(request("r1", "idle", byNote))
		w.lost("r1")
		w.giveUp("r1")
		w.must(w.Close())
		w.open()
		w.want("reason", w.run("r1").Reason, subagent.ReasonBudget)
		w.want("still running", agent.InfoOf(w.run("r1")).ChildStillRunning, true)
		w.must(ok(w.finish("r1", completed)))
		info := agent.InfoOf(w.run("r1"))
		w.want("reason", info.Reason, "")
		w.want("still running", info.ChildStillRunning, false)
	})
}
