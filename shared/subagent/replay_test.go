package subagent_test

import (
	"testing"
	"time"

	"github.com/errand-dev/errand/shared/subagent"
)

func TestOnlyARunThatHasEndedCanBeReplayed(t *testing.T) {
	abandoned := subagent.Delivery{State: subagent.Abandoned}
	for _, c := range []struct {
		name string
		on   subagent.Run
		want bool
	}{
		{"queued", subagent.Run{Status: subagent.Queued}, false},
		{"running", subagent.Run{Status: subagent.Running}, false},
		{"waiting", subagent.Run{Status: subagent.Waiting}, false},
		{"completed", subagent.Run{Status: subagent.Completed}, true},
		{"failed", subagent.Run{Status: subagent.Error}, true},
		{"cancelled", subagent.Run{Status: subagent.Aborted}, true},
		{"given up and watched", subagent.Run{Status: subagent.Interrupted}, false},
		{"given up for good", subagent.Run{Status: subagent.Interrupted, Finish: abandoned}, true},
		{"a tombstone", subagent.Run{Status: subagent.Void}, false},
	} {
		if got := c.on.Replayable(); got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
	}
}

func TestARowTellsTheBudgetThatItWasMadeWith(t *testing.T) {
	for name, c := range map[string]struct{ given, want subagent.Budget }{
		"defaults":   {subagent.Budget{}, subagent.Budget{Max: subagent.DefaultMaxBudget, NoProgress: subagent.DefaultNoProgressBudget}},
		"own bounds": {subagent.Budget{Max: time.Minute, NoProgress: time.Second, MaxTokens: 7, MaxCost: 9}, subagent.Budget{Max: time.Minute, NoProgress: time.Second, MaxTokens: 7, MaxCost: 9}},
		"no bounds":  {subagent.Budget{Max: subagent.Unlimited, NoProgress: subagent.Unlimited}, subagent.Budget{Max: subagent.Unlimited, NoProgress: subagent.Unlimited}},
	} {
		r := subagent.Run{ID: "r1", DispatchedAt: at(10), Payers: []subagent.Payer{{Run: "above", Limit: subagent.Allowance{Tokens: 1000}}}}
		r.Deadline, r.Silence = c.given.Bounds(sec(10))
		if limit := c.given.Allowance(); limit.Any() {
			r.Payers = append(r.Payers, subagent.Payer{Run: "r1", Limit: limit})
		}
		if got := r.Budget(); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}
