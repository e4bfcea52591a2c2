package subagent_test

import (
	"testing"
	"time"

	"github.com/errand-dev/errand/shared/subagent"
)

func TestInterrupt(t *testing.T) {
	seen := run(running).held("x", 60).with(func(r *subagent.Run) { r.Deadline, r.LastSignal = at(100), at(5) })
	interrupt := func(r subagent.Run) (subagent.Run, subagent.Outcome) {
		return r.Interrupt(subagent.ReasonBudget, seen.r, sec(100), terms)
	}
	given := func(r *subagent.Run) {
		r.Status, r.Reason, r.GivenUpAt, r.WatchUntil = interrupted, subagent.ReasonBudget, at(100), at(200)
	}
	again := func() *builder { b := *seen; return &b }
	check(t, []row{
		{name: "a running run is given up, its epoch stays", on: again(), rule: interrupt, want: subagent.Apply, change: given},
		{name: "a run that nobody holds is torn at once", on: again().with(func(r *subagent.Run) { r.Exec.Holder = "" }), rule: interrupt, want: subagent.Apply,
			change: func(r *subagent.Run) { given(r); r.Torn = true }},
		{name: "a signal meanwhile refuses it", on: again().with(func(r *subagent.Run) { r.LastSignal = at(99) }), rule: interrupt, want: subagent.Stale},
		{name: "a new deadline refuses it", on: again().with(func(r *subagent.Run) { r.Deadline = at(500) }), rule: interrupt, want: subagent.Stale},
		{name: "an end refuses it", on: again().with(func(r *subagent.Run) { r.Status = completed }), rule: interrupt, want: subagent.Ended},
		{name: "a tombstone refuses it", on: run(void), rule: interrupt, want: subagent.Stale},
	})
	for name, c := range map[string]struct {
		deadline subagent.Time
		window   time.Duration
	}{
		"one more budget":           {at(600), 600 * time.Second},
		"at least lease and skew":   {at(1), terms.Lease + 2*terms.Skew},
		"at most a day":             {at(48 * 3600), 24 * time.Hour},
		"a day without any ceiling": {0, 24 * time.Hour},
	} {
		r := run(running).with(func(r *subagent.Run) { r.Deadline = c.deadline }).r
		next, _ := r.Interrupt("", r, sec(0), terms)
		if want := at(0).Add(c.window); next.WatchUntil != want {
			t.Errorf("%s: watched until %v, want %v", name, next.WatchUntil.Time(), want.Time())
		}
	}
}

func TestCancelFailAndClear(t *testing.T) {
	cancel := func(r subagent.Run) (subagent.Run, subagent.Outcome) { return r.Cancel("stop", sec(9)) }
	fail := func(r subagent.Run) (subagent.Run, subagent.Outcome) {
		return r.Fail(subagent.ReasonExecutorLost, "died", 3, sec(9))
	}
	stop := func(r *subagent.Run) {
		r.Status, r.Reason, r.Problem, r.EndedAt = aborted, subagent.ReasonCancelled, "stop", at(9)
	}
	died := func(r *subagent.Run) {
		r.Status, r.Reason, r.Problem, r.EndedAt = failed, subagent.ReasonExecutorLost, "died", at(9)
	}
	check(t, []row{
		{name: "cancel of a queued run", on: run(queued), rule: cancel, want: subagent.Apply, change: stop},
		{name: "cancel of a waiting run", on: run(waiting), rule: cancel, want: subagent.Apply, change: stop},
		{name: "cancel of a given-up run", on: run(interrupted), rule: cancel, want: subagent.Apply, change: stop},
		{name: "cancel of an abandoned run is closed", on: run(interrupted).slot(finish, subagent.Abandoned), rule: cancel, want: subagent.Closed},
		{name: "cancel of a completed run is ended", on: run(completed), rule: cancel, want: subagent.Ended},
		{name: "cancel of a failed run is ended", on: run(failed), rule: cancel, want: subagent.Ended},
		{name: "cancel of a tombstone is absent", on: run(void), rule: cancel, want: subagent.Absent},
		{name: "fail of a lost run", on: run(running).held("x", 0), rule: fail, want: subagent.Apply, again: subagent.Ended, change: died},
		{name: "fail on an older count is stale", on: run(running).held("x", 0).with(func(r *subagent.Run) { r.Exec.Epoch = 4 }), rule: fail, want: subagent.Stale},
		{name: "fail of a given-up run is stale", on: run(interrupted).held("x", 0), rule: fail, want: subagent.Stale},
		{name: "fail of a completed run is ended", on: run(completed).held("x", 0), rule: fail, want: subagent.Ended},
		{name: "clear ends and closes both slots", on: run(running), rule: func(r subagent.Run) (subagent.Run, subagent.Outcome) { return r.Clear(sec(9)) }, want: subagent.Apply, again: subagent.Closed,
			change: func(r *subagent.Run) {
				r.Status, r.Reason, r.EndedAt = aborted, subagent.ReasonCancelled, at(9)
				r.Finish = subagent.Delivery{State: subagent.Silent, At: at(9)}
				r.GiveUp = r.Finish
			}},
	})
}

