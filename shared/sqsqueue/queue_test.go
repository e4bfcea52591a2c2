package sqsqueue_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"
	"github.com/google/go-cmp/cmp"

	"github.com/errand-dev/errand/shared/platform"
	"github.com/errand-dev/errand/shared/sqsqueue"
)

// fakeSQS remembers what is sent, and fails where a test says so; calls that it
// does not know panic. Delivery is tested against a server, in localstack/adapters.
type fakeSQS struct {
	*sqs.Client
	sent    []*sqs.SendMessageInput
	letters []types.Message // in the dead letter queue
	again   []types.SendMessageBatchRequestEntry
	deleted []string // receipts
	refuse  string   // the body that SendMessageBatch refuses
	err     error    // of DeleteMessage and ChangeMessageVisibility

	undeletable string // why DeleteMessageBatch refuses its entries
}

func (f *fakeSQS) SendMessage(_ context.Context, in *sqs.SendMessageInput, _ ...func(*sqs.Options)) (*sqs.SendMessageOutput, error) {
	f.sent = append(f.sent, in)
	return &sqs.SendMessageOutput{}, nil
}

func (f *fakeSQS) ReceiveMessage(_ context.Context, in *sqs.ReceiveMessageInput, _ ...func(*sqs.Options)) (*sqs.ReceiveMessageOutput, error) {
	n := min(int(in.MaxNumberOfMessages), len(f.letters))
	batch := f.letters[:n]
	f.letters = f.letters[n:]
	return &sqs.ReceiveMessageOutput{Messages: batch}, nil
}

func (f *fakeSQS) SendMessageBatch(_ context.Context, in *sqs.SendMessageBatchInput, _ ...func(*sqs.Options)) (*sqs.SendMessageBatchOutput, error) {
	out := &sqs.SendMessageBatchOutput{}
	for _, e := range in.Entries {
		if *e.MessageBody == f.refuse {
			out.Failed = append(out.Failed, types.BatchResultErrorEntry{Id: e.Id, Message: aws.String("refused")})
			continue
		}
		f.again = append(f.again, e)
		out.Successful = append(out.Successful, types.SendMessageBatchResultEntry{Id: e.Id})
	}
	return out, nil
}

func (f *fakeSQS) DeleteMessageBatch(_ context.Context, in *sqs.DeleteMessageBatchInput, _ ...func(*sqs.Options)) (*sqs.DeleteMessageBatchOutput, error) {
	out := &sqs.DeleteMessageBatchOutput{}
	for _, e := range in.Entries {
		if f.undeletable != "" {
			out.Failed = append(out.Failed, types.BatchResultErrorEntry{Id: e.Id, Code: &f.undeletable})
			continue
		}
		f.deleted = append(f.deleted, *e.ReceiptHandle)
	}
	return out, nil
}

func (f *fakeSQS) DeleteMessage(context.Context, *sqs.DeleteMessageInput, ...func(*sqs.Options)) (*sqs.DeleteMessageOutput, error) {
	return nil, f.err
}

func (f *fakeSQS) ChangeMessageVisibility(context.Context, *sqs.ChangeMessageVisibilityInput, ...func(*sqs.Options)) (*sqs.ChangeMessageVisibilityOutput, error) {
	return nil, f.err
}

func newQueues(fake *fakeSQS) *sqsqueue.Queues {
	return sqsqueue.New(fake, map[string]sqsqueue.URLs{
		platform.Turns: {Queue: "https://sqs/turns.fifo", DeadLetters: "https://sqs/turns-dlq.fifo"},
		platform.Runs:  {Queue: "https://sqs/runs", DeadLetters: "https://sqs/runs-dlq"},
		platform.Ticks: {Queue: "https://sqs/ticks", DeadLetters: "https://sqs/ticks-dlq"},
	})
}

