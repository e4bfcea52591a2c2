package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/scheduler"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/errand-dev/errand/shared/api"
	"github.com/errand-dev/errand/shared/apiclient"
	"github.com/errand-dev/errand/shared/awsclient"
	"github.com/errand-dev/errand/shared/ledger"
	"github.com/errand-dev/errand/shared/platform"
	"github.com/errand-dev/errand/shared/sqsqueue"
	"github.com/errand-dev/errand/shared/subagent"
)

// send puts a message on one of the stack's queues, in a group of its own if that is FIFO.
func send(t *testing.T, clients *awsclient.Clients, output, body string) {
	t.Helper()
	url := deployed.outputs[output]
	in := &sqs.SendMessageInput{QueueUrl: &url, MessageBody: &body}
	if strings.HasSuffix(url, ".fifo") {
		in.MessageGroupId, in.MessageDeduplicationId = aws.String(rand.Text()), aws.String(rand.Text())
	}
	if _, err := clients.SQS.SendMessage(t.Context(), in); err != nil {
		t.Fatal(err)
	}
}

// duplicates sends the messages of a turn and of a run twice more while they are at work, and
// again when they have ended. settled counts what the conversation heard.
func duplicates(t *testing.T, c *apiclient.Client, clients *awsclient.Clients) {
	const conversation = "duplicates"
	owner := subagent.Owner{Tenant: "acme", Conversation: conversation}
	if deployed.stack.auth == "iam" {
		t.Log("NOT TESTED: messages that come again; the tenant that leads their keys is not known here")
		return
	}
	turn, err := c.Send(t.Context(), conversation, api.TurnRequest{Agent: "lab", Message: "sleep 1500"}, "")
	if err != nil {
		t.Fatal(err)
	}
	id := dispatch(t, c, conversation, api.DispatchRequest{Agent: "lab-steps", Input: []byte(`{"steps":3,"ms_each":500}`)})
	again := func() {
		for output, wake := range map[string]ledger.Wake{"TurnsUrl": {Owner: owner, Turn: turn.ID}, "RunsUrl": {Owner: owner, Run: id}} {
			body, err := json.Marshal(wake)
			if err != nil {
				t.Fatal(err)
			}
			send(t, clients, output, string(body))
			send(t, clients, output, string(body))
		}
	}
	again()
	await(t, "its end is told", func() bool { return heard(t, c, conversation) > 0 })
	again()
	run := runOf(t, c, conversation, id)
	var output struct{ Ran []int }
	if err := json.Unmarshal(run.Output, &output); err != nil {
		t.Fatal(err)
	}
	for step, times := range output.Ran {
		if times != 1 {
			t.Errorf("step %d ran %d times", step, times)
		}
	}
	if len(output.Ran) != 3 || run.Attempts != 1 {
		t.Errorf("the run is %+v", run)
	}
}

const poisoned = "not a wake"

func poison(t *testing.T, clients *awsclient.Clients) {
	send(t, clients, "RunsUrl", poisoned)
	awaitLetter(t, clients)
	queues := sqsqueue.New(clients.SQS, map[string]sqsqueue.URLs{platform.Runs: {Queue: deployed.outputs["RunsUrl"], DeadLetters: deployed.outputs["DeadRunsUrl"]}})
	if n, err := queues.Redrive(t.Context(), platform.Runs); err != nil || n != 1 {
		t.Errorf("%d letters redriven (%v)", n, err)
	}
	letter := awaitLetter(t, clients)
	if _, err := clients.SQS.DeleteMessage(t.Context(), &sqs.DeleteMessageInput{QueueUrl: aws.String(deployed.outputs["DeadRunsUrl"]), ReceiptHandle: letter.ReceiptHandle}); err != nil {
		t.Error(err)
	}
}

// awaitLetter waits for the dead letter of the poison, and lets others see it again at once.
func awaitLetter(t *testing.T, clients *awsclient.Clients) (letter types.Message) {
	t.Helper()
	url := deployed.outputs["DeadRunsUrl"]
	await(t, "it is a dead letter", func() bool {
		out, err := clients.SQS.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: &url, VisibilityTimeout: 1})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range out.Messages {
			if letter = m; *m.Body != poisoned {
				t.Errorf("a dead letter that nobody sent: %s", *m.Body)
			}
		}
		return len(out.Messages) > 0
	})
	return letter
}

// fireSchedules does, until the test ends, what EventBridge Scheduler would: where the endpoint only
// keeps schedules, it hands the ticks of those that are due to reconcile's queue.
func fireSchedules(t *testing.T, clients *awsclient.Clients) {
	t.Helper()
	if deployed.stack.fires {
		return
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for tick := time.Tick(time.Second); ; {
			select {
			case <-tick:
			case <-ctx.Done():
				return
			}
			if err := fireDue(ctx, t, clients, time.Now()); err != nil && ctx.Err() == nil {
				t.Errorf("firing schedules: %v", err)
				return
			}
		}
	}()
	t.Cleanup(func() { stop(); <-ended })
}

func fireDue(ctx context.Context, t *testing.T, clients *awsclient.Clients, now time.Time) error {
	ticks := deployed.outputs["TicksUrl"]
	return eachSchedule(ctx, clients, func(s *scheduler.GetScheduleOutput) error {
		at, err := time.Parse("at(2006-01-02T15:04:05)", aws.ToString(s.ScheduleExpression))
		if err != nil || at.After(now) {
			return err
		}
		if _, err := clients.SQS.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: &ticks, MessageBody: s.Target.Input}); err != nil {
			return err
		}
		if _, err := clients.Scheduler.DeleteSchedule(ctx, &scheduler.DeleteScheduleInput{GroupName: s.GroupName, Name: s.Name}); err != nil {
			return err
		}
		t.Logf("INJECTED: the endpoint does not fire schedules; the tick of %s was sent to reconcile's queue", aws.ToString(s.Name))
		return nil
	})
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
	out, err := clients.Scheduler.ListSchedules(t.Context(), &scheduler.ListSchedulesInput{GroupName: aws.String(stackName)})
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
