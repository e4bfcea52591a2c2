package harness_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/control"
	"github.com/errand-dev/errand/shared/harness"
	"github.com/errand-dev/errand/shared/ledger"
	"github.com/errand-dev/errand/shared/subagent"
)

type path struct {
	Path string `json:"path"`
}

// remover is an agent whose tool needs approval; calls counts what it really did.
func remover(t *testing.T, calls *atomic.Int64) harness.Agent {
	return harness.Agent{
		Name: "remover",
		Model: script(t, `when remove
> call remove {"path":"a"}
> call remove {"path":"b"}
> call remove {"wrong":"c"}
---
{{result}}`),
		Tools: []harness.Tool{harness.NewTool("remove", "removes a file", func(_ context.Context, in path) (string, error) {
			calls.Add(1)
			return "removed " + in.Path, nil
		})},
		Policies: map[string]harness.Policy{"remove": harness.NeedsApproval},
	}
}

// asked waits until so many questions of a run or turn are open.
func (s *stack) asked(of func() ledger.Life, n int) []ledger.Question {
	s.t.Helper()
	var open []ledger.Question
	s.until(fmt.Sprintf("%d questions", n), func() bool {
		var err error
		if open, err = s.Ledger.Unanswered(s.t.Context(), of()); err != nil {
			s.t.Fatal(err)
		}
		return len(open) == n
	})
	return open
}

func (s *stack) life(run string) func() ledger.Life {
	return func() ledger.Life {
		row, err := s.Ledger.Run(s.t.Context(), owner, run)
		if err != nil {
			s.t.Fatal(err)
		}
		return ledger.LifeOf(row)
	}
}

// All calls of an answer that need approval are asked about at once; each is made only if it
// was approved; one whose arguments are wrong is told and never asked about.
func TestACallThatNeedsApprovalWaitsForIt(t *testing.T) {
	var calls atomic.Int64
	s := start(t, t.TempDir(), remover(t, &calls))
	s.dispatch("r1", "remover", `"remove"`)
	open := s.asked(s.life("r1"), 2)
	if calls.Load() != 0 {
		t.Fatalf("%d calls were made before anybody approved", calls.Load())
	}
	if got := string(open[0].Detail); !strings.Contains(got, `"a"`) || !strings.Contains(open[0].Title, "remove") {
		t.Errorf("the question is %q with %s", open[0].Title, got)
	}
	who := control.Asker{Owner: owner, Run: "r1"}
	for i, d := range []agent.Decision{{Approved: true}, {Note: "b is needed."}} {
		if err := s.Service.Control.Decide(t.Context(), who, open[i].Name, d); err != nil {
			t.Fatal(err)
		}
	}
	row := s.ended("r1")
	for _, want := range []string{"removed a", "not approved: b is needed.", "The arguments of remove are wrong"} {
		if !strings.Contains(row.Summary, want) {
			t.Errorf("the model was told %q, without %q", row.Summary, want)
		}
	}
	if calls.Load() != 1 {
		t.Errorf("the tool was called %d times", calls.Load())
	}
}

func TestPeopleAreAskedAboutCallsOfAnySize(t *testing.T) {
	for name, piece := range map[string]string{"words": "word ", "tags": "<>&", "quotes": `\"`, "umlauts": "ä"} {
		for _, times := range []int{1000, 3500, 50_000} {
			var calls atomic.Int64
			a := remover(t, &calls)
			a.Model = script(t, "when remove\n> call remove {\"path\":\""+strings.Repeat(piece, times)+"\"}\n---\n{{result}}")
			b := newMemory()
			if _, err := b.run(t, a, `"remove"`); !errors.Is(err, agent.ErrSuspended) || len(b.asked) != 1 {
				t.Errorf("%d times %s: %v, and %d questions", times, name, err, len(b.asked))
			}
		}
	}
}

// The same in a conversation: the turn waits, and is answered by the API under its own id.
func TestATurnWaitsForApproval(t *testing.T) {
	var calls atomic.Int64
	s := start(t, t.TempDir(), remover(t, &calls))
	s.say("remove")
	var turn subagent.Turn
	open := s.asked(func() ledger.Life {
		turns, err := s.Ledger.ListTurns(t.Context(), owner, "", 1)
		if err != nil || len(turns) != 1 {
			t.Fatal(turns, err)
		}
		turn = turns[0]
		return ledger.LifeOfTurn(turn)
	}, 2)
	for _, q := range open {
		if err := s.Service.Control.Decide(t.Context(), control.Asker{Owner: owner, Turn: turn.ID}, q.Name, agent.Decision{Approved: true}); err != nil {
			t.Fatal(err)
		}
	}
	said := s.transcript(2)
	if !strings.Contains(said[1], "removed a") || !strings.Contains(said[1], "removed b") || calls.Load() != 2 {
		t.Errorf("said %q after %d calls", said[1], calls.Load())
	}
}

