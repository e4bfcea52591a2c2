package ingress_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/api"
	"github.com/errand-dev/errand/shared/ingress"
)

func control(agent string) string { return "/v1/agents/" + agent + "/control" }

func (s *site) control(agent, body string) api.AgentControl {
	s.t.Helper()
	return get[api.AgentControl](s, s.call("PUT", control(agent), body), 200)
}

func TestAnOperatorDisablesAnAgentAndEnablesItAgain(t *testing.T) {
	s := open(t, options{idle: true})
	if got := get[api.AgentControl](s, s.call("GET", control("lab"), ""), 200); got != (api.AgentControl{Agent: "lab", Enabled: true, Maintenance: "off"}) {
		t.Errorf("at first it is %+v", got)
	}
	const turns, runs = "/v1/conversations/c/turns", "/v1/conversations/c/runs"
	accepted := s.call("POST", turns, `{"message":"m"}`, "Idempotency-Key", "k")
	get[api.Run](s, s.call("POST", runs, `{"agent":"lab-echo","run_id":"r"}`), 202)
	s.control("lab", `{"enabled":false,"maintenance":"off"}`)
	s.control("lab-echo", `{"enabled":false,"maintenance":"off"}`)
	s.problem(s.call("POST", turns, `{"message":"m"}`), 409, "agent-disabled", "agent")
	s.problem(s.call("POST", "/v1/conversations/new/turns", `{"message":"m","agent":"lab"}`), 409, "agent-disabled", "agent")
	s.problem(s.call("POST", runs, `{"agent":"lab-echo"}`), 409, "agent-disabled", "agent")
	// What was accepted before is answered as before.
	again := s.call("POST", turns, `{"message":"m"}`, "Idempotency-Key", "k")
	if get[api.Turn](s, again, 202).ID != get[api.Turn](s, accepted, 202).ID || again.header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("the same turn again is %s", again.body)
	}
	if run := get[api.Run](s, s.call("POST", runs, `{"agent":"lab-echo","run_id":"r"}`), 202); run.ID != "r" {
		t.Errorf("the same run again is %+v", run)
	}
	get[api.Run](s, s.call("POST", runs, `{"agent":"lab-sleep"}`), 202) // another agent goes on
	if c := get[api.Conversation](s, s.call("GET", "/v1/conversations/c", ""), 200); c.Turns.Queued != 1 || c.Runs.Active != 2 {
		t.Errorf("the refused left something behind: %+v", c)
	}
	s.control("lab", `{"enabled":true,"maintenance":"off"}`)
	get[api.Turn](s, s.call("POST", turns, `{"message":"m"}`), 202)
}

// The refusal is told in the conversation: trying the turn again would not help.
func TestAConversationIsToldThatAnAgentIsDisabledOrInMaintenance(t *testing.T) {
	s := open(t, options{})
	for body, want := range map[string]string{
		`{"enabled":false,"maintenance":"off"}`:   "not dispatched: the agent is disabled",
		`{"enabled":true,"maintenance":"reject"}`: "not dispatched: the agent is in maintenance",
	} {
		s.control("lab-echo", body)
		if said := s.say("c", `{"message":"dispatch lab-echo {}"}`); !strings.HasPrefix(said, want) {
			t.Errorf("with %s it says %q, want %q", body, said, want)
		}
	}
}

func TestMaintenanceRefusesOrAcceptsByChoice(t *testing.T) {
	s := open(t, options{idle: true})
	s.control("lab", `{"enabled":true,"maintenance":"reject"}`)
	s.control("lab-echo", `{"enabled":true,"maintenance":"reject"}`)
	for _, a := range []answer{
		s.call("POST", "/v1/conversations/c/turns", `{"message":"m"}`),
		s.call("POST", "/v1/conversations/c/runs", `{"agent":"lab-echo"}`),
	} {
		s.problem(a, 503, "in-maintenance", "agent")
		if a.header.Get("Retry-After") != "60" {
			t.Errorf("Retry-After is %q", a.header.Get("Retry-After"))
		}
	}
	s.control("lab", `{"enabled":true,"maintenance":"accept"}`)
	get[api.Turn](s, s.call("POST", "/v1/conversations/c/turns", `{"message":"m"}`), 202)
}

func TestTheControlOfAnAgentIsCheckedAndForOperators(t *testing.T) {
	s := open(t, options{idle: true})
	for body, field := range map[string]string{
		`{"enabled":true}`: "maintenance", `{"maintenance":"off"}`: "enabled", `{"enabled":true,"maintenance":"on"}`: "maintenance",
		`{"enabled":"no","maintenance":"off"}`: "enabled",
	} {
		s.problem(s.call("PUT", control("lab"), body), 400, "invalid-body", field)
	}
	s.problem(s.call("PUT", control("lab"), `{"enabled":true,"maintenance":"off","why":"x"}`), 400, "unknown-field", "why")
	s.problem(s.call("GET", control("nobody"), ""), 404, "not-found", "")
	// An agent that is both, of conversations and of background runs, is named once.
	if err := s.Service.Agents.AddTask("lab", func(context.Context, *agent.Run) (any, error) { return nil, nil }); err != nil {
		t.Fatal(err)
	}
	if body := s.call("GET", control("nobody"), "").body; !strings.Contains(string(body), "there are: lab, lab-") {
		t.Errorf("the agents there are: %s", body)
	}
	s.problem(s.call("GET", control("lab"), "", "Tenant", "nobody"), 401, "unauthenticated", "")
	s.problem(s.call("POST", control("lab"), `{}`), 405, "method-not-allowed", "")

	h := ingress.NewHandler(s.Service, ingress.HandlerOptions{Operator: func(r *http.Request) bool { return r.Header.Get("Operator") == "yes" }})
	for operator, want := range map[string]int{"": 403, "yes": 200} {
		r := httptest.NewRequestWithContext(t.Context(), "PUT", control("lab"), strings.NewReader(`{"enabled":true,"maintenance":"off"}`))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Operator", operator)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != want || want == 403 && !strings.Contains(w.Body.String(), "operator-only") {
			t.Errorf("operator %q: %d %s", operator, w.Code, w.Body)
		}
	}
	s.Service.Controls = nil
	s.problem(s.call("GET", control("lab"), ""), 409, "switched-off", "")
}
