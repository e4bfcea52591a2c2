package cases_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/harness"
	"github.com/errand-dev/errand/shared/model"
	"github.com/errand-dev/errand/shared/subagent"
)

// lead is a model that makes one call, then answers with what it returned.
type lead model.Call

func (l lead) Defaults() (name string, maxTokens int) { return "script", 50 }

func (l lead) Generate(_ context.Context, _ string, req model.Request, _ func(string)) (model.Response, error) {
	last := req.Messages[len(req.Messages)-1]
	if len(last.Results) > 0 {
		return model.Response{Text: last.Results[0].Text, Stop: model.StopEnd}, nil
	}
	return model.Response{Stop: model.StopTools, Calls: []model.Call{model.Call(l)}}, nil
}

// A subagent has its own instructions and tools, not those of the agent that sends it off;
// but what is disabled for that one is disabled for it, also if it takes an input of its own.
func TestASubagentHasItsOwnSurfaceAndInheritsWhatIsDisabled(t *testing.T) {
	for _, c := range []struct{ name, input, arguments string }{
		{"a task", ``, `{"task":"help"}`},
		{"an input of its own", `{"type":"object","properties":{"task":{"type":"string"},"n":{"type":"integer"}}}`, `{"task":"help","n":1}`},
		{"an input without a task", `{"type":"object","properties":{"n":{"type":"integer"}}}`, `{"n":1}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(w *world) {
				tool := func(name string) harness.Tool {
					return harness.NewTool(name, "", func(context.Context, struct{}) (string, error) { return "", nil })
				}
				sub := harness.Subagent{Name: "helper"}
				if c.input != "" {
					sub.Input = json.RawMessage(c.input)
				}
				w.must(harness.Register(w.agents,
					harness.Agent{Name: "lead", Instructions: "You lead.", Model: lead{ID: "c", Name: "ask_helper", Arguments: json.RawMessage(c.arguments)},
						Tools: []harness.Tool{tool("drive"), tool("pay")}, Policies: map[string]harness.Policy{"pay": harness.Disabled}, Subagents: []harness.Subagent{sub}},
					harness.Agent{Name: "helper", Instructions: "You help.", Model: asked{w}, Tools: []harness.Tool{tool("look"), tool("pay")}}))
				w.start()
				req := request("r1", "lead", quietly)
				req.Input = raw("go")
				w.dispatch(req)
				w.pass(time.Minute)
				w.want("result", w.run("r1").Summary, "fine")
				w.want("the helper", w.called("asked"), []string{"asked You help., , [report_progress look read_result]"})
			})
		})
	}
}

// What is running is shown with its task in every turn, merged into the caller's context.
func TestATurnKnowsWhatItsBackgroundWorkIsAbout(t *testing.T) {
	bubble(t, func(w *world) {
		w.must(harness.Register(w.agents, harness.Agent{Name: "chatter", Model: listener{w},
			Context: func(context.Context, *agent.Work) (string, error) { return "Today is Monday.", nil }}))
		w.agents.DefaultChat = "chatter"
		w.start()
		long := strings.Repeat("x", 1000)
		for id, input := range map[string]any{"r1": map[string]string{"task": "count the birds"}, "r2": long} {
			req := request(id, "idle", quietly)
			req.Input = raw(input)
			w.dispatch(req)
			w.pass(time.Second)
		}
		w.say("how is it going?")
		w.pass(time.Second)
		heard := w.called("heard")
		if len(heard) != 1 {
			t.Fatal(heard)
		}
		for _, want := range []string{"Today is Monday.", `"id":"r1","subagent":"idle","task":"count the birds","status":"running"`, `"task":"` + long[:200] + `","status"`, "Do not claim that they are done", "how is it going?"} {
			if !strings.Contains(heard[0], want) {
				t.Errorf("the model read %q; want %q in it", heard[0], want)
			}
		}
		w.cancel("r1", "")
		w.cancel("r2", "")
		w.say("and now?")
		w.pass(time.Second)
		if now := w.called("heard")[1]; strings.Contains(now, "activeWork") || !strings.Contains(now, "Today is Monday.") {
			t.Errorf("without work the model read %q", now)
		}
	})
}

// listener is a model that records what was said to it last.
type listener struct{ w *world }

func (l listener) Defaults() (name string, maxTokens int) { return "script", 50 }

func (l listener) Generate(_ context.Context, _ string, req model.Request, _ func(string)) (model.Response, error) {
	l.w.record("heard %s", req.Messages[len(req.Messages)-1].Text)
	return model.Response{Text: "fine", Stop: model.StopEnd}, nil
}

// manager is a model that makes each of the calls at once, then tells what came of them.
type manager struct {
	w     *world
	calls []model.Call
}

func (m manager) Defaults() (name string, maxTokens int) { return "script", 50 }

func (m manager) Generate(_ context.Context, _ string, req model.Request, _ func(string)) (model.Response, error) {
	last := req.Messages[len(req.Messages)-1]
	for i, r := range last.Results {
		m.w.record("%s %s: %s", m.calls[i].Name, m.calls[i].Arguments, r.Text)
	}
	if len(last.Results) > 0 || len(m.calls) == 0 {
		return model.Response{Text: "fine", Stop: model.StopEnd}, nil
	}
	return model.Response{Stop: model.StopTools, Calls: slices.Clone(m.calls)}, nil
}

// Background work is managed by the run, or conversation, that it belongs to. Any other is
// not there, whatever is asked of it, and stays as it is.
func TestTheBackgroundWorkOfAnotherRootIsNotFound(t *testing.T) {
	bubble(t, func(w *world) {
		var calls []model.Call
		for _, c := range [][2]string{
			{"manage_work", `{"action":"list"}`}, {"manage_work", `{"action":"inspect","id":"other"}`}, {"manage_work", `{"action":"cancel","id":"other"}`},
			{"read_subagent", `{"id":"other"}`}, {"send_followup", `{"id":"other","message":"hello"}`}, {"wait_for", `{"ids":["other"]}`},
		} {
			calls = append(calls, model.Call{ID: fmt.Sprint("c", len(calls)), Name: c[0], Arguments: json.RawMessage(c[1])})
		}
		w.must(harness.Register(w.agents, harness.Agent{Name: "manager", Model: manager{w, calls}, Subagents: []harness.Subagent{{Name: "idle"}}}))
		w.start()
		w.dispatch(request("other", "idle", quietly))
		req := request("r1", "manager", quietly)
		req.Input = raw("go")
		w.dispatch(req)
		w.pass(time.Minute)
		w.want("the run", w.run("r1").Status, subagent.Completed)
		want := []string{`manage_work {"action":"list"}: {"work":[]}`}
		for _, c := range calls[1:] {
			want = append(want, fmt.Sprintf("%s %s: no such run: other", c.Name, c.Arguments))
		}
		w.want("told", w.called("manage_work", "read_subagent", "send_followup", "wait_for"), want)
		w.want("the other", w.run("other").Status, subagent.Running)
		w.want("its inbox", w.run("other").Inbox, 0)
	})
}

// Hooks are an agent's own, wherever it stands: those above it hear nothing of what it does,
// and each sees by which agents it was sent off.
func TestHooksBelongToTheirAgentAndSeeItsPath(t *testing.T) {
	bubble(t, func(w *world) {
		hooks := func(of string) harness.Hooks {
			return harness.Hooks{
				Start: func(_ context.Context, v harness.View) error {
					w.record("hooks of %s: %s begins as %s", of, v.Agent, v.Path)
					return nil
				},
				AfterModel: func(_ context.Context, v harness.View, r model.Response) {
					w.record("hooks of %s: %s said %q", of, v.Agent, r.Text)
				},
			}
		}
		w.must(harness.Register(w.agents,
			harness.Agent{Name: "lead", Model: lead{ID: "c", Name: "ask_helper", Arguments: json.RawMessage(`{"task":"help"}`)}, Hooks: hooks("lead"), Subagents: []harness.Subagent{{Name: "helper"}}},
			harness.Agent{Name: "helper", Model: asked{w}, Hooks: hooks("helper")}))
		w.start()
		req := request("r1", "lead", quietly)
		req.Input = raw("go")
		w.dispatch(req)
		w.pass(time.Minute)
		w.want("heard", w.called("hooks"), []string{
			"hooks of lead: lead begins as lead", `hooks of lead: lead said ""`,
			"hooks of helper: helper begins as lead/helper", `hooks of helper: helper said "fine"`,
			`hooks of lead: lead said "fine"`,
		})
	})
}
