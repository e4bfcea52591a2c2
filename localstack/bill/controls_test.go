package bill

import (
	"slices"
	"testing"
	"time"

	"github.com/errand-dev/errand/shared/platform"
	"github.com/errand-dev/errand/shared/subagent"
)

// TestBilledOperationsOfOperatorControl pins what it costs to obey operators where every
// process is cold: one read unit in each that takes or begins work. Else it is one in five
// seconds, and none where ERRAND_CONTROLS is false, as in the other tests.
func TestBilledOperationsOfOperatorControl(t *testing.T) {
	t.Parallel()
	a := newAccount(t, subagent.Cadence{2 * time.Second, time.Minute})
	a.config.Controls = true
	a.post("/v1/conversations/c/runs", `{"agent":"lab-echo","input":{"text":"hello"}}`)
	a.drain(platform.Runs)
	a.drain(platform.Ticks)
	calls, bill := a.since()
	reads := len(calls) - len(slices.DeleteFunc(slices.Clone(calls), func(call string) bool { return call == "GetItem CONTROLS" }))
	if reads != 2 || bill.Units() > mostOperations+2 {
		t.Errorf("%d reads of controls, %d operations in all; want 2, and %d at most:\n%v", reads, bill.Units(), mostOperations+2, calls)
	}
}
