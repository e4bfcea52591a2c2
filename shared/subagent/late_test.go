package subagent_test

import (
	"testing"

	"github.com/errand-dev/errand/shared/subagent"
)

// A lease of 60 s ends for its holder at 55 s: by then a clock that is 5 s fast and one
// that is 5 s slow may already disagree about who has it.
func TestNothingBeginsWithinTheMarginOfALease(t *testing.T) {
	for now, late := range map[float64]bool{0: false, 54.9: false, 55: true, 60: true, 90: true} {
		if got := subagent.DefaultTerms.Late(at(60), sec(now)); got != late {
			t.Errorf("at %v s: late %v, want %v", now, got, late)
		}
	}
}
