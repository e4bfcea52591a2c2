package subagent_test

import (
	"testing"

	"github.com/errand-dev/errand/shared/subagent"
)

func TestATurnIsRevivedForAsLongAsItGetsFurther(t *testing.T) {
	// alone: whatever kills one of the process's works kills all.
	alone := terms
	alone.Process = "this"
	for _, c := range []struct {
		name    string
		on      subagent.Turn
		further bool
		terms   subagent.Terms
		want    subagent.Outcome
		idle    int
	}{
		{"the last executor finished a step", subagent.Turn{Status: subagent.Queued, HandOns: 3, Idle: 2}, true, terms, subagent.Apply, 0},
		{"it finished none", subagent.Turn{Status: subagent.Queued}, false, terms, subagent.NotDue, 0},
		{"it finished none where all die together", subagent.Turn{Status: subagent.Queued}, false, alone, subagent.Apply, 1},
		{"nor did those before it", subagent.Turn{Status: subagent.Queued, Idle: 1}, false, alone, subagent.NotDue, 1},
		{"once more", subagent.Turn{Status: subagent.Queued, Revivals: 19}, true, terms, subagent.Apply, 0},
		{"too often", subagent.Turn{Status: subagent.Queued, Revivals: 20}, true, alone, subagent.NotDue, 0},
		{"it has ended", subagent.Turn{Status: subagent.Completed}, true, terms, subagent.Ended, 0},
	} {
		next, o := c.on.Revive(c.further, c.terms)
		if o != c.want {
			t.Errorf("%s: %v, want %v", c.name, o, c.want)
		}
		if o == subagent.Apply && (next.Revivals != c.on.Revivals+1 || next.HandOns != 0 || next.Idle != c.idle) {
			t.Errorf("%s: %d revivals, %d hand-ons", c.name, next.Revivals, next.HandOns)
		}
	}
}