func TestIdsReachSQSInItsAlphabetAndDifferentOnesStayDifferent(t *testing.T) {
	t.Parallel()
	fake := &fakeSQS{}
	queues := newQueues(fake)
	ids := []string{"c1", "tenant#1/conversation", strings.Repeat("x", 128), strings.Repeat("x", 129), strings.Repeat("x", 130), "a b", "ä", "a\n"}
	seen := make(map[string]bool)
	for _, id := range ids {
		if err := queues.Send(t.Context(), platform.Message{Queue: platform.Turns, Group: id, Dedup: id, Body: []byte("{}")}); err != nil {
			t.Fatal(err)
		}
		got := fake.sent[len(fake.sent)-1]
		group, dedup := *got.MessageGroupId, *got.MessageDeduplicationId
		if group != dedup || len(group) > 128 || strings.ContainsFunc(group, func(r rune) bool { return r < '!' || r > '~' }) {
			t.Errorf("%q became group %q, dedup %q", id, group, dedup)
		}
		if seen[group] {
			t.Errorf("%q is not unique", group)
		}
		seen[group] = true
		carried, changed := got.MessageAttributes["group"]
		if changed != (group != id) || changed && *carried.StringValue != id {
			t.Errorf("%q is carried as %v", id, carried.StringValue)
		}
	}
}

func TestOnlyTurnsAndRunsHaveASQSGroup(t *testing.T) {
	t.Parallel()
	fake := &fakeSQS{}
	queues := newQueues(fake)
	for _, queue := range platform.Queues {
		if err := queues.Send(t.Context(), platform.Message{Queue: queue, Group: "g", Dedup: "d", Body: []byte("{}")}); err != nil {
			t.Fatal(err)
		}
	}
	var got [][2]string
	for _, in := range fake.sent {
		got = append(got, [2]string{aws.ToString(in.MessageGroupId), aws.ToString(in.MessageDeduplicationId)})
	}
	if diff := cmp.Diff([][2]string{{"g", "d"}, {"g", ""}, {"", ""}}, got); diff != "" {
		t.Errorf("group and dedup by queue (-want +got):\n%s", diff)
	}
}

func TestADelayIsRoundedUpToASecond(t *testing.T) {
	t.Parallel()
	fake := &fakeSQS{}
	for delay, want := range map[time.Duration]int32{0: 0, 1: 1, time.Second: 1, time.Second + 1: 2, platform.MaxDelay: 900} {
		if err := newQueues(fake).Send(t.Context(), platform.Message{Queue: platform.Ticks, Body: []byte("{}"), Delay: delay}); err != nil {
			t.Fatal(err)
		}
		if got := fake.sent[len(fake.sent)-1].DelaySeconds; got != want {
			t.Errorf("%v became %d s, want %d", delay, got, want)
		}
	}
}

func TestAReceiptThatSQSNoLongerKnowsIsNoError(t *testing.T) {
	t.Parallel()
	broken := errors.New("no network")
	for _, c := range []struct {
		err   error
		stale bool
	}{
		{&types.ReceiptHandleIsInvalid{}, true},
		{&types.MessageNotInflight{}, true},
		{&smithy.GenericAPIError{Code: "InvalidParameterValue", Message: "Value x for parameter ReceiptHandle is invalid. Reason: The receipt handle has expired."}, true},
		{&smithy.GenericAPIError{Code: "InvalidParameterValue", Message: "Value -1 for parameter VisibilityTimeout is invalid."}, false},
		{&types.QueueDoesNotExist{}, false},
		{broken, false},
	} {
		queues := newQueues(&fakeSQS{err: c.err})
		r := platform.Received{Message: platform.Message{Queue: platform.Turns}, Receipt: "r"}
		for name, err := range map[string]error{
			"Acknowledge": queues.Acknowledge(t.Context(), r),
			"Extend":      queues.Extend(t.Context(), r, time.Second),
		} {
			if (err == nil) != c.stale || err != nil && !errors.Is(err, c.err) {
				t.Errorf("%s on %v: %v", name, c.err, err)
			}
		}
	}
}

