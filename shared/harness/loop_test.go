package harness_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/harness"
	"github.com/errand-dev/errand/shared/model"
	"github.com/errand-dev/errand/shared/subagent"
)

func TestAToolIsCalledAndItsResultBecomesTheAnswer(t *testing.T) {
	var calls int
	m := script(t, "when add\n> call add {\"a\":2,\"b\":3}\n---\nIt is {{result}}.")
	got, err := newMemory().run(t, harness.Agent{Name: "sum", Instructions: "You add.", Model: m, Tools: []harness.Tool{adder(&calls)}}, `{"task":"add 2 and 3"}`)
	if err != nil || got != "It is 5." || calls != 1 {
		t.Fatalf("got %v, %v after %d calls", got, err, calls)
	}
	if m.last().System != "You add." {
		t.Errorf("instructions: %q", m.last().System)
	}
}

func TestTheTaskIsATextAnObjectOrAnyJSON(t *testing.T) {
	for input, want := range map[string]string{
		`"say hi"`:                              "user: say hi\n",
		`{"task":"say hi"}`:                     "user: say hi\n",
		`{"city":"Bonn"}`:                       "user: {\"city\":\"Bonn\"}\n",
		`{"task":"x","city":"Bonn"}`:            "user: {\"task\":\"x\",\"city\":\"Bonn\"}\n",
		`{"task":"x","disabled_tools":["add"]}`: "user: x\n",
	} {
		m := script(t, "when\nhi")
		if _, err := newMemory().run(t, harness.Agent{Name: "a", Model: m}, input); err != nil {
			t.Fatal(err)
		}
		if got := words(m.last()); got != want {
			t.Errorf("input %s: the model read %q", input, got)
		}
	}
	if _, err := newMemory().run(t, harness.Agent{Name: "a", Model: script(t, "when\nhi")}, ""); err == nil || agent.IsRetryable(err) {
		t.Errorf("no input: %v", err)
	}
}

func TestTheRunEndsAtItsIterationLimit(t *testing.T) {
	var calls int
	m := script(t, "when\n> call add {\"a\":1,\"b\":1}\n---\n> call add {\"a\":2,\"b\":1}\n---\n> call add {\"a\":3,\"b\":1}\n---\nnever said")
	_, err := newMemory().run(t, harness.Agent{Name: "a", Model: m, Tools: []harness.Tool{adder(&calls)}, Limits: harness.Limits{Iterations: 3}}, `"go"`)
	if err == nil || agent.IsRetryable(err) || len(m.requests) != 3 {
		t.Fatalf("got %v after %d model calls", err, len(m.requests))
	}
	contains(t, "error", err.Error(), "stopped after 3 model calls")
}

func TestReportingProgressDoesNotUseUpTheLimit(t *testing.T) {
	m := script(t, "when\n> call report_progress {\"fraction\":0.5,\"message\":\"half\"}\n---\n> call report_progress {\"fraction\":0.9}\n---\ndone")
	b := newMemory()
	got, err := b.run(t, harness.Agent{Name: "a", Model: m, Limits: harness.Limits{Iterations: 2}}, `"go"`)
	if err != nil || got != "done" || len(b.progress) != 3 || b.progress[1].Message != "half" {
		t.Errorf("got %v, %v; progress %+v", got, err, b.progress)
	}
}

func TestTheSameCallOverAndOverIsToldToTheModelThenFailsTheRun(t *testing.T) {
	var calls int
	m := script(t, "when\n> call add {\"a\":1, \"b\":1}\n---\n> call add {\"b\":1,\"a\":1}\n> repeat")
	_, err := newMemory().run(t, harness.Agent{Name: "a", Model: m, Tools: []harness.Tool{adder(&calls)}}, `"go"`)
	if err == nil || agent.IsRetryable(err) {
		t.Fatal(err)
	}
	contains(t, "error", err.Error(), "stalled without durable progress")
	if calls != 3 || len(m.requests) != 7 {
		t.Errorf("%d calls, %d model calls; want 3 and 7", calls, len(m.requests))
	}
	contains(t, "the model was told", m.lastResults()[0].Text, "5 times in a row")
}

