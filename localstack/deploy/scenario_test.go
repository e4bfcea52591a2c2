package main

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/errand-dev/errand/shared/api"
	"github.com/errand-dev/errand/shared/apiclient"
	"github.com/errand-dev/errand/shared/awsclient"
)

// TestTheDeployedStack deploys once and lets every scenario work on the same stack, side by side.
// Whatever they did, nothing may be left behind that runs or waits.
func TestTheDeployedStack(t *testing.T) {
	bringUp(t)
	clients := services(t)
	if deployed.stack.name != "aws" {
		reportDeviations(t, clients)
	}
	fireSchedules(t, clients)
	t.Run("scenarios", func(t *testing.T) {
		for _, s := range []struct {
			name string
			run  func(*testing.T, *apiclient.Client)
		}{
			{"nobody gets in without a credential", withoutCredential},
			{"a turn dispatches a run and hears of its end", turnAndRun},
			{"progress and milestones are seen while a run goes on", progress},
			{"a cancel stops a run, and its end is told", cancel},
			{"a tick gives up on a run over its budget, and its late end is told too", giveUp},
			{"a run whose Lambda is killed by its time-out is found by a schedule and ended by another", func(t *testing.T, c *apiclient.Client) { killed(t, c, clients) }},
			{"a clear ends what runs and tells nobody", func(t *testing.T, c *apiclient.Client) { clearAll(t, c, clients) }},
			{"a message that comes three times has one effect", func(t *testing.T, c *apiclient.Client) { duplicates(t, c, clients) }},
			{"a run waits for people and goes on when they have decided", approval},
			{"somebody outside ends the waits of a turn and of a run, with a token alone", calledBack},
			{"a run waits for some of its children", joined},
			{"a run sleeps for longer than a Lambda may live", slept},
			{"a schedule fires by a message or by EventBridge Scheduler, and not after it was deleted", func(t *testing.T, c *apiclient.Client) { fires(t, c, clients) }},
			{"an agent that an operator has disabled takes no runs", operated},
			{"a run ends at its limit in dollars and shows what it has cost", spent},
			{"a poison message is a dead letter after five tries, and again after a redrive", func(t *testing.T, _ *apiclient.Client) { poison(t, clients) }},
		} {
			t.Run(s.name, func(t *testing.T) {
				t.Parallel()
				s.run(t, client(t, "acme"))
			})
		}
	})
	t.Run("a run at work outlives an update and a rollback", func(t *testing.T) { updateAndRollback(t, clients) })
	settled(t, clients)
}