func TestARedriveDeletesOnlyWhatWasSentAgain(t *testing.T) {
	t.Parallel()
	fake := &fakeSQS{refuse: "b"}
	for _, body := range []string{"a", "b", "c"} {
		fake.letters = append(fake.letters, types.Message{
			Body: aws.String(body), MessageId: aws.String("id-" + body), ReceiptHandle: aws.String("receipt-" + body),
			Attributes: map[string]string{
				"ApproximateReceiveCount": "6", "SentTimestamp": "1000", "MessageGroupId": "g", "MessageDeduplicationId": "dedup-" + body,
			},
		})
	}
	n, err := newQueues(fake).Redrive(t.Context(), platform.Turns)
	if n != 2 || err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("redrove %d (%v), want 2 and the refusal", n, err)
	}
	if diff := cmp.Diff([]string{"receipt-a", "receipt-c"}, fake.deleted); diff != "" {
		t.Errorf("deleted (-want +got):\n%s", diff)
	}
	for i, body := range []string{"a", "c"} {
		e := fake.again[i]
		if *e.MessageBody != body || *e.MessageGroupId != "g" || *e.MessageDeduplicationId == "dedup-"+body {
			t.Errorf("sent again: body %s, group %s, dedup %s", *e.MessageBody, *e.MessageGroupId, *e.MessageDeduplicationId)
		}
		if got := *e.MessageAttributes["dedup"].StringValue; got != "dedup-"+body {
			t.Errorf("the receiver would see dedup %q", got)
		}
	}
}

func TestARedriveTakesAStaleReceiptForADeletedLetter(t *testing.T) {
	t.Parallel()
	for code, ok := range map[string]bool{"ReceiptHandleIsInvalid": true, "InternalError": false} {
		fake := &fakeSQS{undeletable: code, letters: []types.Message{{
			Body: aws.String("{}"), MessageId: aws.String("m"), ReceiptHandle: aws.String("r"),
			Attributes: map[string]string{"ApproximateReceiveCount": "6", "SentTimestamp": "1000"},
		}}}
		if n, err := newQueues(fake).Redrive(t.Context(), platform.Ticks); n != 1 || (err == nil) != ok {
			t.Errorf("%s: redrove %d (%v)", code, n, err)
		}
	}
}

func TestALambdaEventIsReadAsAReceivedMessage(t *testing.T) {
	t.Parallel()
	event := events.SQSMessage{
		MessageId: "m1", ReceiptHandle: "r1", Body: "{}",
		Attributes: map[string]string{
			"ApproximateReceiveCount": "2", "SentTimestamp": "1500", "MessageGroupId": "sha256-x", "MessageDeduplicationId": "d",
		},
		MessageAttributes: map[string]events.SQSMessageAttribute{"group": {StringValue: aws.String("a group"), DataType: "String"}},
	}
	got, err := sqsqueue.FromEvent(platform.Turns, event)
	want := platform.Received{
		Message: platform.Message{Queue: platform.Turns, Group: "a group", Dedup: "d", Body: []byte("{}")},
		ID:      "m1", Receipt: "r1", Receives: 2, SentAt: time.UnixMilli(1500).UTC(),
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("error %v, message (-want +got):\n%s", err, diff)
	}
	delete(event.Attributes, "SentTimestamp")
	if _, err := sqsqueue.FromEvent(platform.Turns, event); err == nil {
		t.Error("an event without a sending time was accepted")
	}
}

func TestCreateQueuesIsRefusedOnAWS(t *testing.T) {
	t.Parallel()
	client := sqs.New(sqs.Options{Region: "us-east-1", Credentials: aws.AnonymousCredentials{}})
	if _, err := sqsqueue.CreateQueues(t.Context(), client, "errand"); err == nil || !strings.Contains(err.Error(), "local endpoint") {
		t.Errorf("got %v", err)
	}
}
