package ingress_test

import (
	"testing"

	"github.com/errand-dev/errand/shared/api"
)

func TestARunThatHasEndedIsReplayed(t *testing.T) {
	s := open(t, options{})
	const path = "/v1/conversations/c/runs"
	get[api.Run](s, s.call("POST", path, `{"agent":"lab-echo","run_id":"r","input":{"text":"a"}}`), 202)
	s.event("c", "delivery.delivered", "r")
	first := s.call("POST", path+"/r/replay", "", "Idempotency-Key", "k")
	run := get[api.Run](s, first, 202)
	if run.ReplayOf != "r" || run.Agent != "lab-echo" || run.ID == "r" || first.header.Get("Location") != path+"/"+run.ID {
		t.Errorf("replayed %+v at %s", run, first.header.Get("Location"))
	}
	s.event("c", "delivery.delivered", run.ID)
	again := s.call("POST", path+"/r/replay", "", "Idempotency-Key", "k")
	if get[api.Run](s, again, 202).ID != run.ID || again.header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("the same key made %s", again.body)
	}
	if other := get[api.Run](s, s.call("POST", path+"/r/replay", ""), 202); other.ID == run.ID {
		t.Error("without a key it is the same run")
	}
	if shown := get[api.Run](s, s.call("GET", path+"/"+run.ID, ""), 200); shown.ReplayOf != "r" || string(shown.Output) != `{"text":"a"}` {
		t.Errorf("shown %+v", shown)
	}
	// A key is for one thing.
	s.problem(s.call("POST", path+"/"+run.ID+"/replay", "", "Idempotency-Key", "k"), 422, "idempotency-key-reused", "")
	s.problem(s.call("POST", path, `{"agent":"lab-echo","input":{"text":"a"}}`, "Idempotency-Key", "k"), 422, "idempotency-key-reused", "")
}

func TestAReplayThatIsNotRightIsRefused(t *testing.T) {
	s := open(t, options{idle: true})
	const path = "/v1/conversations/c/runs"
	get[api.Run](s, s.call("POST", path, `{"agent":"lab-echo","run_id":"r"}`), 202)
	s.problem(s.call("POST", path+"/r/replay", ""), 409, "run-not-ended", "")
	s.problem(s.call("POST", path+"/none/replay", ""), 404, "not-found", "")
	s.problem(s.call("POST", path+"/r/replay", "", "Tenant", "thief"), 404, "not-found", "")
	if runs := get[api.RunPage](s, s.call("GET", path, ""), 200).Runs; len(runs) != 1 {
		t.Errorf("there are %d runs", len(runs))
	}
}
