package ingress_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/errand-dev/errand/shared/api"
	"github.com/errand-dev/errand/shared/subagent"
)

func owner(conversation string) subagent.Owner {
	return subagent.Owner{Tenant: "default", Conversation: conversation}
}

func TestARequestThatIsNotRightIsRefusedAndChangesNothing(t *testing.T) {
	s := open(t, options{idle: true})
	get[api.Run](s, s.call("POST", "/v1/conversations/c/runs", `{"agent":"lab-echo","run_id":"r"}`), 202)
	before := s.Ledger.Tail(owner("c"))
	const c = "/v1/conversations/c"
	for name, test := range map[string]struct {
		method, path, body string
		headers            []string
		status             int
		code, field        string
	}{
		"a turn without a message":          {"POST", c + "/turns", `{}`, nil, 400, "invalid-body", "message"},
		"a turn with a blank message":       {"POST", c + "/turns", `{"message":" \n"}`, nil, 400, "invalid-body", "message"},
		"a turn whose message is a number":  {"POST", c + "/turns", `{"message":1}`, nil, 400, "invalid-body", "message"},
		"a turn with an unknown field":      {"POST", c + "/turns", `{"message":"m","agnet":"lab"}`, nil, 400, "unknown-field", "agnet"},
		"a field in another case":           {"POST", c + "/turns", `{"Message":"m"}`, nil, 400, "unknown-field", "Message"},
		"a field that comes twice":          {"POST", c + "/turns", `{"message":"m","message":"n"}`, nil, 400, "invalid-body", "message"},
		"metadata that are no texts":        {"POST", c + "/turns", `{"message":"m","metadata":{"a":1}}`, nil, 400, "invalid-body", "metadata"},
		"metadata without end":              {"POST", c + "/turns", `{"message":"m","metadata":{"a":"` + strings.Repeat("x", 17<<10) + `"}}`, nil, 413, "too-large", "metadata"},
		"an unknown agent":                  {"POST", c + "/turns", `{"message":"m","agent":"nobody"}`, nil, 422, "unknown-agent", "agent"},
		"a task as the agent of a turn":     {"POST", c + "/turns", `{"message":"m","agent":"lab-echo"}`, nil, 422, "unknown-agent", "agent"},
		"a message over 256 KB":             {"POST", c + "/turns", `{"message":"` + strings.Repeat("x", 256<<10+1) + `"}`, nil, 413, "too-large", "message"},
		"a body over 2 MB":                  {"POST", c + "/turns", `{"message":"` + strings.Repeat("x", 3<<20) + `"}`, nil, 413, "too-large", ""},
		"no body":                           {"POST", c + "/turns", ``, []string{"Content-Type", "application/json"}, 400, "invalid-body", ""},
		"a body that is not UTF-8":          {"POST", c + "/turns", "{\"message\":\"a\xff\"}", nil, 400, "invalid-body", ""},
		"broken JSON":                       {"POST", c + "/turns", `{"message":`, nil, 400, "invalid-body", ""},
		"JSON that is no object":            {"POST", c + "/turns", `["m"]`, nil, 400, "invalid-body", ""},
		"the JSON null":                     {"POST", c + "/turns", `null`, nil, 400, "invalid-body", ""},
		"two JSON values":                   {"POST", c + "/turns", `{"message":"m"} {}`, nil, 400, "invalid-body", ""},
		"JSON nested without end":           {"POST", c + "/runs", `{"agent":"lab-echo","input":` + strings.Repeat("[", 100_000) + `}`, nil, 400, "invalid-body", ""},
		"a form instead of JSON":            {"POST", c + "/turns", `{"message":"m"}`, []string{"Content-Type", "", "Content-Type", "application/x-www-form-urlencoded"}, 415, "unsupported-media-type", ""},
		"a body of no type":                 {"POST", c + "/turns", `{"message":"m"}`, []string{"Content-Type", ""}, 415, "unsupported-media-type", ""},
		"an empty key":                      {"POST", c + "/turns", `{"message":"m"}`, []string{"Idempotency-Key", `""`}, 400, "invalid-idempotency-key", ""},
		"a key that is too long":            {"POST", c + "/turns", `{"message":"m"}`, []string{"Idempotency-Key", strings.Repeat("k", 256)}, 400, "invalid-idempotency-key", ""},
		"a key with one quote":              {"POST", c + "/turns", `{"message":"m"}`, []string{"Idempotency-Key", `"k`}, 400, "invalid-idempotency-key", ""},
		"a key that ends in its escape":     {"POST", c + "/turns", `{"message":"m"}`, []string{"Idempotency-Key", `"k\"`}, 400, "invalid-idempotency-key", ""},
		"a key beyond ASCII":                {"POST", c + "/turns", `{"message":"m"}`, []string{"Idempotency-Key", "schlüssel"}, 400, "invalid-idempotency-key", ""},
		"two keys":                          {"POST", c + "/turns", `{"message":"m"}`, []string{"Idempotency-Key", "a", "Idempotency-Key", "b"}, 400, "invalid-idempotency-key", ""},
		"a run without an agent":            {"POST", c + "/runs", `{}`, nil, 400, "invalid-body", "agent"},
		"a run of an unknown agent":         {"POST", c + "/runs", `{"agent":"lab"}`, nil, 422, "unknown-agent", "agent"},
		"a run with an id that is none":     {"POST", c + "/runs", `{"agent":"lab-echo","run_id":"a/b"}`, nil, 400, "invalid-id", "run_id"},
		"a run with dots as its id":         {"POST", c + "/runs", `{"agent":"lab-echo","run_id":".."}`, nil, 400, "invalid-id", "run_id"},
		"a run with an unknown handler":     {"POST", c + "/runs", `{"agent":"lab-echo","detached":{"on_finish":"nothing"}}`, nil, 422, "unknown-handler", "detached.on_finish"},
		"a run with no budget":              {"POST", c + "/runs", `{"agent":"lab-echo","detached":{"max_budget_ms":0}}`, nil, 422, "invalid-budget", "detached"},
		"a run with a negative budget":      {"POST", c + "/runs", `{"agent":"lab-echo","detached":{"no_progress_budget_ms":-1}}`, nil, 422, "invalid-budget", "detached"},
		"a run with an absurd budget":       {"POST", c + "/runs", `{"agent":"lab-echo","detached":{"max_budget_ms":9223372036854775807}}`, nil, 422, "invalid-budget", "detached"},
		"a run with a budget in words":      {"POST", c + "/runs", `{"agent":"lab-echo","detached":{"max_budget_ms":"1h"}}`, nil, 400, "invalid-body", "detached.max_budget_ms"},
		"a run with half a millisecond":     {"POST", c + "/runs", `{"agent":"lab-echo","detached":{"max_budget_ms":1.5}}`, nil, 400, "invalid-body", "detached.max_budget_ms"},
		"a typo in detached":                {"POST", c + "/runs", `{"agent":"lab-echo","detached":{"on_finsh":"lab-ok"}}`, nil, 400, "unknown-field", "detached.on_finsh"},
		"a typo in notify":                  {"POST", c + "/runs", `{"agent":"lab-echo","detached":{"notify":{"sorce":"x"}}}`, nil, 400, "unknown-field", "detached.notify.sorce"},
		"notify as a text":                  {"POST", c + "/runs", `{"agent":"lab-echo","detached":{"notify":"yes"}}`, nil, 400, "invalid-body", "detached.notify"},
		"detached as true":                  {"POST", c + "/runs", `{"agent":"lab-echo","detached":true}`, nil, 400, "invalid-body", "detached"},
		"milestones as a text":              {"POST", c + "/runs", `{"agent":"lab-echo","detached":{"on_milestones":"m"}}`, nil, 400, "invalid-body", "detached.on_milestones"},
		"milestones in an unknown mode":     {"POST", c + "/runs", `{"agent":"lab-echo","detached":{"on_milestones":{"names":["m"],"mode":"shout"}}}`, nil, 400, "invalid-body", "detached"},
		"an input over 1 MB":                {"POST", c + "/runs", `{"agent":"lab-echo","input":"` + strings.Repeat("x", 1<<20) + `"}`, nil, 413, "too-large", "input"},
		"a follow-up without text":          {"POST", c + "/runs/r/messages", `{}`, nil, 400, "invalid-body", "text"},
		"a follow-up over 256 KB":           {"POST", c + "/runs/r/messages", `{"text":"` + strings.Repeat("x", 256<<10+1) + `"}`, nil, 413, "too-large", "text"},
		"a redrive of an unknown slot":      {"POST", c + "/runs/r/redrive", `{"slot":"end"}`, nil, 400, "invalid-body", "slot"},
		"a redrive of what is not dead":     {"POST", c + "/runs/r/redrive", `{"slot":"give_up"}`, nil, 409, "nothing-to-redrive", ""},
		"a cancel with an unknown field":    {"POST", c + "/runs/r/cancel", `{"because":"x"}`, nil, 400, "unknown-field", "because"},
		"a limit of nothing":                {"GET", c + "/messages?limit=0", "", nil, 400, "invalid-parameter", "limit"},
		"a limit beyond the largest":        {"GET", c + "/events?limit=501", "", nil, 400, "invalid-parameter", "limit"},
		"a limit in words":                  {"GET", c + "/runs?limit=ten", "", nil, 400, "invalid-parameter", "limit"},
		"a wait beyond the longest":         {"GET", c + "/events?wait_ms=25001", "", nil, 400, "invalid-parameter", "wait_ms"},
		"a negative wait":                   {"GET", c + "/events?wait_ms=-1", "", nil, 400, "invalid-parameter", "wait_ms"},
		"an after below zero":               {"GET", c + "/events?after=-1", "", nil, 400, "invalid-parameter", "after"},
		"an after beyond all numbers":       {"GET", c + "/messages?after=99999999999999999999", "", nil, 400, "invalid-parameter", "after"},
		"an after that comes twice":         {"GET", c + "/messages?after=1&after=2", "", nil, 400, "invalid-parameter", "after"},
		"a typo in the query":               {"GET", c + "/events?wait=5", "", nil, 400, "unknown-field", "wait"},
		"a query that is broken":            {"GET", c + "/events?after=%zz", "", nil, 400, "invalid-parameter", ""},
		"a status that is none":             {"GET", c + "/runs?status=dead", "", nil, 400, "invalid-parameter", "status"},
		"a cursor of somebody's own":        {"GET", c + "/runs?status=active&after=x", "", nil, 400, "invalid-parameter", "after"},
		"another cursor of somebody's own":  {"GET", c + "/runs?after=a%2Fb", "", nil, 400, "invalid-parameter", "after"},
		"a Last-Event-ID that is no number": {"GET", c + "/events", "", []string{"Last-Event-ID", "x"}, 400, "invalid-parameter", "Last-Event-ID"},
		"a turn that does not exist":        {"GET", c + "/turns/t", "", nil, 404, "not-found", ""},
		"a run that does not exist":         {"GET", c + "/runs/none", "", nil, 404, "not-found", ""},
		"a cancel of no run":                {"POST", c + "/runs/none/cancel", "", nil, 404, "not-found", ""},
		"a follow-up to no run":             {"POST", c + "/runs/none/messages", `{"text":"x"}`, nil, 404, "not-found", ""},
		"a redrive of no run":               {"POST", c + "/runs/none/redrive", "", nil, 404, "not-found", ""},
		"the events of no run":              {"GET", c + "/runs/none/events?wait_ms=25000", "", nil, 404, "not-found", ""},
		"the story of no run":               {"GET", c + "/runs/none/why", "", nil, 404, "not-found", ""},
		"no conversation":                   {"GET", "/v1/conversations/none", "", nil, 404, "not-found", ""},
		"the messages of no conversation":   {"GET", "/v1/conversations/none/messages", "", nil, 404, "not-found", ""},
		"the events of no conversation":     {"GET", "/v1/conversations/none/events?wait_ms=25000", "", nil, 404, "not-found", ""},
		"the runs of no conversation":       {"GET", "/v1/conversations/none/runs", "", nil, 404, "not-found", ""},
		"a clearing of no conversation":     {"DELETE", "/v1/conversations/none", "", nil, 404, "not-found", ""},
		"nobody's turn":                     {"POST", c + "/turns", `{"message":"m"}`, []string{"Tenant", "nobody"}, 401, "unauthenticated", ""},
		"a tenant that is no id":            {"GET", c, "", []string{"Tenant", "auth0|1"}, 401, "unauthenticated", ""},
		"a method that a path has not":      {"PUT", c + "/turns", `{}`, nil, 405, "method-not-allowed", ""},
		"a path that there is not":          {"GET", "/v2/conversations", "", nil, 404, "not-found", ""},
		"a path with a slash at its end":    {"GET", c + "/", "", nil, 404, "not-found", ""},
		"a path with two slashes":           {"GET", "/v1//conversations/c", "", nil, 404, "not-found", ""},
		"a path that climbs":                {"GET", "/v1/conversations/../../healthz", "", nil, 404, "not-found", ""},
		"a path that climbs in disguise":    {"GET", "/v1/conversations/%2e%2e/runs", "", nil, 400, "invalid-id", ""},
		"an id that climbs in disguise":     {"GET", "/v1/conversations/..%2fx/runs", "", nil, 400, "invalid-id", ""},
		"schedules of no conversation":      {"GET", "/v1/schedules", "", nil, 404, "not-found", ""},
		"a problem with a query":            {"GET", "/problems/not-found?x=1", "", nil, 400, "unknown-field", "x"},
		"a health check with a query":       {"GET", "/healthz?x=1", "", nil, 400, "unknown-field", "x"},
		"the document with a broken query":  {"GET", "/v1/openapi.json?%zz", "", nil, 400, "invalid-parameter", ""},
	} {
		t.Run(name, func(t *testing.T) {
			a := s.call(test.method, test.path, test.body, test.headers...)
			s.problem(a, test.status, test.code, test.field)
			if test.status == 405 && a.header.Get("Allow") != "POST" {
				t.Errorf("Allow is %q", a.header.Get("Allow"))
			}
		})
	}
	if after := s.Ledger.Tail(owner("c")); after != before {
		t.Errorf("the log has grown from %d to %d", before, after)
	}
	if c := get[api.Conversation](s, s.call("GET", c, ""), 200); c.Turns.Queued != 0 || c.Runs.Active != 1 {
		t.Errorf("the conversation has become %+v", c)
	}
}

