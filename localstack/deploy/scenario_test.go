package main

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/scheduler"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/errand-dev/errand/localstack/endpoint"
	"github.com/errand-dev/errand/shared/api"
	"github.com/errand-dev/errand/shared/apiclient"
	"github.com/errand-dev/errand/shared/awsclient"
)

// TestTheDeployedStack deploys once and lets every scenario work on the same stack, side by side.
// Whatever they did, nothing may be left behind that runs or waits.
func TestTheDeployedStack(t *testing.T) {
	bringUp(t)
	clients := endpoint.Clients(t, awsclient.Config{})
	reportDeviations(t, clients)
	t.Run("scenarios", func(t *testing.T) {
		for _, s := range []struct {
			name string
			run  func(*testing.T, *apiclient.Client)
		}{
			{"nobody gets in without a token", withoutToken},
			{"a turn dispatches a run and hears of its end", turnAndRun},
			{"progress and milestones are seen while a run goes on", progress},
			{"a cancel stops a run, and its end is told", cancel},
			{"a tick gives up on a run over its budget, and its late end is told too", giveUp},
			{"a run whose Lambda is killed by its time-out is found by a schedule and ended by another", func(t *testing.T, c *apiclient.Client) { killed(t, c, clients) }},
			{"a clear ends what runs and tells nobody", func(t *testing.T, c *apiclient.Client) { clearAll(t, c, clients) }},
			{"a poison message is a dead letter after five tries", func(t *testing.T, _ *apiclient.Client) { poison(t, clients) }},
		} {
			t.Run(s.name, func(t *testing.T) {
				t.Parallel()
				s.run(t, client(t, "acme"))
			})
		}
	})
	settled(t, clients)
}

func client(t *testing.T, tenant string) *apiclient.Client {
	t.Helper()
	token, err := deployed.issuer.token(tenant, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	c, err := apiclient.New(deployed.api(), token, http.DefaultClient)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// patience is more than it takes until a killed run's message and last tick are gone.
const patience = 4 * time.Minute

// await polls until ok.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(patience)
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("after %v not so: %s", patience, what)
		}
	}
}

// said returns the texts of the conversation.
func said(t *testing.T, c *apiclient.Client, conversation string) string {
	t.Helper()
	page, err := c.Messages(t.Context(), conversation, apiclient.Page{})
	if err != nil {
		t.Fatal(err)
	}
	var texts strings.Builder
	for _, m := range page.Messages {
		fmt.Fprintln(&texts, m.Text)
	}
	return texts.String()
}

func dispatch(t *testing.T, c *apiclient.Client, conversation string, d api.DispatchRequest) string {
	t.Helper()
	run, err := c.Dispatch(t.Context(), conversation, d, "")
	if err != nil {
		t.Fatal(err)
	}
	return run.ID
}

func runOf(t *testing.T, c *apiclient.Client, conversation, id string) api.Run {
	t.Helper()
	run, err := c.Run(t.Context(), conversation, id)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

func withoutToken(t *testing.T, _ *apiclient.Client) {
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
	for name, token := range map[string]string{"none": "", "forged": forged, "expired": expired} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, deployed.api()+"/v1/conversations/c", nil)
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			request.Header.Set("Authorization", "Bearer "+token)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != http.StatusUnauthorized {
			t.Errorf("token %s: status %d", name, response.StatusCode)
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
	await(t, "the conversation hears of the end", func() bool { return strings.Contains(said(t, c, conversation), "I heard: ") })
	page, err := c.AllRuns(t.Context(), conversation, apiclient.Page{})
	if err != nil || len(page.Runs) != 1 {
		t.Fatalf("%d runs (%v)", len(page.Runs), err)
	}
	run := runOf(t, c, conversation, page.Runs[0].ID)
	if run.Status != "completed" || run.Finish.State != "delivered" || run.Attempts != 1 || !strings.Contains(string(run.Output), "over the wire") {
		t.Errorf("the run is %+v", run)
	}
	_, err = client(t, "mallory").Run(t.Context(), conversation, run.ID)
	if problem, ok := errors.AsType[*api.Problem](err); !ok || problem.Status != http.StatusNotFound {
		t.Errorf("another tenant reads it: %v", err)
	}
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
		page, err := c.Messages(t.Context(), conversation, apiclient.Page{})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range page.Messages {
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
	await(t, "the next tick is a schedule", func() bool { return schedules(t, clients) > 0 })
	await(t, "its end is told", func() bool { return strings.Contains(said(t, c, conversation), "I heard: ") })
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

const poisoned = "not a wake"

func poison(t *testing.T, clients *awsclient.Clients) {
	url, dead := deployed.outputs["RunsUrl"], deployed.outputs["DeadRunsUrl"]
	if _, err := clients.SQS.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String(poisoned)}); err != nil {
		t.Fatal(err)
	}
	await(t, "it is a dead letter", func() bool {
		out, err := clients.SQS.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: &dead})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range out.Messages {
			if *m.Body != poisoned {
				t.Errorf("a dead letter that nobody sent: %s", *m.Body)
			}
			if _, err := clients.SQS.DeleteMessage(t.Context(), &sqs.DeleteMessageInput{QueueUrl: &dead, ReceiptHandle: m.ReceiptHandle}); err != nil {
				t.Error(err)
			}
		}
		return len(out.Messages) > 0
	})
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
	// All that was told, was told once.
	for _, conversation := range []string{"turn", "killed"} {
		if n := strings.Count(said(t, client(t, "acme"), conversation), "I heard: "); n != 1 {
			t.Errorf("conversation %s heard %d times of one end", conversation, n)
		}
	}
}

func blobs(t *testing.T, clients *awsclient.Clients) int {
	t.Helper()
	out, err := clients.S3.ListObjectsV2(t.Context(), &s3.ListObjectsV2Input{Bucket: aws.String(deployed.outputs["BucketName"])})
	if err != nil {
		t.Fatal(err)
	}
	return len(out.Contents)
}

func schedules(t *testing.T, clients *awsclient.Clients) int {
	t.Helper()
	out, err := clients.Scheduler.ListSchedules(t.Context(), &scheduler.ListSchedulesInput{GroupName: aws.String("errand-local")})
	if err != nil {
		t.Fatal(err)
	}
	return len(out.Schedules)
}

// waiting counts the messages of a queue: visible, hidden and delayed.
func waiting(t *testing.T, clients *awsclient.Clients, url string) int {
	t.Helper()
	out, err := clients.SQS.GetQueueAttributes(t.Context(), &sqs.GetQueueAttributesInput{QueueUrl: &url, AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameAll}})
	if err != nil {
		t.Fatal(err)
	}
	sum := 0
	for _, name := range []types.QueueAttributeName{
		types.QueueAttributeNameApproximateNumberOfMessages, types.QueueAttributeNameApproximateNumberOfMessagesNotVisible,
		types.QueueAttributeNameApproximateNumberOfMessagesDelayed,
	} {
		n, err := strconv.Atoi(out.Attributes[string(name)])
		if err != nil {
			t.Fatal(err)
		}
		sum += n
	}
	return sum
}
