package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/errand-dev/errand/shared/api"
	"github.com/errand-dev/errand/shared/awsclient"
)

// updateAndRollback deploys other functions under a run that is at work, behind the other authorizer
// where there is one, and then what was there before. The run goes on through both, and one that waits
// for people knows nothing of them.
func updateAndRollback(t *testing.T, clients *awsclient.Clients) {
	const conversation = "update"
	old := client(t, "acme")
	if _, err := old.Send(t.Context(), conversation, api.TurnRequest{Agent: "lab", Message: "say hello"}, ""); err != nil {
		t.Fatal(err)
	}
	second := variant{name: "second", auth: deployed.stack.auth, tag: "second"}
	if second.auth == "jwt" && !deployed.stack.gateway {
		second.auth = "iam"
	}
	if err := deployed.synth(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	steps := 32
	if deployed.stack.name == "aws" {
		steps = 400 // a deployment takes minutes there
	}
	input := fmt.Appendf(nil, `{"steps":%d,"ms_each":1000}`, steps)
	id := dispatch(t, old, conversation, api.DispatchRequest{Agent: "lab-steps", Input: input})
	await(t, "it runs", func() bool { return runOf(t, old, conversation, id).Status == "running" })
	asks := dispatch(t, old, conversation, api.DispatchRequest{Agent: "lab-approve"})
	suspended(t, old, conversation, asks)
	// A tick that the update killed, as AWS would not, would be hidden for six minutes.
	await(t, "the next tick is a schedule", func() bool { return scheduled(t, clients, conversation) > 0 })

	if _, err := deployed.deploy(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	if second.auth != deployed.stack.auth {
		behindIAM(t)
	}
	if _, err := deployed.deploy(t.Context(), deployed.stack.first()); err != nil {
		t.Fatal(err)
	}

	if run := runOf(t, old, conversation, id); !run.Live() {
		t.Errorf("it ended while the stack was deployed, so this shows nothing: %+v", run)
	}
	// Where the update killed its executor, as AWS would not, the tick of another dispatch finds it soon.
	dispatch(t, old, conversation, api.DispatchRequest{Agent: "lab-echo", Input: []byte(`{"text":"after the rollback"}`)})
	decide(t, old, conversation, asks)
	await(t, "all ends are told", func() bool { return heard(t, old, conversation) > 2 })
	resumed(t, old, conversation, asks)
	noStepWasLost(t, runOf(t, old, conversation, id), steps)
}

// noStepWasLost checks the end of a run of lab-steps, which may have done some again.
func noStepWasLost(t *testing.T, run api.Run, steps int) {
	t.Helper()
	var output struct{ Ran []int }
	if err := json.Unmarshal(run.Output, &output); err != nil {
		t.Fatal(err)
	}
	if run.Status != "completed" || len(output.Ran) != steps {
		t.Errorf("the run is %+v", run)
	}
	for step, times := range output.Ran {
		if times == 0 {
			t.Errorf("step %d was lost", step)
		}
	}
	t.Logf("%d executions; each step ran this often: %v", run.Attempts, output.Ran)
}

// behindIAM uses the API as whoever has keys of the account does.
func behindIAM(t *testing.T) {
	t.Helper()
	signature := func(key string) string {
		return "AWS4-HMAC-SHA256 Credential=" + key + "/20261130/us-east-1/execute-api/aws4_request, SignedHeaders=host;x-amz-date, Signature=00"
	}
	for name, authorization := range map[string]string{"without a signature": "", "with a stranger's": signature("AKIASTRANGER00000000")} {
		if got := status(t, authorization); got != http.StatusForbidden {
			t.Errorf("%s: status %d", name, got)
		}
	}
	if got := status(t, signature("test")); got != http.StatusForbidden {
		t.Logf("DEVIATES FROM AWS: a forged signature of the account's root is %d, not 403; package awssign is tested by verifying what it signs", got)
	}
	c := signing(t)
	if _, err := c.Send(t.Context(), "behind-iam", api.TurnRequest{Agent: "lab", Message: "say signed"}, ""); err != nil {
		t.Fatal(err)
	}
	await(t, "a signed turn is answered", func() bool { return strings.Contains(said(t, c, "behind-iam"), "signed\n") })
	// The conversation of the other tenant has the same name and is another.
	if _, err := c.Conversation(t.Context(), "update"); err == nil {
		t.Error("the caller sees the conversation of another tenant")
	}
}
