package ingress_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/errand-dev/errand/shared/api"
	"github.com/errand-dev/errand/shared/subagent"
)

func TestAnAuditNamesWhatIsWrongAndARepairSendsTheTick(t *testing.T) {
	s := open(t, options{idle: true})
	s.problem(s.call("GET", "/v1/conversations/c/audit", ""), 404, "not-found", "")
	s.problem(s.call("POST", "/v1/conversations/c/repair", ""), 404, "not-found", "")
	get[api.Schedule](s, s.call("POST", "/v1/conversations/later/schedules", `{"expression":"rate(1 day)","prompt":"p"}`), 201)
	get[api.Audit](s, s.call("GET", "/v1/conversations/later/audit", ""), 200)
	get[api.Repair](s, s.call("POST", "/v1/conversations/later/repair", ""), 202)
	run := get[api.Run](s, s.call("POST", "/v1/conversations/c/runs", `{"agent":"lab-echo","input":{"text":"a"}}`), 202)
	if a := get[api.Audit](s, s.call("GET", "/v1/conversations/c/audit", ""), 200); len(a.Findings) != 0 || a.Runs != 1 || a.Conversation != "c" {
		t.Errorf("a run just dispatched: %+v", a)
	}
	s.problem(s.call("GET", "/v1/conversations/c/audit", "", "Tenant", "other"), 404, "not-found", "")

	// Nobody works on it, and for all that the server can see this is an hour later.
	s.Ledger.Now = func() time.Time { return time.Now().Add(time.Hour) }
	want := []api.Finding{{Kind: "overdue-backbone", Remedy: "repair"}, {Kind: "not-started", RunID: run.ID, Remedy: "repair"}}
	got := get[api.Audit](s, s.call("GET", "/v1/conversations/c/audit", ""), 200).Findings
	for i := range got {
		if got[i].Problem == "" {
			t.Errorf("finding %d says nothing", i)
		}
		got[i].Problem = ""
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	backbone, err := s.Ledger.Backbone(t.Context(), subagent.Owner{Tenant: "default", Conversation: "c"})
	if err != nil {
		t.Fatal(err)
	}
	if sent := get[api.Repair](s, s.call("POST", "/v1/conversations/c/repair", ""), 202); sent.Tick != backbone.Epoch || sent.TurnID != "" {
		t.Errorf("sent %+v; the epoch is %d", sent, backbone.Epoch)
	}
}
