package lambdas

import (
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/errand-dev/errand/shared/api"
	"github.com/errand-dev/errand/shared/config"
	"github.com/errand-dev/errand/shared/platform"
	"github.com/errand-dev/errand/shared/sqsqueue"
)

// said returns the texts of the conversation's messages.
func (d *deployment) said(tenant, conversation string) string {
	d.t.Helper()
	var page api.MessagePage
	d.call(tenant, "GET", "/v1/conversations/"+conversation+"/messages", "", "", 200, &page)
	texts := make([]string, len(page.Messages))
	for i, m := range page.Messages {
		texts[i] = m.Text
	}
	return strings.Join(texts, "\n")
}

func (d *deployment) run(tenant, conversation, id string) api.Run {
	d.t.Helper()
	var run api.Run
	d.call(tenant, "GET", "/v1/conversations/"+conversation+"/runs/"+id, "", "", 200, &run)
	return run
}

func TestATurnDispatchesARunAndHearsOfItsEnd(t *testing.T) {
	t.Parallel()
	d := deploy(t, 20*time.Second, nil)
	var turn api.Turn
	d.call("acme", "POST", "/v1/conversations/c/turns", "", `{"agent":"lab","message":"dispatch lab-echo {\"text\":\"over the wire\"} {\"notify\":true}"}`, 202, &turn)
	await(t, "the conversation has heard of the end", func() bool {
		return strings.Contains(d.said("acme", "c"), "I heard: ")
	})
	var runs api.RunPage
	d.call("acme", "GET", "/v1/conversations/c/runs", "status=all", "", 200, &runs)
	if len(runs.Runs) != 1 {
		t.Fatalf("%d runs", len(runs.Runs))
	}
	run := d.run("acme", "c", runs.Runs[0].ID)
	if run.Status != "completed" || run.Finish.State != "delivered" || !strings.Contains(string(run.Output), "over the wire") || run.Attempts != 1 {
		t.Errorf("the run is %+v", run)
	}
	// Another tenant sees nothing, whatever path it asks for.
	d.call("mallory", "GET", "/v1/conversations/c/runs/"+run.ID, "", "", 404, nil)
	d.call("mallory", "GET", "/v1/conversations/c", "", "", 404, nil)
	await(t, "nothing is queued when nothing is outstanding", func() bool { return d.waiting() == 0 })
	if heard := strings.Count(d.said("acme", "c"), "I heard: "); heard != 1 {
		t.Errorf("it heard %d times of one end", heard)
	}
}

func TestARunWhoseExecutorIsKilledIsFinishedByAnother(t *testing.T) {
	t.Parallel()
	d := deploy(t, 20*time.Second, map[string]string{config.Lease: "1s"})
	d.call("acme", "POST", "/v1/conversations/c/runs", "", `{"agent":"lab-sleep","run_id":"r","input":{"ms":3000,"output":"late but there"}}`, 202, nil)
	await(t, "the run is under execution", func() bool { return d.run("acme", "c", "r").Status == "running" })
	if n := d.kill("executor"); n != 1 {
		t.Fatalf("killed %d executors", n)
	}
	if status := d.run("acme", "c", "r").Status; status != "running" {
		t.Fatalf("the run was %s before its executor died", status)
	}
	await(t, "a tick has found it and another executor ended it", func() bool { return d.run("acme", "c", "r").Finish.State == "delivered" })
	run := d.run("acme", "c", "r")
	if run.Status != "completed" || run.Attempts != 2 || !strings.Contains(string(run.Output), "late but there") {
		t.Errorf("the run is %+v", run)
	}
	await(t, "the conversation has heard of the end", func() bool { return strings.Contains(d.said("acme", "c"), "r") })
}

func TestARunThatOutlastsTheTimeOutIsHandedOn(t *testing.T) {
	t.Parallel()
	d := deploy(t, 4*time.Second, nil)
	d.call("acme", "POST", "/v1/conversations/c/runs", "", `{"agent":"lab-sleep","run_id":"r","input":{"ms":5000}}`, 202, nil)
	await(t, "the run is delivered", func() bool { return d.run("acme", "c", "r").Finish.State == "delivered" })
	if run := d.run("acme", "c", "r"); run.Status != "completed" || run.Attempts != 2 {
		t.Errorf("the run is %+v", run)
	}
}

func TestAPoisonMessageEndsInTheDeadLettersAndBlocksNobody(t *testing.T) {
	t.Parallel()
	d := deploy(t, 20*time.Second, nil)
	urls := d.urls[platform.Runs]
	poison := "not a wake"
	if _, err := d.clients.SQS.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: &urls.Queue, MessageBody: &poison}); err != nil {
		t.Fatal(err)
	}
	d.call("acme", "POST", "/v1/conversations/c/runs", "", `{"agent":"lab-echo","run_id":"r","input":{"text":"x"}}`, 202, nil)
	await(t, "the run beside it is delivered", func() bool { return d.run("acme", "c", "r").Finish.State == "delivered" })
	queues := sqsqueue.New(d.clients.SQS, d.urls)
	await(t, "the poison message is a dead letter", func() bool {
		letters, err := queues.DeadLetters(t.Context(), platform.Runs, 10)
		return err == nil && len(letters) == 1 && string(letters[0].Body) == poison
	})
}
