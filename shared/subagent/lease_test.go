package subagent_test

import (
	"testing"

	"github.com/errand-dev/errand/shared/subagent"
)

const (
	queued      = subagent.Queued
	running     = subagent.Running
	waiting     = subagent.Waiting
	completed   = subagent.Completed
	failed      = subagent.Error
	aborted     = subagent.Aborted
	interrupted = subagent.Interrupted
	void        = subagent.Void
)

func TestAcquire(t *testing.T) {
	acquire := func(now float64) rule {
		return func(r subagent.Run) (subagent.Run, subagent.Outcome) { return r.Acquire("me", sec(now), terms) }
	}
	lost := func(n int) func(*subagent.Run) { return func(r *subagent.Run) { r.Lost = n } }
	check(t, []row{
		{name: "a queued run is taken", on: run(queued), rule: acquire(1), want: subagent.Apply, change: func(r *subagent.Run) {
			r.Status, r.StartedAt = running, at(1)
			r.Exec = subagent.Lease{Epoch: 1, Holder: "me", Until: at(61)}
		}},
		{name: "a waiting run is taken and waits no more", on: run(waiting).held("", 0).with(func(r *subagent.Run) { r.Wait, r.StartedAt = onChild, at(0) }),
			rule: acquire(1), want: subagent.Apply, change: func(r *subagent.Run) {
				r.Status, r.Wait, r.Exec = running, subagent.Wait{}, subagent.Lease{Epoch: 4, Holder: "me", Until: at(61)}
			}},
		{name: "a lapsed lease is taken over and counted as lost", on: run(running).held("other", 60).with(func(r *subagent.Run) { r.StartedAt = at(0) }),
			rule: acquire(65.001), want: subagent.Apply, change: func(r *subagent.Run) {
				r.Lost, r.Exec = 1, subagent.Lease{Epoch: 4, Holder: "me", Until: at(125.001)}
			}},
		{name: "exactly at the end of lease and skew it is held", on: run(running).held("other", 60), rule: acquire(65), want: subagent.Held},
		{name: "within the lease it is held", on: run(running).held("other", 60), rule: acquire(1), want: subagent.Held},
		{name: "one's own lease is mine with its own end", on: run(running).held("me", 60), rule: acquire(30), want: subagent.Mine},
		{name: "before the back-off has passed it is held", on: run(running).held("", 10), rule: acquire(9.999), want: subagent.Held},
		{name: "when the back-off has passed it is taken", on: run(running).held("", 10).with(func(r *subagent.Run) { r.StartedAt = at(0) }),
			rule: acquire(10), want: subagent.Apply, change: func(r *subagent.Run) { r.Exec = subagent.Lease{Epoch: 4, Holder: "me", Until: at(70)} }},
		{name: "after too many lost executions it is not executed again", on: run(running).held("other", 0).with(lost(terms.MaxExecutions - 1)), rule: acquire(100), want: subagent.Held},
		{name: "the last execution is allowed", on: run(running).held("other", 0).with(lost(terms.MaxExecutions - 2)).with(func(r *subagent.Run) { r.StartedAt = at(0) }),
			rule: acquire(100), want: subagent.Apply, change: func(r *subagent.Run) {
				r.Lost, r.Exec = terms.MaxExecutions-1, subagent.Lease{Epoch: 4, Holder: "me", Until: at(160)}
			}},
		{name: "a given-up run is not taken", on: run(interrupted), rule: acquire(1), want: subagent.TornDown},
		{name: "a completed run is not taken", on: run(completed), rule: acquire(1), want: subagent.Ended},
		{name: "a failed run is not taken", on: run(failed), rule: acquire(1), want: subagent.Ended},
		{name: "an aborted run is not taken", on: run(aborted), rule: acquire(1), want: subagent.Ended},
		{name: "a tombstone is not taken", on: run(void), rule: acquire(1), want: subagent.Ended},
	})
}