func TestAnIDWithABadCharacterIsRefusedEverywhere(t *testing.T) {
	s := open(t, options{idle: true})
	for b := range 256 {
		c := byte(b)
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("._:-", c) >= 0 {
			continue
		}
		id := fmt.Sprintf("a%%%02Xb", c)
		for _, path := range []string{"/v1/conversations/" + id, "/v1/conversations/c/turns/" + id, "/v1/conversations/c/runs/" + id, "/v1/conversations/c/runs/" + id + "/why"} {
			s.problem(s.call("GET", path, ""), 400, "invalid-id", "")
		}
	}
	s.problem(s.call("GET", "/v1/conversations/"+strings.Repeat("a", 129), ""), 400, "invalid-id", "")
	s.problem(s.call("GET", "/v1/conversations/"+strings.Repeat("a", 128), ""), 404, "not-found", "")
}

func TestAnotherTenantsThingsDoNotExist(t *testing.T) {
	s := open(t, options{idle: true})
	turn := get[api.Turn](s, s.call("POST", "/v1/conversations/c/turns", `{"message":"mine"}`, "Idempotency-Key", "k"), 202)
	get[api.Run](s, s.call("POST", "/v1/conversations/c/runs", `{"agent":"lab-echo","run_id":"r"}`), 202)
	for _, attempt := range []struct{ method, path, body string }{
		{"GET", "", ""}, {"GET", "/messages", ""}, {"GET", "/events", ""}, {"GET", "/events?wait_ms=25000", ""}, {"GET", "/runs", ""},
		{"GET", "/turns/" + turn.ID, ""}, {"GET", "/runs/r", ""}, {"GET", "/runs/r/why", ""}, {"GET", "/runs/r/events", ""},
		{"POST", "/runs/r/cancel", ""}, {"POST", "/runs/r/messages", `{"text":"x"}`}, {"POST", "/runs/r/redrive", ""}, {"DELETE", "", ""},
	} {
		a := s.call(attempt.method, "/v1/conversations/c"+attempt.path, attempt.body, "Tenant", "thief")
		s.problem(a, 404, "not-found", "")
	}
	// The same names in another tenant are other things.
	theirs := get[api.Turn](s, s.call("POST", "/v1/conversations/c/turns", `{"message":"theirs"}`, "Idempotency-Key", "k", "Tenant", "thief"), 202)
	if theirs.ID == turn.ID {
		t.Error("two tenants share a turn")
	}
	if c := get[api.Conversation](s, s.call("GET", "/v1/conversations/c", ""), 200); c.Turns.Queued != 1 || c.Runs.Active != 1 {
		t.Errorf("the conversation has become %+v", c)
	}
}

