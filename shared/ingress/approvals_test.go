package ingress_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/api"
)

// careful asks a, then b, and ends with the answer to a.
func careful(ctx context.Context, run *agent.Run) (any, error) {
	first, err := run.Approve(ctx, agent.Question{Name: "a", Title: "A?", Detail: json.RawMessage(`{"files":7}`)}, 0)
	if err != nil {
		return nil, err
	}
	_, err = run.Approve(ctx, agent.Question{Name: "b", Title: "B?"}, 0)
	return first, err
}

// hasty asks late, in vain, then asks on.
func hasty(ctx context.Context, run *agent.Run) (any, error) {
	_, err := run.Approve(ctx, agent.Question{Name: "late", Title: "Late?"}, time.Millisecond)
	if !errors.Is(err, agent.ErrTimedOut) {
		return nil, err
	}
	return run.Approve(ctx, agent.Question{Name: "on", Title: "On?"}, time.Hour)
}

// askingChat asks for each turn whether it may answer.
func askingChat(ctx context.Context, turn *agent.Turn) (string, error) {
	d, err := turn.Approve(ctx, agent.Question{Name: "answer", Title: "May I?"}, time.Hour)
	return fmt.Sprintf("%v %s", d.Approved, d.Note), err
}

func withQuestions(r *agent.Registry) error {
	return errors.Join(r.AddTask("careful", careful), r.AddTask("hasty", hasty), r.AddChat("asking", askingChat))
}

func TestAWaitingRunShowsWhatItAsksAndGoesOnWithTheAnswer(t *testing.T) {
	s := open(t, options{register: withQuestions})
	run := s.waits("c", `{"agent":"careful"}`)
	if diff := cmp.Diff(&api.Wait{Signal: "a"}, run.WaitingFor); diff != "" {
		t.Errorf("waiting_for (-want +got):\n%s", diff)
	}
	if len(run.Approvals) != 1 || run.Approvals[0].ID != "a" || run.Approvals[0].Title != "A?" || decoded(t, run.Approvals[0].Detail) != "map[files:7]" || run.Approvals[0].AskedAt.IsZero() {
		t.Errorf("it asks %+v", run.Approvals)
	}
	listed := get[api.RunPage](s, s.call("GET", "/v1/conversations/c/runs", ""), 200).Runs[0]
	if listed.WaitingFor == nil || listed.WaitingFor.Signal != "a" || listed.Approvals != nil {
		t.Errorf("the list has %+v, %+v", listed.WaitingFor, listed.Approvals)
	}
	path := "/v1/conversations/c/runs/" + run.ID + "/approvals/"
	if a := s.call("POST", path+"a", `{"approved":true,"note":"fine"}`); a.status != 202 || len(a.body) != 0 {
		t.Fatalf("answered %d %s", a.status, a.body)
	}
	run = s.runUntil(run, func(r api.Run) bool { return r.WaitingFor != nil && r.WaitingFor.Signal == "b" })
	if len(run.Approvals) != 1 || run.Approvals[0].ID != "b" {
		t.Errorf("then it asks %+v", run.Approvals)
	}
	get[struct{}](s, s.call("POST", path+"a", `{"note":"fine","approved":true}`), 202)
	s.problem(s.call("POST", path+"a", `{"approved":false}`), 409, "already-answered", "")
	s.problem(s.call("POST", path+"a", `{"approved":true,"note":"other"}`), 409, "already-answered", "")
	get[struct{}](s, s.call("POST", path+"b", `{"approved":false}`), 202)
	run = s.runUntil(run, ended)
	if decoded(t, run.Output) != "map[approved:true note:fine]" || run.WaitingFor != nil || run.Approvals != nil {
		t.Errorf("it ended as %+v", run)
	}
	s.problem(s.call("POST", path+"b", `{"approved":true}`), 409, "run-ended", "")
}

func TestATurnShowsWhatItAsksAndGoesOnWithTheAnswer(t *testing.T) {
	s := open(t, options{register: withQuestions})
	a := s.call("POST", "/v1/conversations/c/turns", `{"message":"go","agent":"asking"}`)
	s.event("c", "approval.requested", "")
	var turn api.Turn
	for deadline := time.Now().Add(20 * time.Second); turn.Status != "waiting"; {
		if turn = get[api.Turn](s, s.call("GET", a.header.Get("Location"), ""), 200); time.Now().After(deadline) {
			t.Fatalf("the turn stays %+v", turn)
		}
	}
	if w := turn.WaitingFor; w == nil || w.Signal != "answer" || w.Until.IsZero() {
		t.Errorf("it waits for %+v", w)
	}
	if len(turn.Approvals) != 1 || turn.Approvals[0].Title != "May I?" || turn.Approvals[0].Until.IsZero() {
		t.Errorf("it asks %+v", turn.Approvals)
	}
	path := a.header.Get("Location") + "/approvals/answer"
	get[struct{}](s, s.call("POST", path, `{"approved":false,"note":"not now"}`), 202)
	s.event("c", "turn.completed", "")
	turn = get[api.Turn](s, s.call("GET", a.header.Get("Location"), ""), 200)
	if turn.Reply != "false not now" || turn.WaitingFor != nil || turn.Approvals != nil {
		t.Errorf("it ended as %+v", turn)
	}
	s.problem(s.call("POST", path, `{"approved":true}`), 409, "run-ended", "")
}