func TestAnAnswerThatBreaksItsSchemaIsSentBackTwiceThenFails(t *testing.T) {
	schema, err := harness.SchemaOf[struct {
		City string `json:"city"`
	}]()
	if err != nil {
		t.Fatal(err)
	}
	good := script(t, "when where\nBonn\n---\n{\"town\":\"Bonn\"}\n---\n```json\n{\"city\":\"Bonn\"}\n```")
	got, err := newMemory().run(t, harness.Agent{Name: "a", Model: good, OutputSchema: schema}, `"where?"`)
	if err != nil || string(got.(json.RawMessage)) != `{"city":"Bonn"}` {
		t.Errorf("got %s, %v", got, err)
	}
	contains(t, "the model was told", words(good.last()), "does not follow the schema")
	bad := script(t, "when where\nBonn\n> repeat")
	_, err = newMemory().run(t, harness.Agent{Name: "a", Model: bad, OutputSchema: schema}, `"where?"`)
	if err == nil || agent.IsRetryable(err) || len(bad.requests) != 3 {
		t.Errorf("got %v after %d model calls", err, len(bad.requests))
	}
}

func TestNothingOfACutAnswerIsUsed(t *testing.T) {
	var calls int
	m := script(t, "when go\n> call add {\"a\":1,\"b\":1}\n> stop max_tokens\n---\nhalf an ans\n> stop max_tokens\n---\nshort")
	got, err := newMemory().run(t, harness.Agent{Name: "a", Model: m, Tools: []harness.Tool{adder(&calls)}}, `"go"`)
	if err != nil || got != "short" || calls != 0 {
		t.Errorf("got %v, %v; %d calls", got, err, calls)
	}
	contains(t, "the model was told", words(m.last()), "cut at its token limit")
	m = script(t, "when go\nlong\n> stop max_tokens\n> repeat")
	if _, err = newMemory().run(t, harness.Agent{Name: "a", Model: m}, `"go"`); err == nil || len(m.requests) != 3 {
		t.Errorf("got %v after %d model calls", err, len(m.requests))
	}
}

func TestCutsAreForgivenWhenTheWorkGoesOn(t *testing.T) {
	var calls int
	m := script(t, "when go"+strings.Repeat("\ntoo long\n> stop max_tokens\n---\n> call add {\"a\":1,\"b\":1}\n---", 3)+"\nfine")
	got, err := newMemory().run(t, harness.Agent{Name: "a", Model: m, Tools: []harness.Tool{adder(&calls)}}, `"go"`)
	if err != nil || got != "fine" || calls != 3 {
		t.Errorf("got %v, %v after %d calls", got, err, calls)
	}
}

func TestARefusalEndsARunAndAnswersATurn(t *testing.T) {
	a := harness.Agent{Name: "a", Model: script(t, "when\nI would rather not.\n> stop refusal")}
	if _, err := newMemory().run(t, a, `"go"`); err == nil || err.Error() != "the model declined to answer: I would rather not." {
		t.Errorf("run: %v", err)
	}
	b := newMemory()
	b.lines = []agent.Line{{Role: "user", Text: "go"}}
	if got, err := b.turn(t, a); err != nil || got != "I would rather not." {
		t.Errorf("turn: %q, %v", got, err)
	}
}

func TestAnOverloadedModelIsAskedAgainAfterAsLongAsItWants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := script(t, "when\n> fail overloaded times 2 after 20s\nfine")
		began := time.Now()
		got, err := newMemory().run(t, harness.Agent{Name: "a", Model: m}, `"go"`)
		if err != nil || got != "fine" || time.Since(began) != 40*time.Second {
			t.Errorf("got %v, %v after %v", got, err, time.Since(began))
		}
		if m.keys[0] != m.keys[2] {
			t.Errorf("the tries of one call have the keys %v", m.keys)
		}
	})
}

func TestAModelThatStaysOverloadedPutsTheRunOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := script(t, "when\n> fail overloaded times 9\nfine")
		b := newMemory()
		if _, err := b.run(t, harness.Agent{Name: "a", Model: m}, `"go"`); !agent.IsRetryable(err) || len(m.requests) != 4 {
			t.Errorf("got %v after %d tries", err, len(m.requests))
		}
		m = script(t, "when\n> fail rate_limited after 10m\nfine")
		began := time.Now()
		if _, err := b.run(t, harness.Agent{Name: "a", Model: m}, `"go"`); !agent.IsRetryable(err) || time.Since(began) != 0 {
			t.Errorf("got %v after %v: too long to wait in place", err, time.Since(began))
		}
	})
}

