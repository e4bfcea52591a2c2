package ingress_test

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/errand-dev/errand/shared/api"
	"github.com/errand-dev/errand/shared/ledger"
)

func TestATurnIsAcceptedAnsweredAndShown(t *testing.T) {
	s := open(t, options{})
	a := s.call("POST", "/v1/conversations/c/turns", `{"message":"say hello"}`)
	accepted := get[api.Turn](s, a, 202)
	if accepted.Kind != "user" || accepted.Conversation != "c" || accepted.AcceptedAt.IsZero() {
		t.Errorf("accepted %+v", accepted)
	}
	s.event("c", "turn.completed", "")
	turn := get[api.Turn](s, s.call("GET", a.header.Get("Location"), ""), 200)
	if turn.ID != accepted.ID || turn.Status != "completed" || turn.Reply != "hello" || turn.CompletedAt.IsZero() {
		t.Errorf("the turn at Location is %+v", turn)
	}
	messages := get[api.MessagePage](s, s.call("GET", "/v1/conversations/c/messages", ""), 200)
	var told []string
	for _, m := range messages.Messages {
		told = append(told, m.Role+" "+m.Source+" "+m.Text)
	}
	if diff := cmp.Diff([]string{"user user say hello", "assistant agent hello"}, told); diff != "" || messages.Next != "" {
		t.Errorf("next %q, (-want +got):\n%s", messages.Next, diff)
	}
	c := get[api.Conversation](s, s.call("GET", "/v1/conversations/c", ""), 200)
	if c.ID != "c" || c.Agent != "lab" || c.CreatedAt.IsZero() || c.Turns != (api.TurnCounts{}) || c.Runs.Active != 0 {
		t.Errorf("the conversation is %+v", c)
	}
}

func TestATurnRunsWhileItHasItsPlaceAndTheNextOneWaits(t *testing.T) {
	s := open(t, options{})
	a := s.call("POST", "/v1/conversations/c/turns", `{"message":"sleep 60000"}`)
	b := s.call("POST", "/v1/conversations/c/turns", `{"message":"say later"}`)
	deadline := time.Now().Add(10 * time.Second)
	for get[api.Turn](s, s.call("GET", a.header.Get("Location"), ""), 200).Status != "running" {
		if time.Now().After(deadline) {
			t.Fatal("the first turn does not run")
		}
	}
	if next := get[api.Turn](s, s.call("GET", b.header.Get("Location"), ""), 200); next.Status != "queued" {
		t.Errorf("the second turn is %s", next.Status)
	}
	if c := get[api.Conversation](s, s.call("GET", "/v1/conversations/c", ""), 200); c.Turns != (api.TurnCounts{Queued: 1, Running: 1}) {
		t.Errorf("the conversation has %+v", c.Turns)
	}
}