// Without an answer in time the call is not made, and the model goes on.
func TestNobodyApproves(t *testing.T) {
	var calls atomic.Int64
	b := newMemory()
	a := remover(t, &calls)
	if _, err := b.run(t, a, `"remove"`); !errors.Is(err, agent.ErrSuspended) {
		t.Fatalf("ended with %v", err)
	}
	if len(b.asked) != 2 {
		t.Fatalf("asked %v", b.asked)
	}
	b.now = b.now.Add(24 * time.Hour)
	out, err := b.run(t, a, `"remove"`)
	if err != nil || strings.Count(fmt.Sprint(out), "Nobody has approved this call in time") != 2 || calls.Load() != 0 {
		t.Errorf("said %v, %v after %d calls", out, err, calls.Load())
	}
}

// A conversation waits only for the milestone that it needs, and hears of the end later.
func TestAConversationWaitsForAMilestoneOfItsWork(t *testing.T) {
	talk := script(t, `when has completed: (.*)
The rest: {{1}}
when import
> call background_importer {"task":"go"}
---
> call wait_for {"ids":{{ids}},"milestone":"schema-ready"}
---
It has {{result}}.`)
	gate := make(chan struct{})
	s := start(t, t.TempDir(),
		harness.Agent{Name: "assistant", Model: talk, Subagents: []harness.Subagent{{Name: "importer"}}},
		harness.Agent{Name: "importer", Model: script(t, "when go\n> call reach {\"path\":\"x\"}\n---\nAll rows."),
			Tools: []harness.Tool{harness.NewTool("reach", "reaches it", func(ctx context.Context, _ path) (string, error) {
				if err := harness.Milestone(ctx, "schema-ready", map[string]int{"columns": 7}); err != nil {
					return "", err
				}
				<-gate
				return "ok", nil
			})}})
	s.say("import")
	said := s.transcript(2)
	if !strings.HasPrefix(said[1], `assistant: It has {"milestone":"schema-ready",`) || !strings.Contains(said[1], `{"columns":7}`) {
		t.Errorf("said %q", said[1])
	}
	close(gate)
	said = s.transcript(4)
	if diff := cmp.Diff("assistant: The rest: All rows.", said[3]); diff != "" {
		t.Error(diff)
	}
}

// A join in a run: two of three helpers, the third goes on.
func TestARunJoinsItsHelpers(t *testing.T) {
	lead := script(t, `when lead
> call background_helper {"task":"one"}
> call background_helper {"task":"two"}
> call background_helper {"task":"hang"}
---
> call wait_for {"ids":{{ids}},"need":2}
---
{{result}}`)
	hang := make(chan struct{})
	t.Cleanup(func() { close(hang) })
	helper := script(t, "when one\nFirst.\nwhen two\nSecond.\nwhen hang\n> call wait {\"path\":\"\"}\n---\nNever.")
	s := start(t, t.TempDir(),
		harness.Agent{Name: "lead", Model: lead, Subagents: []harness.Subagent{{Name: "helper"}}},
		harness.Agent{Name: "helper", Model: helper, Tools: []harness.Tool{harness.NewTool("wait", "waits", func(ctx context.Context, _ path) (string, error) {
			select {
			case <-ctx.Done():
			case <-hang:
			}
			return "", ctx.Err()
		})}})
	s.dispatch("r1", "lead", `"lead"`)
	row := s.ended("r1")
	output, err := s.Ledger.LoadValue(t.Context(), owner, row.Output)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`First.`, `Second.`, `running`} {
		if !strings.Contains(output, want) {
			t.Errorf("the join told %s, without %s", output, want)
		}
	}
}

// A model may name one id any number of times, and each result may be large.
func TestAJoinReadsARunOnceHoweverOftenItIsNamed(t *testing.T) {
	b := &looks{memory: newMemory()}
	b.results = map[string]agent.Result{"a": {Info: agent.Info{ID: "a", Status: subagent.Completed}}}
	run := agent.NewRun(subagent.Run{Owner: owner, ID: "r1"}, nil, b)
	results, err := run.Join(t.Context(), "k", agent.Join{Runs: slices.Repeat([]string{"a"}, 1000)})
	if err != nil || len(results) != 1000 || results[999].Status != subagent.Completed {
		t.Errorf("%d results: %v", len(results), err)
	}
	if b.inspected > 2 { // when the join ends, and for its output
		t.Errorf("the run was read %d times", b.inspected)
	}
}

// looks counts what is inspected.
type looks struct {
	*memory
	inspected int
}

func (l *looks) Inspect(ctx context.Context, run string) (agent.Result, error) {
	l.inspected++
	return l.memory.Inspect(ctx, run)
}