func TestAFailureForGoodEndsTheRunWithASentence(t *testing.T) {
	for kind, want := range map[string]string{
		"invalid_request":  "the model's provider refused the request",
		"context_too_long": "the work no longer fits the model's context window",
		"unauthorized":     "the model's provider refused our credentials",
		"not_found":        `the model's provider knows no model "big"`,
	} {
		m := script(t, "when\n> fail "+kind+" times 9\nfine")
		_, err := newMemory().run(t, harness.Agent{Name: "a", Model: m, ModelName: "big"}, `"go"`)
		if err == nil || agent.IsRetryable(err) {
			t.Errorf("%s: %v", kind, err)
			continue
		}
		contains(t, kind, err.Error(), want)
	}
}

func TestFollowUpsAreReadBetweenStepsAndBeforeTheEnd(t *testing.T) {
	var calls int
	b := newMemory()
	m := script(t, "when in French\nCinq.\nwhen add\n> call add {\"a\":2,\"b\":3}\n---\nFive.")
	b.dies = func(key, when string) bool {
		if key == "model:2" && when == "before" {
			b.inbox = append(b.inbox, agent.Message{ID: "1", Text: "Say it in French.", Source: "user"})
		}
		return false
	}
	got, err := b.run(t, harness.Agent{Name: "a", Model: m, Tools: []harness.Tool{adder(&calls)}}, `"add"`)
	if err != nil || got != "Cinq." {
		t.Errorf("got %v, %v", got, err)
	}
	contains(t, "the model read", words(m.last()), "[A message to you while you work] Say it in French.")
}

func TestAnAwaitedSubagentSuspendsTheRunWhileOtherCallsAreMade(t *testing.T) {
	var calls int
	m := script(t, "when\n> call ask_helper {\"task\":\"one\"}\n> call add {\"a\":1,\"b\":1}\n> call ask_helper {\"task\":\"two\"}\n---\n{{result}}")
	a := harness.Agent{Name: "a", Model: m, Tools: []harness.Tool{adder(&calls)}, Subagents: []harness.Subagent{{Name: "helper"}}}
	b := newMemory()
	if _, err := b.run(t, a, `"go"`); !errors.Is(err, agent.ErrSuspended) {
		t.Fatal(err)
	}
	if len(b.dispatched) != 2 || calls != 1 || !b.dispatched[0].Awaited {
		t.Fatalf("%d dispatched, %d calls", len(b.dispatched), calls)
	}
	b.results["child-tool:1:0"] = agent.Result{Info: agent.Info{Status: subagent.Completed}, Output: json.RawMessage(`"first"`)}
	b.results["child-tool:1:2"] = agent.Result{Info: agent.Info{Status: subagent.Interrupted, Reason: "no-progress", ChildStillRunning: true}}
	got, err := b.run(t, a, `"go"`)
	if err != nil || len(b.dispatched) != 2 || calls != 1 || len(m.requests) != 2 {
		t.Fatalf("%v; %d dispatched, %d calls, %d model calls", err, len(b.dispatched), calls, len(m.requests))
	}
	want := "first\n2\n" + `{"ok":false,"status":"interrupted","error":"it ended as interrupted","retryable":true,"reason":"no-progress","childStillRunning":true}`
	if got != want {
		t.Errorf("got %s", got)
	}
}

