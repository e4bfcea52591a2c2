package harness_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/harness"
)

// called runs an agent whose model makes one call, and returns what the model was told.
func called(t *testing.T, tool harness.Tool, arguments string, limits harness.Limits) (text string, failed bool, err error) {
	t.Helper()
	m := script(t, "when go\n> call "+tool.Name()+" "+arguments+"\n---\ndone")
	_, err = newMemory().run(t, harness.Agent{Name: "a", Model: m, Tools: []harness.Tool{tool}, Limits: limits}, `"go"`)
	if err != nil {
		return "", false, err
	}
	r := m.lastResults()[0]
	return r.Text, r.Failed, nil
}

func TestArgumentsThatDoNotFollowTheSchemaNeverReachTheTool(t *testing.T) {
	for arguments, want := range map[string]string{
		`{"a":1`:              "it is not JSON",
		`{"a":1,"b":2} {}`:    "more than one JSON value",
		`{"a":1}`:             `missing properties: ["b"]`,
		`{"a":1,"b":"two"}`:   `has type "string", want "integer"`,
		`{"a":1,"b":2,"c":3}`: `unexpected additional properties ["c"]`,
		`[1,2]`:               `want "object"`,
		``:                    "missing properties",
	} {
		var calls int
		text, failed, err := called(t, adder(&calls), arguments, harness.Limits{})
		if err != nil || !failed || calls != 0 {
			t.Errorf("%s: failed %v, %v, %d calls", arguments, failed, err, calls)
		}
		contains(t, arguments, text, want)
		contains(t, arguments, text, "Nothing was done.")
	}
}

func TestAnErrorOfAToolIsToldToTheModelUnlessItIsTerminalOrRetryable(t *testing.T) {
	fails := func(err error) harness.Tool {
		return harness.NewTool("fail", "", func(context.Context, struct{}) (string, error) { return "", err })
	}
	broken := errors.New("no paper")
	if text, failed, err := called(t, fails(broken), "{}", harness.Limits{}); err != nil || !failed || text != "no paper" {
		t.Errorf("plain: %q, %v, %v", text, failed, err)
	}
	if _, _, err := called(t, fails(harness.Terminal(broken)), "{}", harness.Limits{}); !errors.Is(err, broken) || agent.IsRetryable(err) {
		t.Errorf("terminal: %v", err)
	}
	if _, _, err := called(t, fails(agent.Retryable(broken)), "{}", harness.Limits{}); !errors.Is(err, broken) || !agent.IsRetryable(err) {
		t.Errorf("retryable: %v", err)
	}
}

func TestAPanicOfAToolIsToldToTheModel(t *testing.T) {
	tool := harness.NewTool("panic", "", func(context.Context, struct{}) (string, error) { panic("oh no") })
	if text, failed, err := called(t, tool, "{}", harness.Limits{}); err != nil || !failed || text != "the tool panicked: oh no" {
		t.Errorf("%q, %v, %v", text, failed, err)
	}
}

func TestAToolThatStopsWithItsContextIsCalledAgain(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	var calls int
	tool := harness.NewTool("slow", "", func(ctx context.Context, _ struct{}) (string, error) {
		if calls++; calls == 1 {
			cancel(agent.ErrHandOn)
			return "", ctx.Err()
		}
		return "here", nil
	})
	a := harness.Agent{Name: "a", Model: script(t, "when\n> call slow\n---\n{{result}}"), Tools: []harness.Tool{tool}}
	b := newMemory()
	run := func(ctx context.Context) (any, error) {
		b.inboxCalls = 0
		return harness.Task(a)(ctx, newRun(b))
	}
	if _, err := run(ctx); !errors.Is(err, agent.ErrHandOn) {
		t.Fatal(err)
	}
	if got, err := run(t.Context()); err != nil || got != "here" || calls != 2 {
		t.Errorf("got %v, %v after %d calls", got, err, calls)
	}
}