func TestALeaseOfADeadProcessIsFreeAtOnce(t *testing.T) {
	mine := terms
	mine.Process = "p2"
	row := run(running).held("p1/x", 60).r
	if _, o := row.Acquire(mine.Token("y"), sec(1), mine); o != subagent.Apply {
		t.Errorf("a lease of the process before: %v", o)
	}
	row = run(running).held("p2/x", 60).r
	if _, o := row.Acquire(mine.Token("y"), sec(1), mine); o != subagent.Held {
		t.Errorf("a lease of this process: %v", o)
	}
}

func TestStepsAndSignalsNeedTheLease(t *testing.T) {
	steps := map[string]rule{
		"a step": func(r subagent.Run) (subagent.Run, subagent.Outcome) { return r.StartStep(3, sec(10), terms, false) },
		"a signal": func(r subagent.Run) (subagent.Run, subagent.Outcome) {
			return r.Signal(3, sec(10), terms, nil, 0)
		},
		"handing on": func(r subagent.Run) (subagent.Run, subagent.Outcome) {
			return r.HandOn(3, sec(10), false, 0, subagent.Wait{})
		},
	}
	for name, step := range steps {
		check(t, []row{
			{name: name + " of an older epoch is stale", on: run(running).held("me", 60).with(func(r *subagent.Run) { r.Exec.Epoch = 4 }), rule: step, want: subagent.Stale},
			{name: name + " of a given-up run is torn down", on: run(interrupted).held("me", 60), rule: step, want: subagent.TornDown},
			{name: name + " of a cancelled run is ended", on: run(aborted).held("me", 60), rule: step, want: subagent.Ended},
			{name: name + " of a completed run is ended", on: run(completed).held("me", 60), rule: step, want: subagent.Ended},
			{name: name + " of a waiting run is stale", on: run(waiting).held("", 0), rule: step, want: subagent.Stale},
		})
	}
	check(t, []row{
		{name: "a step renews the lease", on: run(running).held("me", 60), rule: steps["a step"], want: subagent.Apply, again: subagent.Apply,
			change: func(r *subagent.Run) { r.Exec.Until = at(70) }},
		{name: "a late copy never shortens the lease", on: run(running).held("me", 100), rule: steps["a step"], want: subagent.Apply, again: subagent.Apply},
		{name: "a finished step clears what was lost", on: run(running).held("me", 60).with(func(r *subagent.Run) { r.Lost = 2 }),
			rule: func(r subagent.Run) (subagent.Run, subagent.Outcome) { return r.StartStep(3, sec(10), terms, true) }, want: subagent.Apply, again: subagent.Apply,
			change: func(r *subagent.Run) { r.Lost, r.Exec.Until = 0, at(70) }},
		{name: "a signal is remembered", on: run(running).held("me", 60), rule: func(r subagent.Run) (subagent.Run, subagent.Outcome) {
			return r.Signal(3, sec(10), terms, &subagent.Progress{Phase: "p"}, 2)
		}, want: subagent.Apply, again: subagent.Apply, change: func(r *subagent.Run) {
			r.Exec.Until, r.LastSignal, r.Progress.Phase, r.Milestones = at(70), at(10), "p", 2
		}},
		{name: "an older signal moves nothing back", on: run(running).held("me", 100).with(func(r *subagent.Run) { r.LastSignal, r.Milestones = at(20), 5 }),
			rule: steps["a signal"], want: subagent.Apply, again: subagent.Apply},
		{name: "handing on frees the lease", on: run(running).held("me", 60), rule: steps["handing on"], want: subagent.Apply, again: subagent.Apply,
			change: func(r *subagent.Run) { r.Exec.Holder, r.Exec.Until = "", at(10) }},
		{name: "waiting names what is waited for", on: run(running).held("me", 60), rule: func(r subagent.Run) (subagent.Run, subagent.Outcome) {
			return r.HandOn(3, sec(10), false, 0, onChild)
		}, want: subagent.Apply, again: subagent.Stale, change: func(r *subagent.Run) {
			r.Exec.Holder, r.Exec.Until, r.Status, r.Wait = "", at(10), waiting, onChild
		}},
	})
}