func withoutCredential(t *testing.T, _ *apiclient.Client) {
	if deployed.stack.auth == "iam" {
		if got := status(t, ""); got != http.StatusForbidden {
			t.Errorf("without a signature: status %d", got)
		}
		return
	}
	foreign, err := newIssuer(deployed.issuer.url)
	if err != nil {
		t.Fatal(err)
	}
	forged, err := foreign.token("acme", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	expired, err := deployed.issuer.token("acme", time.Now().Add(-25*time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	for name, authorization := range map[string]string{"none": "", "forged": "Bearer " + forged, "expired": "Bearer " + expired} {
		if got := status(t, authorization); got != http.StatusUnauthorized {
			t.Errorf("token %s: status %d", name, got)
		}
	}
}

func turnAndRun(t *testing.T, c *apiclient.Client) {
	const conversation = "turn"
	request := api.TurnRequest{Agent: "lab", Message: `dispatch lab-echo {"text":"over the wire"} {"notify":true}`}
	turn, err := c.Send(t.Context(), conversation, request, "once")
	if err != nil {
		t.Fatal(err)
	}
	if again, err := c.Send(t.Context(), conversation, request, "once"); err != nil || again.ID != turn.ID {
		t.Errorf("sent again it is turn %s, not %s (%v)", again.ID, turn.ID, err)
	}
	await(t, "the conversation hears of the end", func() bool { return heard(t, c, conversation) > 0 })
	page, err := c.AllRuns(t.Context(), conversation, apiclient.Page{})
	if err != nil || len(page.Runs) != 1 {
		t.Fatalf("%d runs (%v)", len(page.Runs), err)
	}
	run := runOf(t, c, conversation, page.Runs[0].ID)
	if run.Status != "completed" || run.Finish.State != "delivered" || run.Attempts != 1 || !strings.Contains(string(run.Output), "over the wire") {
		t.Errorf("the run is %+v", run)
	}
	if deployed.stack.auth == "iam" {
		t.Log("NOT TESTED: another tenant; whoever runs this test is one")
		return
	}
	_, err = client(t, "mallory").Run(t.Context(), conversation, run.ID)
	refused(t, "another tenant", err, "not-found")
}

func progress(t *testing.T, c *apiclient.Client) {
	const conversation = "progress"
	id := dispatch(t, c, conversation, api.DispatchRequest{
		Agent: "lab-sleep", Input: []byte(`{"ms":4000,"progress_every_ms":500,"milestones":[{"name":"half","at_ms":1000}]}`),
		Detached: &api.Detached{Notify: api.Notify{On: true}, OnMilestones: &api.Milestones{Names: []string{"half"}}},
	})
	await(t, "progress is seen while it runs", func() bool {
		run := runOf(t, c, conversation, id)
		if !run.Live() {
			t.Fatalf("it ended before: %+v", run)
		}
		return run.Progress != nil && len(run.Milestones) == 1
	})
	await(t, "the milestone is told", func() bool {
		for _, m := range transcript(t, c, conversation) {
			if m.Milestone == "half" && m.RunID == id {
				return true
			}
		}
		return false
	})
	await(t, "the end is told", func() bool { return runOf(t, c, conversation, id).Finish.State == "delivered" })
}

func cancel(t *testing.T, c *apiclient.Client) {
	const conversation = "cancel"
	id := dispatch(t, c, conversation, api.DispatchRequest{Agent: "lab-sleep", Input: []byte(`{"ms":60000}`)})
	await(t, "it runs", func() bool { return runOf(t, c, conversation, id).Status == "running" })
	if _, err := c.Cancel(t.Context(), conversation, id, "no longer wanted"); err != nil {
		t.Fatal(err)
	}
	await(t, "its end is told", func() bool { return runOf(t, c, conversation, id).Finish.State == "delivered" })
	if run := runOf(t, c, conversation, id); run.Status != "aborted" {
		t.Errorf("the run is %+v", run)
	}
}

func giveUp(t *testing.T, c *apiclient.Client) {
	const conversation = "give-up"
	budget := int64(1500)
	// It does not stop when it is asked to, so its real end comes after the give-up.
	id := dispatch(t, c, conversation, api.DispatchRequest{
		Agent: "lab-stubborn", Input: []byte(`{"ms":7000}`), Detached: &api.Detached{Notify: api.Notify{On: true}, MaxBudgetMS: &budget},
	})
	await(t, "a tick has given up", func() bool { return runOf(t, c, conversation, id).GiveUp.State == "delivered" })
	if run := runOf(t, c, conversation, id); run.Reason != "budget-exceeded" {
		t.Errorf("the run is %+v", run)
	}
	await(t, "its end is told nevertheless", func() bool { return runOf(t, c, conversation, id).Finish.State != "open" })
	t.Logf("given up, then %s: %s", runOf(t, c, conversation, id).Status, runOf(t, c, conversation, id).Finish.State)
}

func killed(t *testing.T, c *apiclient.Client, clients *awsclient.Clients) {
	const conversation = "killed"
	if _, err := c.Send(t.Context(), conversation, api.TurnRequest{Agent: "lab", Message: "say hello"}, ""); err != nil {
		t.Fatal(err)
	}
	// The executor's time-out is 10 s in this stage, and this agent does not stop before. The
	// last tick that is a message comes after 6 s, the next is a schedule.
	id := dispatch(t, c, conversation, api.DispatchRequest{Agent: "lab-stubborn", Input: []byte(`{"ms":12000}`)})
	await(t, "the next tick is a schedule", func() bool { return scheduled(t, clients, conversation) > 0 })
	await(t, "its end is told", func() bool { return heard(t, c, conversation) > 0 })
	if run := runOf(t, c, conversation, id); run.Status != "completed" || run.Finish.State != "delivered" || run.Attempts != 2 {
		t.Errorf("the run is %+v", run)
	}
}

func clearAll(t *testing.T, c *apiclient.Client, clients *awsclient.Clients) {
	const conversation = "clear"
	big := strings.Repeat("x", 300_000) // kept in the bucket
	id := dispatch(t, c, conversation, api.DispatchRequest{Agent: "lab-sleep", Input: []byte(`{"ms":60000,"output":"` + big + `"}`)})
	await(t, "it runs", func() bool { return runOf(t, c, conversation, id).Status == "running" })
	if n := blobs(t, clients); n == 0 {
		t.Error("its input is not in the bucket")
	}
	if err := c.Clear(t.Context(), conversation); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Run(t.Context(), conversation, id); err == nil {
		t.Error("the run is still there")
	}
}

// settled checks that nothing outstanding means nothing queued, hidden, delayed, dead or scheduled.
func settled(t *testing.T, clients *awsclient.Clients) {
	t.Helper()
	for _, output := range []string{"TurnsUrl", "RunsUrl", "TicksUrl", "DeadTurnsUrl", "DeadRunsUrl", "DeadTicksUrl"} {
		await(t, output+" is empty", func() bool { return waiting(t, clients, deployed.outputs[output]) == 0 })
	}
	await(t, "no schedule is left", func() bool { return schedules(t, clients) == 0 })
	if n := blobs(t, clients); n > 0 {
		t.Errorf("%d blobs are left of a cleared conversation", n)
	}
	// All that was told, was told once: a question, its reply, the end, the reply to that.
	told := map[string]int{"turn": 1, "killed": 1, "duplicates": 1, "update": 3, "schedule-soon": 1, "schedule-later": 1}
	if deployed.stack.auth == "iam" {
		delete(told, "duplicates")
	}
	for _, conversation := range []string{"approval", "callback", "join", "nap", "spend", "operator"} {
		audited(t, conversation)
	}
	for conversation, ends := range told {
		audited(t, conversation)
		messages := len(transcript(t, client(t, "acme"), conversation))
		if n := heard(t, client(t, "acme"), conversation); n != ends || messages != 2+2*ends {
			t.Errorf("conversation %s heard %d times of %d ends, in %d messages", conversation, n, ends, messages)
		}
	}
}

func audited(t *testing.T, conversation string) {
	t.Helper()
	if a, err := client(t, "acme").Audit(t.Context(), conversation); err != nil || len(a.Findings) > 0 || a.Runs == 0 {
		t.Errorf("the audit of conversation %s is %+v (%v)", conversation, a, err)
	}
}