func TestTheCapIsAProblemAndLeavesNothing(t *testing.T) {
	s := open(t, options{idle: true, cap: 1})
	const path = "/v1/conversations/c/runs"
	get[api.Run](s, s.call("POST", path, `{"agent":"lab-echo","run_id":"a"}`), 202)
	a := s.call("POST", path, `{"agent":"lab-echo","run_id":"b"}`)
	s.problem(a, 429, "concurrency-limit", "")
	if a.header.Get("Retry-After") == "" {
		t.Error("it does not say when to try again")
	}
	s.problem(s.call("GET", path+"/b", ""), 404, "not-found", "")
	get[api.Run](s, s.call("POST", path+"/a/cancel", ""), 200)
	get[api.Run](s, s.call("POST", path, `{"agent":"lab-echo","run_id":"b"}`), 202)
}

func TestTheFirstTurnFixesTheAgent(t *testing.T) {
	s := open(t, options{})
	get[api.Turn](s, s.call("POST", "/v1/conversations/c/turns", `{"message":"say x","agent":"lab"}`), 202)
	s.event("c", "turn.completed", "")
	if err := s.Service.Agents.AddChat("other", nil); err != nil {
		t.Fatal(err)
	}
	s.problem(s.call("POST", "/v1/conversations/c/turns", `{"message":"m","agent":"other"}`), 409, "agent-fixed", "agent")
}

func TestAStoreThatFailsIsToldWithoutItsText(t *testing.T) {
	s := open(t, options{idle: true})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	a := s.call("GET", "/v1/conversations/c", "")
	s.problem(a, http.StatusServiceUnavailable, "store-unavailable", "")
	p := get[api.Problem](s, a, http.StatusServiceUnavailable)
	if strings.Contains(string(a.body), "closed") || p.RequestID == "" {
		t.Errorf("answered %s", a.body)
	}
	if !strings.Contains(s.log.String(), p.RequestID) || strings.Count(s.log.String(), "request failed") != 1 {
		t.Errorf("the log has %s", s.log)
	}
}