func TestEnd(t *testing.T) {
	end := func(r subagent.Run) (subagent.Run, subagent.Outcome) {
		return r.End(3, subagent.Result{Status: completed, Summary: "done"}, 1, sec(10))
	}
	done := func(r *subagent.Run) { r.Status, r.Summary, r.EndedAt, r.InboxRead = completed, "done", at(10), 1 }
	check(t, []row{
		{name: "a running run ends", on: run(running).held("me", 60), rule: end, want: subagent.Apply, change: done},
		{name: "a given-up run is repaired", on: run(interrupted).held("me", 60).with(func(r *subagent.Run) { r.Reason = subagent.ReasonBudget }), rule: end, want: subagent.Apply,
			change: func(r *subagent.Run) { done(r); r.Reason = "" }},
		{name: "a lapsed lease may end while nobody took over", on: run(running).held("me", 0), rule: end, want: subagent.Apply, change: done},
		{name: "an older epoch is stale", on: run(running).held("me", 60).with(func(r *subagent.Run) { r.Exec.Epoch = 4 }), rule: end, want: subagent.Stale},
		{name: "a cancelled run stays cancelled", on: run(aborted).held("me", 60), rule: end, want: subagent.Ended},
		{name: "another's end stays", on: run(completed).held("x", 60).with(func(r *subagent.Run) { r.Exec.Epoch = 4 }), rule: end, want: subagent.Ended},
		{name: "one's own end is mine", on: run(completed).held("me", 60), rule: end, want: subagent.Mine},
		{name: "a waiting run is not ended by its last holder", on: run(waiting).held("", 0), rule: end, want: subagent.Stale},
		{name: "an abandoned run is closed", on: run(interrupted).held("me", 60).slot(subagent.Finish, subagent.Abandoned), rule: end, want: subagent.Closed},
		{name: "an unread message refuses the end", on: run(running).held("me", 60).with(func(r *subagent.Run) { r.Inbox = 2 }), rule: end, want: subagent.Unread},
		{name: "a message that was read does not", on: run(running).held("me", 60).with(func(r *subagent.Run) { r.Inbox = 1 }), rule: end, want: subagent.Apply, change: done},
	})
}

func TestTearDownAndReceive(t *testing.T) {
	tear := func(r subagent.Run) (subagent.Run, subagent.Outcome) { return r.TearDown(3) }
	check(t, []row{
		{name: "a teardown only marks the row", on: run(interrupted).held("me", 60), rule: tear, want: subagent.Apply, change: func(r *subagent.Run) { r.Torn = true }},
		{name: "a teardown of an older epoch is stale", on: run(interrupted).held("me", 60).with(func(r *subagent.Run) { r.Exec.Epoch = 4 }), rule: tear, want: subagent.Stale},
		{name: "a teardown of a running run is stale", on: run(running).held("me", 60), rule: tear, want: subagent.Stale},
		{name: "a teardown after the end is nothing", on: run(completed).held("me", 60), rule: tear, want: subagent.Ended},
	})
	for status, want := range map[subagent.Status]subagent.Outcome{
		queued: subagent.Apply, running: subagent.Apply, waiting: subagent.Apply, interrupted: subagent.TornDown,
		completed: subagent.Ended, failed: subagent.Ended, aborted: subagent.Ended, void: subagent.Ended,
	} {
		if next, o := run(status).r.Receive(); o != want || o == subagent.Apply && next.Inbox != 1 {
			t.Errorf("a message to a run that is %s: %v and %d messages, want %v", status, o, next.Inbox, want)
		}
	}
}

var onChild = subagent.Wait{Runs: []string{"child"}, Need: 1}
