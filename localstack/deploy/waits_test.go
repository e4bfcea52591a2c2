package main

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/errand-dev/errand/shared/api"
	"github.com/errand-dev/errand/shared/apiclient"
)

// suspended returns the run when it waits: no process holds it then.
func suspended(t *testing.T, c *apiclient.Client, conversation, id string) (run api.Run) {
	t.Helper()
	await(t, "the run waits", func() bool {
		run = runOf(t, c, conversation, id)
		return run.Status == "waiting"
	})
	return run
}

// resumed returns the run when it has ended. It was executed once until it waited, and once after that.
func resumed(t *testing.T, c *apiclient.Client, conversation, id string) (run api.Run) {
	t.Helper()
	await(t, "the run has ended", func() bool {
		run = runOf(t, c, conversation, id)
		return !run.Live() && run.Finish.State != "open"
	})
	if run.Status != "completed" || run.Attempts != 2 {
		t.Errorf("the run is %+v", run)
	}
	return run
}

func approval(t *testing.T, c *apiclient.Client) {
	const conversation = "approval"
	id := dispatch(t, c, conversation, api.DispatchRequest{Agent: "lab-approve", Input: []byte(`{"title":"Delete 7 files?"}`)})
	if asked := suspended(t, c, conversation, id).Approvals; len(asked) != 1 || asked[0].Title != "Delete 7 files?" {
		t.Fatalf("it asks %+v", asked)
	}
	decide(t, c, conversation, id)
	run := resumed(t, c, conversation, id)
	if output := string(run.Output); !strings.Contains(output, "true") || !strings.Contains(output, note) || run.Finish.State != "delivered" {
		t.Errorf("the run is %+v", run)
	}
}

const note = "but keep those of March"

// decide approves what the run of lab-approve asks.
func decide(t *testing.T, c *apiclient.Client, conversation, id string) {
	t.Helper()
	yes := true
	if err := c.DecideRun(t.Context(), conversation, id, "go-on", api.DecisionRequest{Approved: &yes, Note: note}); err != nil {
		t.Fatal(err)
	}
}

// calledBack has a run wait for somebody outside, and a turn for what that one reports.
func calledBack(t *testing.T, c *apiclient.Client) {
	const conversation = "callback"
	id := dispatch(t, c, conversation, api.DispatchRequest{Agent: "lab-callback", Detached: &api.Detached{}})
	told := suspended(t, c, conversation, id).Milestones
	var at struct{ Path string }
	if len(told) != 1 || json.Unmarshal(told[0].Data, &at) != nil {
		t.Fatalf("it tells %+v", told)
	}
	turn, err := c.Send(t.Context(), conversation, api.TurnRequest{Agent: "lab", Message: "await " + id + " parsed"}, "")
	if err != nil {
		t.Fatal(err)
	}
	read := func() api.Turn {
		if turn, err = c.Turn(t.Context(), conversation, turn.ID); err != nil {
			t.Fatal(err)
		}
		return turn
	}
	await(t, "the turn waits", func() bool { return read().Status == "waiting" })

	outside, token := newClient(t, "", http.DefaultTransport), strings.TrimPrefix(at.Path, callbacks)
	refused(t, "a token that nobody made", outside.Report(t.Context(), token+"x", api.ReportRequest{}), "not-found")
	half := 0.5
	if err := outside.Report(t.Context(), token, api.ReportRequest{Fraction: &half, Milestone: "parsed"}); err != nil {
		t.Fatal(err)
	}
	await(t, "the turn goes on", func() bool { return read().Done() })
	if turn.Status != "completed" || turn.Reply != "run "+id+" has reached parsed" {
		t.Errorf("the turn is %+v", turn)
	}
	if run := runOf(t, c, conversation, id); run.Status != "waiting" || run.Progress == nil || *run.Progress.Fraction != half {
		t.Errorf("after a report the run is %+v", run)
	}
	if err := outside.Callback(t.Context(), token, api.CallbackRequest{Output: []byte(`{"rows":3}`)}); err != nil {
		t.Fatal(err)
	}
	if run := resumed(t, c, conversation, id); string(run.Output) != `{"rows":3}` {
		t.Errorf("its output is %s", run.Output)
	}
}

func joined(t *testing.T, c *apiclient.Client) {
	const conversation = "join"
	id := dispatch(t, c, conversation, api.DispatchRequest{Agent: "lab-join", Input: []byte(`{"children":3,"need":2,"ms":1000}`), Detached: &api.Detached{}})
	if wait := suspended(t, c, conversation, id).WaitingFor; wait == nil || len(wait.Runs) != 3 || wait.Need != 2 {
		t.Errorf("it waits for %+v", wait)
	}
	if output := string(resumed(t, c, conversation, id).Output); strings.Count(output, `"completed"`) < 2 {
		t.Errorf("its output is %s", output)
	}
}

// slept has a run sleep for longer than its function's time-out, which is 10 s in this stage.
func slept(t *testing.T, c *apiclient.Client) {
	const conversation = "nap"
	id := dispatch(t, c, conversation, api.DispatchRequest{Agent: "lab-nap", Input: []byte(`{"ms":12000}`), Detached: &api.Detached{}})
	suspended(t, c, conversation, id)
	resumed(t, c, conversation, id)
}
