package subagent_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/errand-dev/errand/shared/subagent"
)

func TestWhenAWaitIsOver(t *testing.T) {
	three := []string{"a", "b", "c"}
	one := []string{"a"}
	for _, c := range []struct {
		name string
		wait subagent.Wait
		seen subagent.Seen
		now  float64
		want bool
	}{
		{"all have ended", subagent.Wait{Runs: three, Need: 3}, subagent.Seen{Ended: 3}, 0, true},
		{"not all have", subagent.Wait{Runs: three, Need: 3}, subagent.Seen{Ended: 2}, 0, false},
		{"any has", subagent.Wait{Runs: three, Need: 1}, subagent.Seen{Ended: 1}, 0, true},
		{"none has", subagent.Wait{Runs: three, Need: 1}, subagent.Seen{}, 0, false},
		{"more than there are", subagent.Wait{Runs: three, Need: 9}, subagent.Seen{Ended: 3}, 0, true},
		{"just before its time", subagent.Wait{Runs: three, Need: 3, Until: at(9)}, subagent.Seen{Ended: 2}, 8.999, false},
		{"at its time", subagent.Wait{Runs: three, Need: 3, Until: at(9)}, subagent.Seen{}, 9, true},
		{"the milestone is reached", subagent.Wait{Runs: one, Need: 1, Milestone: "m"}, subagent.Seen{Reached: true}, 0, true},
		{"it is not", subagent.Wait{Runs: one, Need: 1, Milestone: "m"}, subagent.Seen{}, 0, false},
		{"its run has ended without", subagent.Wait{Runs: one, Need: 1, Milestone: "m"}, subagent.Seen{Ended: 1}, 0, true},
		{"the signal has come", subagent.Wait{Signal: "s"}, subagent.Seen{Signalled: true}, 0, true},
		{"it has not", subagent.Wait{Signal: "s"}, subagent.Seen{}, 1e6, false},
		{"a sleep goes on", subagent.Wait{Until: at(5)}, subagent.Seen{}, 4, false},
		{"a sleep is over", subagent.Wait{Until: at(5)}, subagent.Seen{}, 5, true},
	} {
		if got := c.wait.Over(c.seen, sec(c.now)); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestWatching(t *testing.T) {
	watch := func(who string) rule {
		return func(r subagent.Run) (subagent.Run, subagent.Outcome) { return r.Watch(who) }
	}
	report := func(r subagent.Run) (subagent.Run, subagent.Outcome) {
		return r.Report(sec(9), &subagent.Progress{Phase: "outside"}, 2)
	}
	check(t, []row{
		{name: "a live run has a waiter", on: run(running), rule: watch("w"), want: subagent.Apply, change: func(r *subagent.Run) { r.Waiters = []string{"w"} }},
		{name: "a waiting run too", on: run(waiting), rule: watch("w"), want: subagent.Apply, change: func(r *subagent.Run) { r.Waiters = []string{"w"} }},
		{name: "the newest waiters are kept", on: run(queued).with(func(r *subagent.Run) { r.Waiters = []string{"1", "2", "3", "4"} }), rule: watch("5"),
			want: subagent.Apply, change: func(r *subagent.Run) { r.Waiters = []string{"2", "3", "4", "5"} }},
		{name: "an ended run wakes nobody", on: run(completed), rule: watch("w"), want: subagent.Ended},
		{name: "nor does a given-up one", on: run(interrupted), rule: watch("w"), want: subagent.Ended},
		{name: "a waiting run is reported on", on: run(waiting), rule: report, want: subagent.Apply, again: subagent.Apply, change: func(r *subagent.Run) {
			r.LastSignal, r.Progress.Phase, r.Milestones = at(9), "outside", 2
		}},
		{name: "an ended run is not", on: run(completed), rule: report, want: subagent.Ended},
		{name: "nor is a given-up one reported on", on: run(interrupted), rule: report, want: subagent.TornDown},
	})
}

// A turn that waits keeps its place against all others, which are parked in their order.
func TestTurnsAreParkedBehindOneThatWaits(t *testing.T) {
	wait := subagent.Wait{Until: at(99)}
	c := subagent.Conversation{Turn: "t", Exec: subagent.Lease{Epoch: 1, Holder: "me", Until: at(60)}}
	step := func(name string, want subagent.Outcome, next subagent.Conversation, o subagent.Outcome) {
		t.Helper()
		if o != want {
			t.Fatalf("%s: %v, want %v", name, o, want)
		}
		c = next
	}
	do := func(name string, want subagent.Outcome) func(subagent.Conversation, subagent.Outcome) {
		return func(next subagent.Conversation, o subagent.Outcome) { t.Helper(); step(name, want, next, o) }
	}
	do("nobody is parked behind a turn at work", subagent.NotDue)(c.Park("u"))
	do("another's turn is not suspended", subagent.Stale)(c.Suspend("x", wait))
	do("the holder's is", subagent.Apply)(c.Suspend("me", wait))
	if !c.Waits("t") || c.Waits("u") || c.Evictable("u", sec(500), terms) {
		t.Error("a turn that waits is taken for dead")
	}
	do("another cannot begin", subagent.Held)(c.Begin("u", "you", sec(500), terms))
	do("it is parked", subagent.Apply)(c.Park("u"))
	do("once", subagent.Mine)(c.Park("u"))
	do("so is the next", subagent.Apply)(c.Park("v"))
	do("the turn that waits is not parked", subagent.NotDue)(c.Park("t"))
	if _, ok := c.Next(); ok {
		t.Error("a parked turn is next while the place is taken")
	}
	do("it goes on", subagent.Apply)(c.Begin("t", "me2", sec(500), terms))
	if c.Waits("t") {
		t.Error("a turn that went on still waits")
	}
	do("who comes while it is at work stays behind", subagent.Apply)(c.Park("w"))
	do("it leaves", subagent.Apply)(c.Leave("t", 2, sec(501)))
	do("the second cannot overtake", subagent.Held)(c.Begin("v", "you", sec(502), terms))
	do("nor one that comes now", subagent.Held)(c.Begin("x", "you", sec(502), terms))
	if next, ok := c.Next(); !ok || next != "u" {
		t.Errorf("the next turn is %q", next)
	}
	do("a parked turn that ended otherwise goes", subagent.Apply)(c.Leave("v", 0, sec(502)))
	do("the first begins", subagent.Apply)(c.Begin("u", "you", sec(503), terms))
	if d := cmp.Diff([]string{"w"}, c.Parked); d != "" {
		t.Error(d)
	}
	for i := range subagent.MaxParked - 1 {
		c.Parked = append(c.Parked, string(rune('A'+i)))
	}
	do("there is a bound", subagent.Full)(c.Park("last"))
}

func TestCoalescing(t *testing.T) {
	k := subagent.Coalescing{Max: 3, Window: time.Minute}
	end := func(id string, s float64) subagent.Turn {
		return subagent.Turn{ID: id, Kind: subagent.FinishTurn, Status: queued, AcceptedAt: at(s)}
	}
	with := func(t subagent.Turn, change func(*subagent.Turn)) subagent.Turn { change(&t); return t }
	first := end("first", 10)
	ids := func(turns []subagent.Turn) []string {
		got := []string{}
		for _, t := range turns {
			got = append(got, t.ID)
		}
		return got
	}
	for _, c := range []struct {
		name   string
		behind []subagent.Turn
		want   []string
	}{
		{"in their order", []subagent.Turn{first, end("b", 12), end("a", 11)}, []string{"b", "a"}},
		{"up to the most", []subagent.Turn{end("a", 11), end("b", 12), end("c", 13)}, []string{"a", "b"}},
		{"within the window", []subagent.Turn{end("a", 70), end("b", 70.001)}, []string{"a"}},
		{"none from before", []subagent.Turn{end("a", 9)}, []string{}},
		{"no other kinds", []subagent.Turn{
			with(end("g", 11), func(t *subagent.Turn) { t.Kind = subagent.GiveUpTurn }),
			with(end("u", 11), func(t *subagent.Turn) { t.Kind = subagent.UserTurn }),
			with(end("h", 11), func(t *subagent.Turn) { t.Mode = subagent.Handle }),
			with(end("d", 11), func(t *subagent.Turn) { t.Status = completed }),
			{},
		}, []string{}},
	} {
		if d := cmp.Diff(c.want, ids(k.Fold(first, c.behind))); d != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, d)
		}
	}
	for _, c := range []struct {
		name string
		k    subagent.Coalescing
		turn subagent.Turn
		left float64
		want bool
	}{
		{"a turn that waited for another", k, first, 11, true},
		{"a turn that waited for nobody", k, first, 9, false},
		{"a user's turn", k, subagent.Turn{Kind: subagent.UserTurn, AcceptedAt: at(10)}, 11, false},
		{"when it is switched off", subagent.Coalescing{Max: 1, Window: time.Hour}, first, 11, false},
	} {
		if got := c.k.Busy(c.turn, subagent.Conversation{LeftAt: at(c.left)}); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	folded, o := first.FoldInto("other", completed, "", sec(20))
	if o != subagent.Apply || folded.Into != "other" || !folded.Done() {
		t.Errorf("folded: %v %+v", o, folded)
	}
	if again, o := folded.FoldInto("third", completed, "", sec(30)); o != subagent.Ended || again.Into != "other" {
		t.Errorf("folded again: %v into %s", o, again.Into)
	}
}