func TestCloseSilentlyAndStopWatching(t *testing.T) {
	silence := func(r subagent.Run) (subagent.Run, subagent.Outcome) { return r.CloseSilently(sec(300)) }
	stop := func(now float64) rule {
		return func(r subagent.Run) (subagent.Run, subagent.Outcome) { return r.StopWatching(sec(now), terms) }
	}
	told := func() *builder {
		return run(interrupted).held("x", 60).slot(giveUp, subagent.Delivered).with(func(r *subagent.Run) { r.WatchUntil = at(100) })
	}
	torn := func() *builder { return told().with(func(r *subagent.Run) { r.Torn = true }) }
	closed := func(s subagent.SlotState, n float64) func(*subagent.Run) {
		return func(r *subagent.Run) { r.Finish = subagent.Delivery{State: s, At: at(n)} }
	}
	check(t, []row{
		{name: "a torn run closes silently", on: torn(), rule: silence, want: subagent.Apply, again: subagent.Closed, change: closed(subagent.Silent, 300)},
		{name: "not before give_up is closed", on: torn().slot(giveUp, subagent.Open), rule: silence, want: subagent.NotDue},
		{name: "also after a dead give_up", on: torn().slot(giveUp, subagent.Dead), rule: silence, want: subagent.Apply, again: subagent.Closed, change: closed(subagent.Silent, 300)},
		{name: "not before the teardown", on: told(), rule: silence, want: subagent.NotDue},
		{name: "not after a real end", on: torn().with(func(r *subagent.Run) { r.Status = completed }), rule: silence, want: subagent.NotDue},
		{name: "a window that is over is abandoned", on: told(), rule: stop(105.001), want: subagent.Apply, again: subagent.Closed, change: closed(subagent.Abandoned, 105.001)},
		{name: "not exactly at the end of window and skew", on: told(), rule: stop(105), want: subagent.NotDue},
		{name: "not within a lease", on: told().held("x", 200), rule: stop(205), want: subagent.NotDue},
		{name: "not abandoned before give_up is closed", on: told().slot(giveUp, subagent.Open), rule: stop(500), want: subagent.NotDue},
		{name: "a running run is not abandoned", on: told().with(func(r *subagent.Run) { r.Status = running }), rule: stop(500), want: subagent.NotDue},
	})
}

func TestDecide(t *testing.T) {
	full := subagent.MaxAttempts
	for _, c := range []struct {
		name   string
		on     *builder
		now    float64
		want   subagent.Action
		reason string
	}{
		{"a delivered run is forgotten", run(completed).slot(finish, subagent.Delivered), 0, subagent.Forget, ""},
		{"a tombstone is forgotten", run(void), 0, subagent.Forget, ""},
		{"a fresh run waits in its queue", run(queued), 4.999, subagent.Keep, ""},
		{"a run that waits too long gets its job again", run(queued), 5, subagent.ResendJob, ""},
		{"a held run is kept", run(running).held("x", 60), 65, subagent.Keep, ""},
		{"a lapsed run gets its job again", run(running).held("x", 60), 65.001, subagent.ResendJob, ""},
		{"a waiting run is woken", run(waiting).held("", 0), 1, subagent.Wake, ""},
		{"a hopeless run is failed", run(running).held("x", 0).with(func(r *subagent.Run) { r.Lost = terms.MaxExecutions - 1 }), 100, subagent.FailNow, subagent.ReasonExecutorLost},
		{"over its budget it is given up, also under a lease", run(running).held("x", 200).with(func(r *subagent.Run) { r.Deadline = at(100) }), 100, subagent.GiveUpNow, subagent.ReasonBudget},
		{"just within its budget it is not", run(running).held("x", 200).with(func(r *subagent.Run) { r.Deadline = at(100) }), 99.999, subagent.Keep, ""},
		{"silent for too long it is given up", run(running).held("x", 200).with(func(r *subagent.Run) { r.Silence, r.LastSignal = 10000, at(50) }), 60, subagent.GiveUpNow, subagent.ReasonNoProgress},
		{"a run that waits for a child is not silent", run(subagent.Waiting).with(func(r *subagent.Run) { r.Exec, r.Silence, r.LastSignal = subagent.Lease{Epoch: 4}, 10000, at(50) }), 60, subagent.Wake, ""},
		{"silence counts only after a first signal", run(running).held("x", 200).with(func(r *subagent.Run) { r.Silence = 10000 }), 60, subagent.Keep, ""},
		{"a real end is owed", run(completed), 0, subagent.SendFinish, ""},
		{"nobody disturbs a claim", run(completed).claimed("x", 60), 65, subagent.Keep, ""},
		{"a lapsed claim is owed again", run(completed).claimed("x", 60), 65.001, subagent.SendFinish, ""},
		{"a dead last attempt is buried", run(completed).attempts(finish, full), 0, subagent.BuryFinish, ""},
		{"a give-up is owed", run(interrupted), 0, subagent.SendGiveUp, ""},
		{"a dead last give-up is buried", run(interrupted).attempts(giveUp, full), 0, subagent.BuryGiveUp, ""},
		{"a give-up after the real end is not owed", run(completed).attempts(giveUp, full), 0, subagent.SendFinish, ""},
		{"a torn run is closed", run(interrupted).slot(giveUp, subagent.Delivered).with(func(r *subagent.Run) { r.Torn = true }), 0, subagent.Silence, ""},
		{"a watched run is kept", run(interrupted).slot(giveUp, subagent.Delivered).with(func(r *subagent.Run) { r.WatchUntil = at(100) }), 105, subagent.Keep, ""},
		{"a run that was watched to the end is stopped", run(interrupted).slot(giveUp, subagent.Delivered).with(func(r *subagent.Run) { r.WatchUntil = at(100) }), 105.001, subagent.Stop, ""},
	} {
		if got, reason := subagent.Decide(c.on.r, sec(c.now), terms); got != c.want || reason != c.reason {
			t.Errorf("%s: %v %q, want %v %q", c.name, got, reason, c.want, c.reason)
		}
	}
}
