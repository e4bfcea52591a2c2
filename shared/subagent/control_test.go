package subagent_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/errand-dev/errand/shared/subagent"
)

func TestWhatOperatorsSetDecidesWhatAnAgentTakes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		set   subagent.Control
		admit subagent.Admission
		holds bool
	}{
		"nothing is set":                    {subagent.Control{}, subagent.Admitted, false},
		"enabled by name":                   {subagent.Control{Maintenance: subagent.NoMaintenance}, subagent.Admitted, false},
		"disabled":                          {subagent.Control{Disabled: true}, subagent.RefusedDisabled, false},
		"maintenance that takes":            {subagent.Control{Maintenance: subagent.AcceptInMaintenance}, subagent.Admitted, true},
		"maintenance that does not":         {subagent.Control{Maintenance: subagent.RejectInMaintenance}, subagent.RefusedMaintenance, false},
		"disabled and in maintenance":       {subagent.Control{Disabled: true, Maintenance: subagent.RejectInMaintenance}, subagent.RefusedDisabled, false},
		"disabled, what was accepted waits": {subagent.Control{Disabled: true, Maintenance: subagent.AcceptInMaintenance}, subagent.RefusedDisabled, true},
	} {
		all, _ := subagent.Controls{}.Set("a", c.set)
		if got := all.Admit("a"); got != c.admit {
			t.Errorf("%s: admission %d, want %d", name, got, c.admit)
		}
		if got := all.Holds("a"); got != c.holds {
			t.Errorf("%s: holds %v, want %v", name, got, c.holds)
		}
		if all.Admit("b") != subagent.Admitted || all.Holds("b") {
			t.Errorf("%s: another agent is affected", name)
		}
	}
}

func TestSettingWhatIsSetWritesNothingAndTheUsualLeavesNoEntry(t *testing.T) {
	t.Parallel()
	off := subagent.Control{Disabled: true}
	all, outcome := subagent.Controls{}.Set("a", off)
	if outcome != subagent.Apply {
		t.Fatal(outcome)
	}
	if _, outcome := all.Set("a", off); outcome != subagent.Mine {
		t.Errorf("the same again is %v", outcome)
	}
	both, _ := all.Set("b", off)
	if len(all.Agents) != 1 {
		t.Error("a rule changed the row it was given")
	}
	back, outcome := both.Set("a", subagent.Control{Maintenance: subagent.NoMaintenance})
	if diff := cmp.Diff(map[string]subagent.Control{"b": off}, back.Agents); diff != "" || outcome != subagent.Apply {
		t.Errorf("%v (-want +got)\n%s", outcome, diff)
	}
	if got := back.Of("a"); got != (subagent.Control{Maintenance: subagent.NoMaintenance}) {
		t.Errorf("what is set for it is %+v", got)
	}
}
