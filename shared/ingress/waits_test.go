package ingress_test

import (
	"testing"

	"github.com/errand-dev/errand/shared/api"
)

// say sends a message and returns what the agent has replied.
func (s *site) say(conversation, message string) string {
	s.t.Helper()
	a := s.call("POST", "/v1/conversations/"+conversation+"/turns", message)
	get[api.Turn](s, a, 202)
	for {
		turn := get[api.Turn](s, s.call("GET", a.header.Get("Location"), ""), 200)
		if turn.Done() {
			return turn.Reply + turn.Error
		}
		s.call("GET", "/v1/conversations/"+conversation+"/events?wait_ms=100", "")
	}
}

func TestTheLabsChatWaitsForMilestonesAndRuns(t *testing.T) {
	s := open(t, options{})
	get[api.Run](s, s.call("POST", "/v1/conversations/c/runs",
		`{"agent":"lab-sleep","run_id":"r","input":{"ms":300,"milestones":[{"name":"half","at_ms":150}]},"detached":{}}`), 202)
	get[api.Run](s, s.call("POST", "/v1/conversations/c/runs", `{"agent":"lab-nap","run_id":"n","input":{"ms":200},"detached":{}}`), 202)
	for _, line := range []struct{ message, reply string }{
		{`await r half`, "run r has reached half"},
		{`join r n`, "run r is completed\nrun n is completed"},
		{`await r other`, "the run has ended without this milestone: other of run r, which is completed"},
		{`join none`, "no such run: none"},
	} {
		if got := s.say("c", `{"message":"`+line.message+`"}`); got != line.reply {
			t.Errorf("%s: %q, want %q", line.message, got, line.reply)
		}
	}
	get[api.Run](s, s.call("POST", "/v1/conversations/c/runs", `{"agent":"lab-approve","run_id":"a","detached":{}}`), 202)
	if got, want := s.say("c", `{"message":"await a never 50"}`), "the wait has timed out: no milestone never of run a"; got != want {
		t.Errorf("await: %q, want %q", got, want)
	}
}

func TestALabRunWaitsForSomeOfItsChildren(t *testing.T) {
	s := open(t, options{})
	run := get[api.Run](s, s.call("POST", "/v1/conversations/c/runs", `{"agent":"lab-join","input":{"children":3,"need":1,"ms":400}}`), 202)
	run = s.runUntil(run, func(r api.Run) bool { return r.Status == "waiting" })
	if w := run.WaitingFor; len(w.Runs) != 3 || w.Need != 1 {
		t.Errorf("it waits for %+v", w)
	}
	run = s.runUntil(run, ended)
	var children []struct{ Status string }
	if children = get[[]struct{ Status string }](s, answer{status: 200, body: run.Output}, 200); len(children) != 3 || children[0].Status != "completed" || children[2].Status == "completed" {
		t.Errorf("it heard %s", run.Output)
	}
}
