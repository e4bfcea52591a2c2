package lambdas

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/errand-dev/errand/localstack/endpoint"
	"github.com/errand-dev/errand/shared/awsclient"
	"github.com/errand-dev/errand/shared/config"
	"github.com/errand-dev/errand/shared/dynamostore"
	"github.com/errand-dev/errand/shared/platform"
	"github.com/errand-dev/errand/shared/s3blob"
	"github.com/errand-dev/errand/shared/sqsqueue"
)

// deployment is table, bucket and queues, with the functions behind them.
type deployment struct {
	t       *testing.T
	clients *awsclient.Clients
	urls    map[string]sqsqueue.URLs
	env     map[string]string
	// timeout is that of every function.
	timeout time.Duration
	pollers sync.WaitGroup

	mu   sync.Mutex
	idle map[string][]*environment
	busy map[*environment]string
}

// deploy makes what the template would, with extra variables for the functions, and
// serves the queues until the test ends.
func deploy(t *testing.T, timeout time.Duration, extra map[string]string) *deployment {
	t.Helper()
	d := &deployment{t: t, timeout: timeout, clients: endpoint.Clients(t, awsclient.Config{}), idle: map[string][]*environment{}, busy: map[*environment]string{}}
	table, bucket := endpoint.Name("table"), endpoint.Name("bucket")
	var err error
	if d.urls, err = sqsqueue.CreateQueues(t.Context(), d.clients.SQS, endpoint.Name("queue")); err != nil {
		t.Fatal(err)
	}
	if err := dynamostore.CreateTable(t.Context(), d.clients.DynamoDB, table); err != nil {
		t.Fatal(err)
	}
	if err := s3blob.CreateBucket(t.Context(), d.clients.S3, bucket); err != nil {
		t.Fatal(err)
	}
	d.env = map[string]string{
		"AWS_ENDPOINT_URL": endpoint.URL(t), config.Table: table, config.Bucket: bucket, config.Lab: "true", config.LogLevel: "debug",
		config.TurnsURL: d.urls[platform.Turns].Queue, config.RunsURL: d.urls[platform.Runs].Queue,
		config.TicksURL: d.urls[platform.Ticks].Queue, config.DeadTicksURL: d.urls[platform.Ticks].DeadLetters,
		config.Cadence: "1s,1s,2s",
	}
	maps.Copy(d.env, extra)
	ctx, cancel := context.WithCancel(t.Context())
	d.serve(ctx, d.urls[platform.Turns].Queue, "executor")
	d.serve(ctx, d.urls[platform.Runs].Queue, "executor")
	d.serve(ctx, d.urls[platform.Ticks].Queue, "reconcile")
	t.Cleanup(func() {
		cancel()
		d.pollers.Wait()
	})
	return d
}

// invoke runs a function in an idle environment, or in a new one.
func (d *deployment) invoke(ctx context.Context, function string, event any) ([]byte, error) {
	payload, err := json.Marshal(event)
	if err != nil {
		return nil, err
	}
	e := d.take(function)
	answer, err := e.invoke(ctx, payload, d.timeout)
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.busy, e)
	select {
	case <-e.exited:
	default:
		d.idle[function] = append(d.idle[function], e)
	}
	return answer, err
}

func (d *deployment) take(function string) *environment {
	d.mu.Lock()
	defer d.mu.Unlock()
	var e *environment
	if idle := d.idle[function]; len(idle) > 0 {
		e, d.idle[function] = idle[len(idle)-1], idle[:len(idle)-1]
	} else {
		e = start(d.t, function, d.env)
	}
	d.busy[e] = function
	return e
}

// kill ends every process of the function that is at work, and returns how many.
func (d *deployment) kill(function string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := 0
	for e, at := range d.busy {
		if at == function {
			e.kill()
			n++
		}
	}
	return n
}

// serve is an event source mapping with partial batch responses.
func (d *deployment) serve(ctx context.Context, url, function string) {
	const arn = types.QueueAttributeNameQueueArn
	described, err := d.clients.SQS.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{QueueUrl: &url, AttributeNames: []types.QueueAttributeName{arn}})
	if err != nil {
		d.t.Fatal(err)
	}
	d.pollers.Go(func() {
		for ctx.Err() == nil {
			out, err := d.clients.SQS.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
				QueueUrl: &url, MaxNumberOfMessages: 10, WaitTimeSeconds: 1,
				MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameAll}, MessageAttributeNames: []string{"All"},
			})
			if err != nil || len(out.Messages) == 0 {
				continue
			}
			d.pollers.Go(func() { d.deliver(ctx, url, described.Attributes[string(arn)], function, out.Messages) })
		}
	})
}