func TestTimesHaveMillisecondsAndAreUTC(t *testing.T) {
	s := open(t, options{idle: true})
	var turn map[string]any
	turn = get[map[string]any](s, s.call("POST", "/v1/conversations/c/turns", `{"message":"m"}`), 202)
	if at, _ := turn["accepted_at"].(string); !regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`).MatchString(at) {
		t.Errorf("accepted_at is %q", at)
	}
	if _, there := turn["completed_at"]; there {
		t.Error("an open turn has completed_at")
	}
}

func TestAnIdempotencyKeyMakesTheSameTurn(t *testing.T) {
	s := open(t, options{idle: true})
	const path, body = "/v1/conversations/c/turns", `{"message":"m","metadata":{"a":"1"}}`
	first := s.call("POST", path, body, "Idempotency-Key", `"key \"1\""`)
	if first.header.Get("Idempotency-Replayed") != "" {
		t.Error("the first is a replay")
	}
	again := s.call("POST", path, body, "Idempotency-Key", `"key \"1\""`)
	if again.header.Get("Idempotency-Replayed") != "true" || !cmp.Equal(get[api.Turn](s, first, 202), get[api.Turn](s, again, 202)) {
		t.Errorf("the second answer is %v %s", again.header, again.body)
	}
	bare := s.call("POST", path, body, "Idempotency-Key", "abc")
	quoted := s.call("POST", path, body, "Idempotency-Key", `"abc"`)
	if !cmp.Equal(get[api.Turn](s, bare, 202), get[api.Turn](s, quoted, 202)) {
		t.Error("the same key is another one in quotes")
	}
	other := s.call("POST", "/v1/conversations/d/turns", body, "Idempotency-Key", "abc")
	if get[api.Turn](s, other, 202).ID == get[api.Turn](s, bare, 202).ID {
		t.Error("two conversations share a turn")
	}
	s.problem(s.call("POST", path, `{"message":"other"}`, "Idempotency-Key", "abc"), 422, "idempotency-key-reused", "")
	if c := get[api.Conversation](s, s.call("GET", "/v1/conversations/c", ""), 200); c.Turns.Queued != 2 {
		t.Errorf("the conversation has %+v", c.Turns)
	}
}

func TestARunIsDispatchedShownAndDelivered(t *testing.T) {
	s := open(t, options{})
	a := s.call("POST", "/v1/conversations/c/runs", `{"agent":"lab-sleep","input":{"ms":150,"progress_every_ms":20,"output":"rested","milestones":[{"name":"half","at_ms":60}]}}`)
	dispatched := get[api.Run](s, a, 202)
	if !dispatched.Detached || dispatched.Status != "queued" || dispatched.DeadlineAt.IsZero() || dispatched.Finish.State != "open" {
		t.Errorf("dispatched %+v", dispatched)
	}
	s.event("c", "turn.completed", dispatched.ID)
	run := get[api.Run](s, s.call("GET", a.header.Get("Location"), ""), 200)
	if run.Status != "completed" || string(run.Output) != `"rested"` || run.Summary == "" || run.Attempts != 1 ||
		run.Finish.State != "delivered" || run.Finish.DeliveredAt.IsZero() || run.GiveUp.State != "open" || run.Progress == nil {
		t.Errorf("the run is %+v", run)
	}
	if len(run.Milestones) != 1 || run.Milestones[0].Name != "half" || run.Milestones[0].Sequence != 0 {
		t.Errorf("its milestones are %+v", run.Milestones)
	}
	messages := get[api.MessagePage](s, s.call("GET", "/v1/conversations/c/messages", ""), 200).Messages
	if len(messages) != 2 || messages[0].Source != "detached-agent-tool" || messages[0].RunID != run.ID {
		t.Errorf("the conversation heard %+v", messages)
	}
	for _, e := range get[api.EventPage](s, s.call("GET", "/v1/conversations/c/runs/"+run.ID+"/events", ""), 200).Events {
		if e.RunID != run.ID {
			t.Errorf("event %d %s is of run %q", e.Seq, e.Type, e.RunID)
		}
	}
}

func TestADispatchWithAKnownIDIsTheStoredRun(t *testing.T) {
	s := open(t, options{idle: true})
	const path = "/v1/conversations/c/runs"
	first := s.call("POST", path, `{"agent":"lab-echo","run_id":"mine","input":{"text":"a"}}`)
	again := s.call("POST", path, `{"agent":"lab-sleep","run_id":"mine","input":{"ms":5}}`)
	if a, b := get[api.Run](s, first, 202), get[api.Run](s, again, 202); a.ID != "mine" || b.Agent != "lab-echo" {
		t.Errorf("first %+v, then %+v", a, b)
	}
	if again.header.Get("Idempotency-Replayed") != "true" || again.header.Get("Location") != "/v1/conversations/c/runs/mine" {
		t.Errorf("the second answer has %v", again.header)
	}
	byKey := s.call("POST", path, `{"agent":"lab-echo","input":{"text":"a"}}`, "Idempotency-Key", "k")
	sameKey := s.call("POST", path, `{"agent":"lab-echo","input": {"text": "a"}}`, "Idempotency-Key", "k")
	if a, b := get[api.Run](s, byKey, 202), get[api.Run](s, sameKey, 202); a.ID != b.ID {
		t.Errorf("one key made runs %s and %s", a.ID, b.ID)
	}
	for name, body := range map[string]string{
		"input":    `{"agent":"lab-echo","input":{"text":"b"}}`,
		"agent":    `{"agent":"lab-sleep","input":{"text":"a"}}`,
		"detached": `{"agent":"lab-echo","input":{"text":"a"},"detached":{}}`,
		"budget":   `{"agent":"lab-echo","input":{"text":"a"},"detached":{"notify":true,"max_budget_ms":5}}`,
	} {
		t.Log("another", name)
		s.problem(s.call("POST", path, body, "Idempotency-Key", "k"), 422, "idempotency-key-reused", "")
	}
	if runs := get[api.RunPage](s, s.call("GET", path, ""), 200).Runs; len(runs) != 2 {
		t.Errorf("there are %d runs", len(runs))
	}
}

func TestDetachedSaysHowTheEndIsTold(t *testing.T) {
	for name, test := range map[string]struct {
		detached string
		messages int
		event    string
	}{
		"absent means a message":                   {``, 2, "turn.completed"},
		"null means a message":                     {`,"detached":null`, 2, "turn.completed"},
		"an empty object is fire and forget":       {`,"detached":{}`, 0, "delivery.delivered"},
		"notify false is fire and forget":          {`,"detached":{"notify":false}`, 0, "delivery.delivered"},
		"notify with a source":                     {`,"detached":{"notify":{"source":"src"}}`, 2, "turn.completed"},
		"a handler wins over a message":            {`,"detached":{"notify":true,"on_finish":"lab-ok"}`, 0, "lab.handler"},
		"milestones as names are narrated":         {`,"detached":{"on_milestones":["m"]}`, 1, "turn.completed"},
		"milestones can be reacted to":             {`,"detached":{"on_milestones":{"names":["m"],"mode":"react"}}`, 2, "turn.completed"},
		"milestones by an object are narrated too": {`,"detached":{"on_milestones":{"names":["m"]}}`, 1, "turn.completed"},
		"no milestones is no milestones":           {`,"detached":{"on_milestones":[],"no_progress_budget_ms":0,"max_budget_ms":60000}`, 0, "delivery.delivered"},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, options{})
			body := `{"agent":"lab-echo","input":{"text":"x","milestones":[{"name":"m","at_ms":0}]}` + test.detached + `}`
			run := get[api.Run](s, s.call("POST", "/v1/conversations/c/runs", body), 202)
			s.event("c", test.event, run.ID)
			s.event("c", "run.ended", run.ID)
			messages := get[api.MessagePage](s, s.call("GET", "/v1/conversations/c/messages", ""), 200).Messages
			if len(messages) != test.messages {
				t.Errorf("the conversation has %+v", messages)
			}
			if strings.Contains(name, "source") && messages[0].Source != "src" {
				t.Errorf("the source is %q", messages[0].Source)
			}
		})
	}
}

func TestRunsAreListedPageByPage(t *testing.T) {
	s := open(t, options{idle: true})
	for _, id := range []string{"b", "a", "c"} {
		get[api.Run](s, s.call("POST", "/v1/conversations/c/runs", `{"agent":"lab-echo","run_id":"`+id+`"}`), 202)
	}
	if c := get[api.Conversation](s, s.call("GET", "/v1/conversations/c", ""), 200); c.Runs.Active != 3 || c.Agent != "" || c.CreatedAt.IsZero() {
		t.Errorf("a conversation of runs alone is %+v", c)
	}
	get[api.Run](s, s.call("POST", "/v1/conversations/c/runs/c/cancel", ""), 200)
	walk := func(query string) (ids []string) {
		for after := ""; ; {
			page := get[api.RunPage](s, s.call("GET", "/v1/conversations/c/runs?limit=1"+query+after, ""), 200)
			for _, r := range page.Runs {
				ids = append(ids, r.ID)
			}
			if page.Next == "" {
				return ids
			}
			after = "&after=" + page.Next
		}
	}
	if diff := cmp.Diff([]string{"a", "b", "c"}, walk("")); diff != "" {
		t.Error(diff)
	}
	if got := walk("&status=active"); len(got) != 2 || got[0] == "c" || got[1] == "c" {
		t.Errorf("active are %v", got)
	}
}

func TestARunIsCancelledWithItsDescendants(t *testing.T) {
	s := open(t, options{})
	run := get[api.Run](s, s.call("POST", "/v1/conversations/c/runs", `{"agent":"lab-sleep","input":{"ms":60000}}`), 202)
	s.event("c", "run.dispatched", run.ID)
	path := "/v1/conversations/c/runs/" + run.ID
	for range 2 {
		cancelled := get[api.Run](s, s.call("POST", path+"/cancel", `{"reason":"not needed"}`), 200)
		if cancelled.Status != "aborted" || cancelled.Reason != "cancelled" || cancelled.Error != "not needed" {
			t.Errorf("cancelled %+v", cancelled)
		}
	}
	s.problem(s.call("POST", path+"/messages", `{"text":"hello?"}`), 409, "run-ended", "")
	s.problem(s.call("POST", path+"/redrive", ""), 409, "nothing-to-redrive", "")
}

func TestALongReasonIsCutBetweenCharacters(t *testing.T) {
	s := open(t, options{idle: true})
	get[api.Run](s, s.call("POST", "/v1/conversations/c/runs", `{"agent":"lab-echo","run_id":"r"}`), 202)
	run := get[api.Run](s, s.call("POST", "/v1/conversations/c/runs/r/cancel", `{"reason":"x`+strings.Repeat("é", 200)+`"}`), 200)
	if len(run.Error) > 200 || strings.TrimRight(run.Error, "é") != "x" {
		t.Errorf("the reason has become %q", run.Error)
	}
}

func TestAFollowUpIsTaken(t *testing.T) {
	s := open(t, options{idle: true})
	get[api.Run](s, s.call("POST", "/v1/conversations/c/runs", `{"agent":"lab-echo","run_id":"r"}`), 202)
	a := s.call("POST", "/v1/conversations/c/runs/r/messages", `{"text":"also this"}`)
	if a.status != 202 || len(a.body) != 0 {
		t.Errorf("answered %d %s", a.status, a.body)
	}
	run, err := s.Ledger.Run(t.Context(), owner("c"), "r")
	if err != nil {
		t.Fatal(err)
	}
	inbox, err := s.Ledger.Inbox(t.Context(), ledger.LifeOf(run), 0, 5)
	if err != nil || len(inbox) != 1 || inbox[0].Text.Inline != "also this" {
		t.Errorf("the inbox is %+v, %v", inbox, err)
	}
}

func TestAClearedConversationIsGone(t *testing.T) {
	s := open(t, options{})
	run := get[api.Run](s, s.call("POST", "/v1/conversations/c/runs", `{"agent":"lab-sleep","input":{"ms":60000}}`), 202)
	s.call("POST", "/v1/conversations/c/turns", `{"message":"say hello"}`)
	s.event("c", "turn.completed", "")
	if a := s.call("DELETE", "/v1/conversations/c", ""); a.status != 202 {
		t.Fatalf("answered %d %s", a.status, a.body)
	}
	for _, path := range []string{"", "/messages", "/events", "/runs", "/runs?status=active", "/runs/" + run.ID} {
		s.problem(s.call("GET", "/v1/conversations/c"+path, ""), 404, "not-found", "")
	}
	s.problem(s.call("DELETE", "/v1/conversations/c", ""), 404, "not-found", "")
}

func TestWhyTellsTheRunsLife(t *testing.T) {
	s := open(t, options{})
	run := get[api.Run](s, s.call("POST", "/v1/conversations/c/runs", `{"agent":"lab-fail","input":{"message":"boom"},"detached":{"on_finish":"lab-ok"}}`), 202)
	s.event("c", "delivery.delivered", run.ID)
	why := get[api.Why](s, s.call("GET", "/v1/conversations/c/runs/"+run.ID+"/why", ""), 200)
	var what []string
	for i, m := range why.Timeline {
		if what = append(what, m.What); i > 0 && m.At.Before(why.Timeline[i-1].At.Time) {
			t.Errorf("%v goes back in time", m)
		}
	}
	for _, want := range []string{"run.dispatched", "run.started", "run.ended", "delivery.claimed", "delivery.delivered"} {
		if !strings.Contains(strings.Join(what, " "), want) {
			t.Errorf("the timeline %v lacks %s", what, want)
		}
	}
	if !strings.HasPrefix(why.Now, "The run is error and its end was delivered at ") {
		t.Errorf("now: %s", why.Now)
	}
}

func TestHealthAndDocumentNeedNoCredential(t *testing.T) {
	s := open(t, options{idle: true})
	if h := get[api.Health](s, s.call("GET", "/healthz", "", "Tenant", "nobody"), 200); h != (api.Health{Status: "ok", Version: "test"}) {
		t.Errorf("health is %+v", h)
	}
	document := get[map[string]any](s, s.call("GET", "/v1/openapi.json", "", "Tenant", "nobody"), 200)
	if document["openapi"] != "3.1.0" {
		t.Errorf("the document says %v", document["openapi"])
	}
}

func TestEveryProblemIsExplained(t *testing.T) {
	s := open(t, options{idle: true})
	a := s.call("GET", "/v1/conversations/none", "")
	var p api.Problem
	if err := json.Unmarshal(a.body, &p); err != nil {
		t.Fatal(err)
	}
	e := get[api.Explanation](s, s.call("GET", p.Type, ""), 200)
	if e.Code != "not-found" || e.Status != http.StatusNotFound || e.Title != p.Title || e.Explanation == "" {
		t.Errorf("%s is explained as %+v", p.Type, e)
	}
	s.problem(s.call("GET", "/problems/nonsense", ""), 404, "not-found", "")
}
