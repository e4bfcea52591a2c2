package adapters

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/scheduler"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/errand-dev/errand/localstack/endpoint"
	"github.com/errand-dev/errand/shared/awsclient"
	"github.com/errand-dev/errand/shared/platform"
)

func queueARN(t *testing.T, clients *awsclient.Clients, url string) string {
	t.Helper()
	const arn = sqstypes.QueueAttributeNameQueueArn
	out, err := clients.SQS.GetQueueAttributes(t.Context(), &sqs.GetQueueAttributesInput{
		QueueUrl: &url, AttributeNames: []sqstypes.QueueAttributeName{arn},
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.Attributes[string(arn)]
}

func TestAScheduleFiresWithTheBodyAndIsGoneAfterwards(t *testing.T) {
	t.Parallel()
	clients := endpoint.Clients(t, awsclient.Config{})
	// The timer's clock runs behind, so that the least delay is over in two seconds.
	timer, ticks := newTimer(t, clients, func() time.Time { return time.Now().Add(-58 * time.Second) })
	tick := platform.Message{Queue: platform.Ticks, Dedup: endpoint.Name("tick"), Body: []byte(`{"epoch":7}`), Delay: time.Minute}
	due := time.Now().Add(2 * time.Second)
	if err := timer.Send(t.Context(), tick); err != nil {
		t.Fatal(err)
	}
	got, err := ticks.Receive(t.Context(), platform.Ticks, 10, time.Minute)
	if err != nil || len(got) != 1 || string(got[0].Body) != string(tick.Body) {
		t.Fatalf("received %v (%v), want one message with the body %s", got, err, tick.Body)
	}
	if early := due.Sub(time.Now()); early > 0 {
		t.Errorf("fired %v early", early)
	}
	await(t, "the schedule deletes itself", func() bool {
		out, err := clients.Scheduler.ListSchedules(t.Context(), &scheduler.ListSchedulesInput{NamePrefix: &tick.Dedup})
		if err != nil {
			t.Fatal(err)
		}
		return len(out.Schedules) == 0
	})
}

// await polls until ok, for at most 20 seconds.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(20 * time.Second)
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("not within 20 s: %s", what)
		}
	}
}
