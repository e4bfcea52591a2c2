package subagent_test

import (
	"testing"

	"github.com/errand-dev/errand/shared/subagent"
)

func TestATickKnowsWhenARunIsDue(t *testing.T) {
	terms := subagent.DefaultTerms
	for name, c := range map[string]struct {
		run  subagent.Run
		want subagent.Time
	}{
		"nothing is foreseen without a budget": {subagent.Run{Status: subagent.Running}, 0},
		"the deadline":                         {subagent.Run{Status: subagent.Running, Deadline: at(90)}, at(90)},
		"the silence window, if it is sooner":  {subagent.Run{Status: subagent.Running, Deadline: at(90), Silence: 10_000, LastSignal: at(3)}, at(13)},
		"a waiting run's deadline only":        {subagent.Run{Status: subagent.Waiting, Deadline: at(90), Silence: 10_000, LastSignal: at(3)}, at(90)},
		"silence counts after a signal only":   {subagent.Run{Status: subagent.Running, Deadline: at(90), Silence: 10_000}, at(90)},
		"the end of a back-off":                {subagent.Run{Status: subagent.Completed, Claim: subagent.Claim{Until: at(20)}}, at(25) + 1},
		"a delivery that nobody is at":         {subagent.Run{Status: subagent.Completed}, 0},
		"the end of the watch": {subagent.Run{Status: subagent.Interrupted, WatchUntil: at(70),
			GiveUp: subagent.Delivery{State: subagent.Delivered}}, at(75) + 1},
		"a settled run": {subagent.Run{Status: subagent.Completed, Deadline: at(90), Finish: subagent.Delivery{State: subagent.Delivered}}, 0},
	} {
		if got := c.run.Due(terms); got != c.want {
			t.Errorf("%s: due %v, want %v", name, got.Time(), c.want.Time())
		}
	}
	cadence := subagent.DefaultCadence
	for name, c := range map[string]struct{ due, want float64 }{
		"later than the rung":         {500, 120},
		"sooner than the rung":        {40, 40},
		"sooner than the first pause": {1, 5},
		"over already":                {-60, 5},
	} {
		if got := cadence.Until(120e9, at(c.due), sec(0)); got.Seconds() != c.want {
			t.Errorf("%s: pause %v, want %v s", name, got, c.want)
		}
	}
}

func TestTheSilenceOfARunBeginsAnewWhenItsWaitIsOver(t *testing.T) {
	waiting := subagent.Run{Status: subagent.Waiting, LastSignal: at(3), Wait: subagent.Wait{Runs: []string{"child"}, Need: 1}, StartedAt: at(0)}
	woken, o := waiting.Acquire("me", sec(7000), subagent.DefaultTerms)
	if o != subagent.Apply || woken.LastSignal != at(7000) || !woken.Wait.IsZero() {
		t.Errorf("woken: %v, last signal %v", o, woken.LastSignal.Time())
	}
	waiting.LastSignal = 0
	if woken, _ := waiting.Acquire("me", sec(7000), subagent.DefaultTerms); woken.LastSignal != 0 {
		t.Error("a run that never signalled is counted as heard")
	}
}