func TestWhatHasEndedBadlyIsToldInOneEnvelope(t *testing.T) {
	m := script(t, "when\n> call ask_helper {\"task\":\"one\"}\n---\n{{result}}")
	b := newMemory()
	b.results["child-tool:1:0"] = agent.Result{Info: agent.Info{Status: subagent.Error, Problem: "no luck"}}
	got, err := b.run(t, harness.Agent{Name: "a", Model: m, Subagents: []harness.Subagent{{Name: "helper"}}}, `"go"`)
	if err != nil || got != `{"ok":false,"status":"error","error":"no luck","retryable":false}` || !m.lastResults()[0].Failed {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestDisabledToolsAreNotOfferedAndStayDisabledBelow(t *testing.T) {
	var calls int
	m := script(t, "when\n> call add {\"a\":1,\"b\":1}\n> call background_helper {\"task\":\"x\"}\n---\n{{result}}")
	a := harness.Agent{Name: "a", Model: m, Tools: []harness.Tool{adder(&calls)},
		Subagents: []harness.Subagent{{Name: "helper"}}, Policies: map[string]harness.Policy{"add": harness.Disabled}}
	b := newMemory()
	got, err := b.run(t, a, `{"task":"go","disabled_tools":["read_result"]}`)
	if err != nil || calls != 0 {
		t.Fatalf("%v, %d calls", err, calls)
	}
	contains(t, "the model was told", got.(string), `There is no tool "add"`)
	for _, tool := range m.last().Tools {
		if tool.Name == "add" || tool.Name == "read_result" {
			t.Errorf("%s was offered", tool.Name)
		}
	}
	input, _ := json.Marshal(b.dispatched[0].Input)
	if want := `{"task":"x","disabled_tools":["add","read_result"]}`; string(input) != want {
		t.Errorf("the child got %s", input)
	}
}

func TestBelowItsDepthAnAgentIsOfferedNoSubagents(t *testing.T) {
	m := script(t, "when\nfine\n> repeat")
	a := harness.Agent{Name: "a", Model: m, Subagents: []harness.Subagent{{Name: "a"}}, Limits: harness.Limits{Depth: 1}}
	for depth, want := range map[int]bool{0: true, 1: false} {
		row := subagent.Run{ID: "r"}
		if depth == 1 {
			row.Parent = "above"
		}
		if _, err := harness.Task(a)(t.Context(), agent.NewRun(row, json.RawMessage(`"x"`), newMemory())); err != nil {
			t.Fatal(err)
		}
		offered := false
		for _, tool := range m.last().Tools {
			offered = offered || strings.HasPrefix(tool.Name, "ask_")
		}
		if offered != want {
			t.Errorf("depth %d: offered is %v", depth, offered)
		}
	}
}

func TestAContinuedRunKeepsTheInstructionsItBeganWith(t *testing.T) {
	var calls int
	m := script(t, "when\n> call add {\"a\":1,\"b\":1}\n---\ndone")
	a := harness.Agent{Name: "a", Instructions: "Old.", ModelName: "old", Model: m, Tools: []harness.Tool{adder(&calls)}}
	b := newMemory()
	b.dies = func(key, when string) bool { return key == "model:2" && when == "before" }
	if _, err := b.run(t, a, `"go"`); !errors.Is(err, errKilled) {
		t.Fatal(err)
	}
	b.dies, a.Instructions, a.ModelName = nil, "New.", "new"
	if _, err := b.run(t, a, `"go"`); err != nil || m.last().System != "Old." || m.last().Model != "old" {
		t.Errorf("%v; system %q, model %q", err, m.last().System, m.last().Model)
	}
}

func TestTheCallersContextAndActiveWorkGoWithTheTask(t *testing.T) {
	b := newMemory()
	half := 0.5
	b.runs = []agent.Info{{ID: "w1", Agent: "importer", Status: subagent.Running, DispatchedAt: b.now.Add(-90 * time.Second),
		Progress: subagent.Progress{Fraction: &half, Message: "row 5"}}}
	b.lines = []agent.Line{
		{Role: "user", Text: "Import it.", Source: "user"}, {Role: "assistant", Text: "On its way."},
		{Role: "user", Text: "How far is it?", Source: "user"},
	}
	m := script(t, "when\nHalf.")
	a := harness.Agent{Name: "a", Model: m, Context: func(context.Context, *agent.Work) (string, error) { return "Today is Monday.", nil }}
	if _, err := b.turn(t, a); err != nil {
		t.Fatal(err)
	}
	want := "user: Import it.\nassistant: On its way.\nuser: <context>\nToday is Monday.\n\n" +
		`{"activeWork":[{"id":"w1","subagent":"importer","status":"running","progress":"50%, row 5","age_seconds":90}]}`
	if got := words(m.last()); !strings.HasPrefix(got, want) || !strings.Contains(got, "Do not claim that they are done") || !strings.HasSuffix(got, "How far is it?\n") {
		t.Errorf("the model read\n%s", got)
	}
}

func TestBackgroundWorkIsManagedByTheModel(t *testing.T) {
	b := newMemory()
	b.runs = []agent.Info{{ID: "w1", Agent: "importer", Status: subagent.Running, DispatchedAt: b.now}, {ID: "w2", Agent: "importer", Status: subagent.Running, Parent: "another", DispatchedAt: b.now}}
	b.runs[0].Parent = "r"
	m := script(t, `when
> call manage_work {"action":"list"}
> call manage_work {"action":"inspect","id":"w1"}
> call manage_work {"action":"cancel","id":"w1"}
> call send_followup {"id":"w1","message":"hurry"}
> call manage_work {"action":"cancel","id":"w2"}
> call manage_work {"action":"burn"}
---
done`)
	a := harness.Agent{Name: "a", Model: m, Limits: harness.Limits{Parallel: 1}}
	if _, err := b.run(t, a, `"go"`); err != nil {
		t.Fatal(err)
	}
	want := []string{
		`{"work":[{"id":"w1","subagent":"importer","status":"running","age_seconds":0}]}`,
		`{"id":"w1","subagent":"importer","status":"running","age_seconds":0,"output":"so far"}`,
		`w1 is aborted.`, `Sent.`, `no such run: w2`, `the action is list, inspect or cancel, not "burn"`,
	}
	for i, r := range m.lastResults() {
		if r.Text != want[i] || r.Failed != (i > 3) {
			t.Errorf("call %d: %q, failed %v", i, r.Text, r.Failed)
		}
	}
	if fmt.Sprint(b.followups) != "[w1: hurry]" {
		t.Errorf("follow-ups: %v", b.followups)
	}
}

// endless answers each request by what say returns for its number.
type endless struct {
	asked int
	say   func(n int) (model.Response, error)
}

func (e *endless) Generate(_ context.Context, _ string, _ model.Request, _ func(string)) (model.Response, error) {
	e.asked++
	return e.say(e.asked)
}

func TestReportsAloneDoNotKeepARunGoingForEver(t *testing.T) {
	m := &endless{say: func(n int) (model.Response, error) {
		call := model.Call{Name: "report_progress", Arguments: json.RawMessage(fmt.Sprintf(`{"message":"%d"}`, n))}
		return model.Response{Stop: model.StopTools, Calls: []model.Call{call}}, nil
	}}
	_, err := newMemory().run(t, harness.Agent{Name: "a", Model: m, Limits: harness.Limits{Iterations: 5}}, `"go"`)
	if err == nil || agent.IsRetryable(err) || m.asked != 6 {
		t.Errorf("%v after %d model calls", err, m.asked)
	}
}

func TestCallsWithoutIDsOfTheirOwnAreToldApart(t *testing.T) {
	var calls int
	m := &recorder{Model: &endless{say: func(n int) (model.Response, error) {
		if n == 2 {
			return model.Response{Text: "done", Stop: model.StopEnd}, nil
		}
		return model.Response{Stop: model.StopTools, Calls: []model.Call{
			{Name: "add", ID: "x", Arguments: json.RawMessage(`{"a":1,"b":0}`)},
			{Name: "add", ID: "x", Arguments: json.RawMessage(`{"a":2,"b":0}`)},
			{Name: "add", Arguments: json.RawMessage(`{"a":3,"b":0}`)},
		}}, nil
	}}}
	if _, err := newMemory().run(t, harness.Agent{Name: "a", Model: m, Tools: []harness.Tool{adder(&calls)}}, `"go"`); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for i, r := range m.lastResults() {
		if seen[r.CallID] || r.Text != fmt.Sprint(i+1) || r.CallID != m.last().Messages[1].Calls[i].ID {
			t.Errorf("result %d: %+v", i, r)
		}
		seen[r.CallID] = true
	}
}

func TestACallThatIsStoppedIsNoFailureOfTheModel(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	m := &endless{say: func(int) (model.Response, error) {
		cancel(agent.ErrHandOn)
		return model.Response{}, &model.Error{Kind: model.Ended, Err: agent.ErrHandOn}
	}}
	_, err := harness.Task(harness.Agent{Name: "a", Model: m})(ctx, newRun(newMemory()))
	if !errors.Is(err, agent.ErrHandOn) || !agent.IsRetryable(err) {
		t.Error(err)
	}
}

func TestACompletedSubagentWithoutTheOutputItOwesHasFailed(t *testing.T) {
	schema := json.RawMessage(`{"type":"object"}`)
	for _, c := range []struct {
		schema json.RawMessage
		output string
		want   string
	}{
		{nil, "", ""},
		{nil, "null", ""},
		{schema, `{"a":1}`, `{"a":1}`},
		{schema, "", `{"ok":false,"status":"error","error":"it has ended without the output it owes","retryable":false}`},
	} {
		m := script(t, "when\n> call ask_helper {\"task\":\"one\"}\n---\n{{result}}")
		r := agent.NewRegistry()
		err := harness.Register(r, harness.Agent{Name: "a", Model: m, Subagents: []harness.Subagent{{Name: "helper"}}},
			harness.Agent{Name: "helper", Model: m, OutputSchema: c.schema})
		if err != nil {
			t.Fatal(err)
		}
		b := newMemory()
		b.results["child-tool:1:0"] = agent.Result{Info: agent.Info{Status: subagent.Completed}, Output: json.RawMessage(c.output)}
		task, _ := r.Task("a")
		if got, err := task(t.Context(), newRun(b)); err != nil || got != c.want {
			t.Errorf("output %q: got %v, %v", c.output, got, err)
		}
	}
}
