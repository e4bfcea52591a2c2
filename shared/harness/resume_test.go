package harness_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"encoding/json"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/harness"
	"github.com/errand-dev/errand/shared/subagent"
)

// errandScript makes a run with every kind of step: two calls at once, an awaited
// subagent, a call that fails, an answer that is sent back.
const errandScript = `when go
> call add {"a":1,"b":1}
> call add {"a":2,"b":2}
---
> call ask_helper {"task":"think"}
---
> call add {"a":1}
---
no JSON
---
{"sum":6}`

func errandAgent(m *recorder, calls *int) harness.Agent {
	return harness.Agent{Name: "a", Model: m, Tools: []harness.Tool{adder(calls)}, Subagents: []harness.Subagent{{Name: "helper"}},
		OutputSchema: json.RawMessage(`{"type":"object","required":["sum"]}`), Limits: harness.Limits{Parallel: 1}}
}

func helped(b *memory) *memory {
	b.results["child-tool:2:0"] = agent.Result{Info: agent.Info{Status: subagent.Completed}, Output: json.RawMessage(`"thought"`)}
	return b
}

func TestARunKilledAtAnyPointOfAnyStepEndsTheSameAndRepeatsNoFinishedStep(t *testing.T) {
	type point struct{ key, when string }
	var points []point
	all := helped(newMemory())
	all.dies = func(key, when string) bool {
		points = append(points, point{key, when})
		return false
	}
	var calls int
	m := script(t, errandScript)
	want, err := all.run(t, errandAgent(m, &calls), `"go"`)
	if err != nil {
		t.Fatal(err)
	}
	models, journal := len(m.requests), all.journal
	if len(points) < 45 {
		t.Fatalf("only %d points: %v", len(points), points)
	}
	for _, p := range points {
		t.Run(p.key+"/"+p.when, func(t *testing.T) {
			var calls int
			m := script(t, errandScript)
			b := helped(newMemory())
			b.dies = func(key, when string) bool { return key == p.key && when == p.when }
			if _, err := b.run(t, errandAgent(m, &calls), `"go"`); !errors.Is(err, errKilled) || !agent.IsRetryable(err) {
				t.Fatalf("%v: a failure of the platform asks for another try", err)
			}
			b.dies = nil
			got, err := b.run(t, errandAgent(m, &calls), `"go"`)
			if err != nil || string(got.(json.RawMessage)) != string(want.(json.RawMessage)) {
				t.Fatalf("got %s, %v", got, err)
			}
			// Only what was under way and not yet kept is done again.
			wantModels, wantCalls, wantSent := models, 2, 1
			if p.when == "unkept" {
				switch {
				case strings.HasPrefix(p.key, "model:"):
					wantModels++
				case p.key == "tool:1:0", p.key == "tool:1:1":
					wantCalls++
				case p.key == "send:2:0":
					wantSent++
				}
			}
			if len(m.requests) != wantModels || calls != wantCalls || len(b.dispatched) != wantSent {
				t.Errorf("%d model calls, %d tool calls, %d dispatches; want %d, %d, %d", len(m.requests), calls, len(b.dispatched), wantModels, wantCalls, wantSent)
			}
			if have, should := slices.Sorted(maps.Keys(b.journal)), slices.Sorted(maps.Keys(journal)); !slices.Equal(have, should) {
				t.Errorf("journal %v, want %v", have, should)
			}
			for i, key := range m.keys {
				if n := slices.Index(m.keys, key); n != i && fmt.Sprint(m.requests[n]) != fmt.Sprint(m.requests[i]) {
					t.Error("a call made again asks something else under the same key")
				}
			}
		})
	}
}
