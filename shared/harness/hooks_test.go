package harness_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/harness"
	"github.com/errand-dev/errand/shared/model"
)

// watched is an agent whose hooks note what they see; refuses is what the hook before a
// tool says.
func watched(t *testing.T, seen *[]string, refuses error) harness.Agent {
	note := func(format string, args ...any) { *seen = append(*seen, fmt.Sprintf(format, args...)) }
	return harness.Agent{
		Name: "a", Model: script(t, "when add\n> call add {\"a\":1,\"b\":2}\n---\nIt is {{result}}"), Tools: []harness.Tool{adder(new(int))},
		Hooks: harness.Hooks{
			Start: func(_ context.Context, v harness.View) error {
				note("start %s %q in %s/%s, path %s, %v", v.Agent, v.Message, v.Tenant, v.Conversation, v.Path, v.Metadata)
				if v.Metadata != nil {
					v.Metadata["channel"] = "changed"
				}
				return nil
			},
			AfterModel: func(_ context.Context, v harness.View, r model.Response) {
				note("model %s %d calls, %v", r.Stop, len(r.Calls), v.Metadata)
			},
			BeforeTool: func(_ context.Context, _ harness.View, c model.Call) error {
				note("before %s %s", c.Name, c.Arguments)
				return refuses
			},
			AfterTool: func(_ context.Context, _ harness.View, c model.Call, r model.Result) {
				note("after %s %s %v", c.Name, r.Text, r.Failed)
			},
			End: func(_ context.Context, _ harness.View, answer string, err error) { note("end %q %v", answer, err) },
		},
	}
}

func TestHooksSeeWhatAnAgentDoes(t *testing.T) {
	var seen []string
	b := newMemory()
	if _, err := b.run(t, watched(t, &seen, nil), `"add"`); err != nil {
		t.Fatal(err)
	}
	want := []string{`start a "add" in t/c, path a, map[]`, "model tools 1 calls, map[]", `before add {"a":1,"b":2}`, "after add 3 false", "model end 0 calls, map[]", `end "It is 3" <nil>`}
	if d := cmp.Diff(want, seen); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	// Executed again, all but the end is answered from the journal.
	seen = nil
	if _, err := b.run(t, watched(t, &seen, nil), `"add"`); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{`end "It is 3" <nil>`}, seen); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestAHookRefusesACall(t *testing.T) {
	for _, c := range []struct {
		name    string
		refuses error
		want    string
	}{
		{"the model is told", errors.New("not now"), `end "It is The call was refused: not now. Nothing was done." <nil>`},
		{"the run ends", harness.Terminal(errors.New("stop it")), `end "" stop it`},
	} {
		t.Run(c.name, func(t *testing.T) {
			var seen []string
			_, _ = newMemory().run(t, watched(t, &seen, c.refuses), `"add"`)
			if got := seen[len(seen)-1]; got != c.want {
				t.Errorf("the last hook saw %s", got)
			}
		})
	}
}

// The view is a copy each time: a hook that changes it changes nothing.
func TestTheViewOfATurnIsACopy(t *testing.T) {
	var seen []string
	b := newMemory()
	b.lines = []agent.Line{{Role: "user", Text: "add", Source: "user"}}
	b.metadata = map[string]string{"channel": "mail"}
	if _, err := b.turn(t, watched(t, &seen, nil)); err != nil {
		t.Fatal(err)
	}
	if seen[0] != `start a "add" in t/c, path a, map[channel:mail]` || seen[1] != "model tools 1 calls, map[channel:mail]" {
		t.Errorf("seen %q", seen)
	}
}
