package subagent_test

import (
	"testing"

	"github.com/errand-dev/errand/shared/subagent"
)

// The time in which nobody holds a run's lease is no silence of it.
func TestSilenceCountsOnlyWhileSomebodyHoldsTheLease(t *testing.T) {
	acquire := func(now float64) func(subagent.Run) (subagent.Run, subagent.Outcome) {
		return func(r subagent.Run) (subagent.Run, subagent.Outcome) {
			return r.Acquire("next", sec(now), terms)
		}
	}
	step := func(now float64) func(subagent.Run) (subagent.Run, subagent.Outcome) {
		return func(r subagent.Run) (subagent.Run, subagent.Outcome) {
			return r.StartStep(4, sec(now), terms, false)
		}
	}
	held := subagent.Run{Status: subagent.Running, LastSignal: at(10), Exec: subagent.Lease{Epoch: 4, Holder: "x", Until: at(60)}}
	handedOn, fresh := held, held
	handedOn.Exec = subagent.Lease{Epoch: 4, Until: at(30)}
	fresh.LastSignal = 0
	for _, c := range []struct {
		name string
		on   subagent.Run
		rule func(subagent.Run) (subagent.Run, subagent.Outcome)
		want subagent.Time
	}{
		{"taken over after a night", held, acquire(30_060), at(30_010)},
		{"taken over when it may be", held, acquire(66), at(16)},
		{"handed on and taken up at once", handedOn, acquire(30), at(10)},
		{"handed on and taken up the next day", handedOn, acquire(30_030), at(30_010)},
		{"a holder goes on in time", held, step(50), at(10)},
		{"a holder goes on that was asleep", held, step(30_060), at(30_010)},
		{"one that never gave a sign of life", fresh, acquire(30_060), 0},
	} {
		next, o := c.rule(c.on)
		if o != subagent.Apply || next.LastSignal != c.want {
			t.Errorf("%s: %v, heard last at %v, want %v", c.name, o, next.LastSignal, c.want)
		}
	}
	held.Silence = 1000
	for _, c := range []struct {
		name string
		now  float64
		want subagent.Action
	}{
		{"under the lease", 50, subagent.GiveUpNow},
		{"in its skew", 65, subagent.GiveUpNow},
		{"after it", 66, subagent.ResendJob},
	} {
		if got, _ := subagent.Decide(held, sec(c.now), terms); got != c.want {
			t.Errorf("silent %s: %v, want %v", c.name, got, c.want)
		}
	}
}
