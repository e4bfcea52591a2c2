package harness_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/harness"
	"github.com/errand-dev/errand/shared/model"
)

func TestFiftyModelCallsAreTheLimitUnlessAnotherIsSet(t *testing.T) {
	var calls int
	m := &endless{say: func(n int) (model.Response, error) {
		call := model.Call{Name: "add", Arguments: json.RawMessage(fmt.Sprintf(`{"a":%d,"b":1}`, n))}
		return model.Response{Stop: model.StopTools, Calls: []model.Call{call}}, nil
	}}
	_, err := newMemory().run(t, harness.Agent{Name: "a", Model: m, Tools: []harness.Tool{adder(&calls)}}, `"go"`)
	if err == nil || agent.IsRetryable(err) || m.asked != 50 || calls != 50 {
		t.Errorf("%v after %d model calls and %d tool calls", err, m.asked, calls)
	}
}

// What is disabled, and what needs approval, when a run begins stays so for all of it, also
// when another deployment goes on with it.
func TestAContinuedRunKeepsThePoliciesItBeganWith(t *testing.T) {
	var calls int
	m := script(t, "when\n> call add {\"a\":1,\"b\":1}\n---\n{{result}}")
	for name, c := range map[string]struct {
		began, today harness.Policy
		offered      bool
		calls        int
	}{
		"disabled then, enabled now": {harness.Disabled, harness.Enabled, false, 0},
		"enabled then, disabled now": {harness.Enabled, harness.Disabled, true, 1},
	} {
		calls = 0
		a := harness.Agent{Name: "a", Model: m, Tools: []harness.Tool{adder(&calls)}, Policies: map[string]harness.Policy{"add": c.began}}
		b := newMemory()
		b.dies = func(key, when string) bool { return key == "model:1" && when == "before" }
		if _, err := b.run(t, a, `"go"`); !errors.Is(err, errKilled) {
			t.Fatal(err)
		}
		b.dies, a.Policies = nil, map[string]harness.Policy{"add": c.today}
		if _, err := b.run(t, a, `"go"`); err != nil {
			t.Fatal(err)
		}
		offered := false
		for _, tool := range m.last().Tools {
			offered = offered || tool.Name == "add"
		}
		if offered != c.offered || calls != c.calls {
			t.Errorf("%s: offered is %t, called %d times", name, offered, calls)
		}
	}
}