func TestEachCallHasAKeyOfItsOwnThatStaysWhenItIsMadeAgain(t *testing.T) {
	var mu sync.Mutex
	keys := map[string][]string{}
	tool := harness.NewTool("pay", "", func(ctx context.Context, in numbers) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		who := fmt.Sprint(in.A)
		keys[who] = append(keys[who], harness.CallKey(ctx))
		return "paid", nil
	})
	a := harness.Agent{Name: "a", Model: script(t, "when\n> call pay {\"a\":1,\"b\":0}\n> call pay {\"a\":2,\"b\":0}\n---\ndone"), Tools: []harness.Tool{tool}}
	b := newMemory()
	b.dies = func(key, when string) bool { return strings.HasPrefix(key, "tool:") && when == "unkept" }
	if _, err := b.run(t, a, `"go"`); !errors.Is(err, errKilled) {
		t.Fatal(err)
	}
	b.dies = nil
	if _, err := b.run(t, a, `"go"`); err != nil {
		t.Fatal(err)
	}
	one, two := keys["1"], keys["2"]
	if len(one) != 2 || len(two) != 2 || one[0] == "" || one[0] != one[1] || two[0] != two[1] || one[0] == two[0] {
		t.Errorf("keys: %v", keys)
	}
	if harness.CallKey(t.Context()) != "" {
		t.Error("there is a key outside of a call")
	}
}

func TestAToolFindsTheRunThatItsCallBelongsTo(t *testing.T) {
	var found *agent.Work
	tool := harness.NewTool("look", "", func(ctx context.Context, _ struct{}) (string, error) {
		found = harness.CallWork(ctx)
		return "seen", nil
	})
	b := newMemory()
	a := harness.Agent{Name: "a", Model: script(t, "when\n> call look\n---\ndone"), Tools: []harness.Tool{tool}}
	if _, err := b.run(t, a, `"go"`); err != nil {
		t.Fatal(err)
	}
	if found == nil || found.ID == "" || !found.Now().Equal(b.now) {
		t.Errorf("got %+v", found)
	}
	if harness.CallWork(t.Context()) != nil {
		t.Error("there is a run outside of a call")
	}
}

func TestIndependentCallsAreMadeAtTheSameTime(t *testing.T) {
	var together sync.WaitGroup
	together.Add(3)
	tool := harness.NewTool("meet", "", func(ctx context.Context, in numbers) (int, error) {
		together.Done()
		together.Wait() // for ever, if the calls come one after the other
		return in.A, nil
	})
	m := script(t, "when\n> call meet {\"a\":1,\"b\":0}\n> call meet {\"a\":2,\"b\":0}\n> call meet {\"a\":3,\"b\":0}\n---\n{{result}}")
	got, err := newMemory().run(t, harness.Agent{Name: "a", Model: m, Tools: []harness.Tool{tool}}, `"go"`)
	if err != nil || got != "1\n2\n3" {
		t.Errorf("got %v, %v: results stand in the order of their calls", got, err)
	}
}

func TestToolsReportProgressOfTheirRun(t *testing.T) {
	tool := harness.NewTool("work", "", func(ctx context.Context, _ struct{}) (string, error) {
		return "ok", harness.ReportProgress(ctx, agent.Progress{Message: "working"})
	})
	a := harness.Agent{Name: "a", Model: script(t, "when\n> call work\n---\ndone"), Tools: []harness.Tool{tool}}
	b := newMemory()
	if _, err := b.run(t, a, `"go"`); err != nil || len(b.progress) != 2 || b.progress[1].Message != "working" {
		t.Errorf("%v; progress %+v", err, b.progress)
	}
	b = newMemory()
	b.lines = []agent.Line{{Role: "user", Text: "go"}}
	if got, err := b.turn(t, a); err != nil || got != "done" || len(b.progress) != 0 {
		t.Errorf("turn: %q, %v, %+v", got, err, b.progress)
	}
}

func TestMalformedArgumentsGoBackToTheModelAsAnObject(t *testing.T) {
	m := script(t, "when\n> call add {\"a\":\n> call add\n> call add [1]\n---\ndone")
	var calls int
	if _, err := newMemory().run(t, harness.Agent{Name: "a", Model: m, Tools: []harness.Tool{adder(&calls)}}, `"go"`); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range m.last().Messages[1].Calls {
		got = append(got, string(c.Arguments))
	}
	if want := `[{"malformed":"{\"a\":"} {} {"malformed":"[1]"}]`; fmt.Sprint(got) != want {
		t.Errorf("got %v", got)
	}
}
