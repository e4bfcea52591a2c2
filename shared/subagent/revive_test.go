package subagent_test

import (
	"testing"

	"github.com/errand-dev/errand/shared/subagent"
)

func TestATurnIsRevivedForAsLongAsItGetsFurther(t *testing.T) {
	for _, c := range []struct {
		name    string
		on      subagent.Turn
		further bool
		want    subagent.Outcome
	}{
		{"the last executor finished a step", subagent.Turn{Status: subagent.Queued, HandOns: 3}, true, subagent.Apply},
		{"it finished none", subagent.Turn{Status: subagent.Queued}, false, subagent.NotDue},
		{"once more", subagent.Turn{Status: subagent.Queued, Revivals: 19}, true, subagent.Apply},
		{"too often", subagent.Turn{Status: subagent.Queued, Revivals: 20}, true, subagent.NotDue},
		{"it has ended", subagent.Turn{Status: subagent.Completed}, true, subagent.Ended},
	} {
		next, o := c.on.Revive(c.further)
		if o != c.want {
			t.Errorf("%s: %v, want %v", c.name, o, c.want)
		}
		if o == subagent.Apply && (next.Revivals != c.on.Revivals+1 || next.HandOns != 0) {
			t.Errorf("%s: %d revivals, %d hand-ons", c.name, next.Revivals, next.HandOns)
		}
	}
}