// deliver invokes the function with a batch and deletes what it has not reported as
// failed. If the invocation itself fails, nothing is deleted.
func (d *deployment) deliver(ctx context.Context, url, arn, function string, messages []types.Message) {
	answer, err := d.invoke(ctx, function, batch(arn, messages))
	if err != nil {
		return
	}
	var response struct{ BatchItemFailures *[]events.SQSBatchItemFailure }
	if err := json.Unmarshal(answer, &response); err != nil || response.BatchItemFailures == nil {
		d.t.Errorf("%s answered a batch with %s", function, answer)
		return
	}
	for _, m := range messages {
		failed := slices.ContainsFunc(*response.BatchItemFailures, func(f events.SQSBatchItemFailure) bool { return f.ItemIdentifier == *m.MessageId })
		if failed {
			continue
		}
		if _, err := d.clients.SQS.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: &url, ReceiptHandle: m.ReceiptHandle}); err != nil && ctx.Err() == nil {
			d.t.Errorf("deleting a message of %s: %v", url, err)
		}
	}
}

func batch(arn string, messages []types.Message) events.SQSEvent {
	var event events.SQSEvent
	for _, m := range messages {
		record := events.SQSMessage{
			MessageId: *m.MessageId, ReceiptHandle: *m.ReceiptHandle, Body: aws.ToString(m.Body), Attributes: m.Attributes,
			EventSource: "aws:sqs", EventSourceARN: arn, AWSRegion: "us-east-1", MessageAttributes: map[string]events.SQSMessageAttribute{},
		}
		for name, a := range m.MessageAttributes {
			record.MessageAttributes[name] = events.SQSMessageAttribute{DataType: aws.ToString(a.DataType), StringValue: a.StringValue}
		}
		event.Records = append(event.Records, record)
	}
	return event
}

// call asks the API as tenant and decodes its answer into out.
func (d *deployment) call(tenant, method, path, query, body string, status int, out any) {
	d.t.Helper()
	event := map[string]any{
		"version": "2.0", "rawPath": path, "rawQueryString": query, "body": body,
		"headers": map[string]string{"content-type": "application/json"},
		"requestContext": map[string]any{
			"http": map[string]string{"method": method}, "stage": "$default",
			"authorizer": map[string]any{"jwt": map[string]any{"claims": map[string]string{"tenant": tenant}}},
		},
	}
	answer, err := d.invoke(d.t.Context(), "ingress", event)
	if err != nil {
		d.t.Fatalf("%s %s: %v", method, path, err)
	}
	var response events.APIGatewayV2HTTPResponse
	if err := json.Unmarshal(answer, &response); err != nil || response.StatusCode != status {
		d.t.Fatalf("%s %s: %s (%v), want status %d", method, path, answer, err, status)
	}
	if out == nil {
		return
	}
	if err := json.Unmarshal([]byte(response.Body), out); err != nil {
		d.t.Fatalf("%s %s: %s: %v", method, path, response.Body, err)
	}
}

// waiting counts the messages of all queues: visible, hidden and delayed.
func (d *deployment) waiting() int {
	d.t.Helper()
	sum := 0
	for _, urls := range d.urls {
		out, err := d.clients.SQS.GetQueueAttributes(d.t.Context(), &sqs.GetQueueAttributesInput{
			QueueUrl: &urls.Queue, AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameAll},
		})
		if err != nil {
			d.t.Fatal(err)
		}
		for _, name := range []types.QueueAttributeName{
			types.QueueAttributeNameApproximateNumberOfMessages, types.QueueAttributeNameApproximateNumberOfMessagesNotVisible,
			types.QueueAttributeNameApproximateNumberOfMessagesDelayed,
		} {
			n, err := strconv.Atoi(out.Attributes[string(name)])
			if err != nil {
				d.t.Fatal(err)
			}
			sum += n
		}
	}
	return sum
}

// await polls until ok, for at most half a minute.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(30 * time.Second)
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal(fmt.Sprint("after 30s not so: ", what))
		}
	}
}
