package harness_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/harness"
	"github.com/errand-dev/errand/shared/model"
	"github.com/errand-dev/errand/shared/money"
	"github.com/errand-dev/errand/shared/subagent"
)

func TestEachCallIsReservedBeforeItIsMadeAndSettledOnceItsAnswerIsKept(t *testing.T) {
	m := script(t, "when\n> call add {\"a\":1,\"b\":1}\n> tokens 400 20\n---\n> tokens 800 30\n2")
	b := newMemory()
	var calls int
	a := harness.Agent{Name: "a", Model: m, ModelName: "claude-opus-5", Tools: []harness.Tool{adder(&calls)}, Limits: harness.Limits{AnswerTokens: 500}}
	b.dies = func(key, when string) bool {
		b.note("%s is %s", key, when)
		return false
	}
	if _, err := b.run(t, a, `"go"`); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, line := range b.spent {
		if strings.Contains(line, "model:") && !strings.Contains(line, "before") && !strings.Contains(line, "unkept") {
			got = append(got, strings.Join(strings.Fields(line)[:3], " "))
		}
	}
	want := []string{
		"reserve model:1 [claude-opus-5]", "model:1 is kept", "settle model:1 [script",
		"reserve model:2 [claude-opus-5]", "model:2 is kept", "settle model:2 [script",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	var first, second int64
	for _, line := range b.spent {
		_, _ = fmt.Sscanf(line, "reserve model:1 [claude-opus-5] in %d out 500", &first)
		_, _ = fmt.Sscanf(line, "reserve model:2 [claude-opus-5] in %d out 500", &second)
	}
	if first == 0 || second < 400 {
		t.Errorf("estimates of %d and %d tokens: the second must be no smaller than what the first was billed, 400", first, second)
	}
}

func TestARunThatIsExecutedAgainSettlesWhatItFindsAndReservesNothing(t *testing.T) {
	m := script(t, "when\n> call add {\"a\":1,\"b\":1}\n---\n2")
	var calls int
	a := harness.Agent{Name: "a", Model: m, Tools: []harness.Tool{adder(&calls)}}
	b := newMemory()
	b.dies = func(key, when string) bool { return key == "model:2" && when == "kept" }
	if _, err := b.run(t, a, `"go"`); !errors.Is(err, errKilled) {
		t.Fatal(err)
	}
	b.dies, b.spent = nil, nil
	if _, err := b.run(t, a, `"go"`); err != nil {
		t.Fatal(err)
	}
	if got := firstWords(b.spent); got != "settle settle" {
		t.Errorf("executed again: %s", got)
	}
}

func firstWords(lines []string) string {
	words := make([]string, len(lines))
	for i, line := range lines {
		words[i], _, _ = strings.Cut(line, " ")
	}
	return strings.Join(words, " ")
}

func TestWhatAFailedCallMayHaveCostIsBooked(t *testing.T) {
	for kind, want := range map[model.Kind]string{
		model.Overloaded: "reserve release reserve settle", model.RateLimited: "reserve release reserve settle",
		model.Timeout: "reserve lose reserve settle", model.Broken: "reserve lose reserve settle",
		model.Invalid: "reserve release", model.Unauthorized: "reserve release", model.NotFound: "reserve release",
	} {
		t.Run(string(kind), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newMemory()
				_, _ = b.run(t, harness.Agent{Name: "a", Model: script(t, "when\n> fail "+string(kind)+"\nfine")}, `"go"`)
				if got := firstWords(b.spent); got != want {
					t.Errorf("%s, want %s", got, want)
				}
			})
		})
	}
}

func TestAnAnswerThatIsNotKeptIsPaidAllTheSame(t *testing.T) {
	b := newMemory()
	b.dies = func(key, when string) bool { return key == "model:1" && when == "unkept" }
	if _, err := b.run(t, harness.Agent{Name: "a", Model: script(t, "when\n> tokens 7 3\nfine")}, `"go"`); !errors.Is(err, errKilled) || !agent.IsRetryable(err) {
		t.Fatal(err)
	}
	if got := b.spent[len(b.spent)-1]; got != "lose model:1 10" {
		t.Errorf("in the end: %s", got)
	}
}

func TestARefusedCallEndsTheRunAndIsNotMade(t *testing.T) {
	for name, refusal := range map[string]error{
		"over the budget": &agent.BudgetError{Run: "r", Limit: subagent.Allowance{Tokens: 5}, Estimate: subagent.Spend{Usage: subagent.Usage{Input: 9}}},
		"without a price": &agent.UnpricedError{Model: "mystery"},
	} {
		t.Run(name, func(t *testing.T) {
			m := script(t, "when\nfine")
			b := newMemory()
			b.refuses = refusal
			_, err := b.run(t, harness.Agent{Name: "a", Model: m}, `"go"`)
			if !errors.Is(err, refusal) || agent.IsRetryable(err) || len(m.requests) != 0 {
				t.Errorf("%v, after %d calls", err, len(m.requests))
			}
		})
	}
}

func TestALimitIsHandedToTheAccountsWithEachCall(t *testing.T) {
	b := &limits{memory: newMemory()}
	a := harness.Agent{Name: "a", Model: script(t, "when\nfine"), Limits: harness.Limits{Tokens: 77, USD: 3 * money.Cent}}
	row := subagent.Run{Owner: owner, ID: "r", Agent: "a"}
	if _, err := harness.Task(a)(t.Context(), agent.NewRun(row, []byte(`"go"`), b)); err != nil {
		t.Fatal(err)
	}
	if want := (subagent.Allowance{Tokens: 77, Cost: 3 * money.Cent}); b.got != want {
		t.Errorf("%+v", b.got)
	}
	a.Limits.USD = -1
	if err := harness.Register(agent.NewRegistry(), a); err == nil {
		t.Error("a negative limit was registered")
	}
}

// limits keeps the limit of the newest call.
type limits struct {
	*memory
	got subagent.Allowance
}

func (l *limits) Reserve(_ context.Context, c agent.Call) error {
	l.got = c.Limit
	return nil
}

// The price is that of the scripted model, 1 and 2 dollars a million.
func TestWhatARunHasCostIsOnTheWire(t *testing.T) {
	s := start(t, t.TempDir(), harness.Agent{Name: "a", Model: script(t, "when\n> tokens 1000 500\nfine")})
	s.dispatch("r1", "a", `"go"`)
	s.ended("r1")
	view, err := s.Service.Run(t.Context(), owner, "r1")
	if err != nil {
		t.Fatal(err)
	}
	if view.Cost == nil || *view.Cost.USD != 2_000_000 || view.Cost.InputTokens != 1000 || view.Cost.OutputTokens != 500 || view.Cost.ModelCalls != 1 {
		t.Errorf("%+v", view.Cost)
	}
}