func TestAQuestionWhoseTimeIsOverIsNotShown(t *testing.T) {
	s := open(t, options{register: withQuestions})
	run := s.waits("c", `{"agent":"hasty"}`)
	run = s.runUntil(run, func(r api.Run) bool { return r.WaitingFor != nil && r.WaitingFor.Signal == "on" })
	if len(run.Approvals) != 1 || run.Approvals[0].ID != "on" || run.Approvals[0].Until.IsZero() {
		t.Errorf("it asks %+v", run.Approvals)
	}
}

func TestTheFirstOfManyDecisionsStands(t *testing.T) {
	s := open(t, options{register: withQuestions})
	run := s.waits("c", `{"agent":"careful"}`)
	path := "/v1/conversations/c/runs/" + run.ID + "/approvals/"
	var mu sync.Mutex
	taken := map[bool]int{}
	var all sync.WaitGroup
	for n := range 64 {
		all.Go(func() {
			approved := n%2 == 0
			a := s.call("POST", path+"a", fmt.Sprintf(`{"approved":%v}`, approved))
			if a.status != 202 {
				s.problem(a, 409, "already-answered", "")
				return
			}
			mu.Lock()
			defer mu.Unlock()
			taken[approved]++
		})
	}
	all.Wait()
	// The same answer again is taken, the other one never.
	if len(taken) != 1 || taken[true]+taken[false] != 32 {
		t.Fatalf("taken: %v", taken)
	}
	s.runUntil(run, func(r api.Run) bool { return len(r.Approvals) == 1 && r.Approvals[0].ID == "b" })
	get[struct{}](s, s.call("POST", path+"b", `{"approved":true}`), 202)
	run = s.runUntil(run, ended)
	if want := fmt.Sprintf("map[approved:%v]", taken[true] > 0); decoded(t, run.Output) != want {
		t.Errorf("taken: %v, the run got %s", taken, run.Output)
	}
}

func TestADecisionThatIsNotRightIsRefusedAndChangesNothing(t *testing.T) {
	s := open(t, options{register: withQuestions})
	run := s.waits("c", `{"agent":"careful","run_id":"r"}`)
	before := s.last("c")
	const ask, yes = "/v1/conversations/c/runs/r/approvals/a", `{"approved":true}`
	for name, test := range map[string]struct {
		path, body  string
		headers     []string
		status      int
		code, field string
	}{
		"no decision":                   {ask, `{}`, nil, 400, "invalid-body", "approved"},
		"a decision of null":            {ask, `{"approved":null}`, nil, 400, "invalid-body", "approved"},
		"a decision in words":           {ask, `{"approved":"yes"}`, nil, 400, "invalid-body", "approved"},
		"a typo":                        {ask, `{"aproved":true}`, nil, 400, "unknown-field", "aproved"},
		"a note without end":            {ask, `{"approved":true,"note":"` + strings.Repeat("x", 16<<10+1) + `"}`, nil, 413, "too-large", "note"},
		"no body":                       {ask, ``, []string{"Content-Type", "application/json"}, 400, "invalid-body", ""},
		"a form":                        {ask, `approved=1`, []string{"Content-Type", "", "Content-Type", "text/plain"}, 415, "unsupported-media-type", ""},
		"a query":                       {ask + "?approved=true", yes, nil, 400, "unknown-field", "approved"},
		"a question that was not asked": {"/v1/conversations/c/runs/r/approvals/b", yes, nil, 404, "not-found", ""},
		"a question that is none":       {"/v1/conversations/c/runs/r/approvals/a%20b", yes, nil, 400, "invalid-id", ""},
		"a run that does not exist":     {"/v1/conversations/c/runs/none/approvals/a", yes, nil, 404, "not-found", ""},
		"a turn that does not exist":    {"/v1/conversations/c/turns/none/approvals/a", yes, nil, 404, "not-found", ""},
		"a run that is a turn's name":   {"/v1/conversations/c/turns/r/approvals/a", yes, nil, 404, "not-found", ""},
		"no conversation":               {"/v1/conversations/none/runs/r/approvals/a", yes, nil, 404, "not-found", ""},
		"another tenant":                {ask, yes, []string{"Tenant", "thief"}, 404, "not-found", ""},
		"nobody":                        {ask, yes, []string{"Tenant", "nobody"}, 401, "unauthenticated", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s.problem(s.call("POST", test.path, test.body, test.headers...), test.status, test.code, test.field)
		})
	}
	s.problem(s.call("GET", ask, ""), 405, "method-not-allowed", "")
	if after := s.last("c"); after != before {
		t.Errorf("the log has grown from %d to %d", before, after)
	}
	if run = s.runUntil(run, func(api.Run) bool { return true }); run.Status != "waiting" || len(run.Approvals) != 1 {
		t.Errorf("the run has become %+v", run)
	}
}
