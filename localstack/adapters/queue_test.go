package adapters

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/errand-dev/errand/localstack/endpoint"
	"github.com/errand-dev/errand/shared/awsclient"
	"github.com/errand-dev/errand/shared/platform"
	"github.com/errand-dev/errand/shared/sqsqueue"
)

func TestARedrivenGroupKeepsItsOrderAndItsIds(t *testing.T) {
	t.Parallel()
	queues, _ := newQueues(t, endpoint.Clients(t, awsclient.Config{}))
	group := "tenant " + strings.Repeat("ü", 100) // which SQS takes only as a hash
	const n = 12                                  // more than one batch
	for i := range n {
		m := platform.Message{Queue: platform.Turns, Group: group, Dedup: fmt.Sprintf("dedup %02d", i), Body: fmt.Appendf(nil, "%02d", i)}
		if err := queues.Send(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	for range n {
		poison(t, queues)
	}
	// The next receive finds the last one dead too, and then only time passes.
	if err := queues.Send(t.Context(), platform.Message{Queue: platform.Turns, Group: "other", Body: []byte("other")}); err != nil {
		t.Fatal(err)
	}
	if got := receive(t, queues); string(got.Body) != "other" || got.Dedup != "" {
		t.Fatalf("received %s with dedup %q", got.Body, got.Dedup)
	}
	letters, err := queues.DeadLetters(t.Context(), platform.Turns, 100)
	if err != nil || len(letters) < 10 || string(letters[0].Body) != "00" {
		t.Fatalf("%d dead letters (%v)", len(letters), err)
	}
	if redriven, err := queues.Redrive(t.Context(), platform.Turns); redriven != n || err != nil {
		t.Fatalf("redrove %d (%v), want %d", redriven, err, n)
	}
	for i := range n {
		got := receive(t, queues)
		want := platform.Message{Queue: platform.Turns, Group: group, Dedup: fmt.Sprintf("dedup %02d", i), Body: fmt.Appendf(nil, "%02d", i)}
		if diff := cmp.Diff(want, got.Message); diff != "" || got.Receives != 1 {
			t.Errorf("receive %d of message %d (-want +got):\n%s", got.Receives, i, diff)
		}
		if err := queues.Acknowledge(t.Context(), got); err != nil {
			t.Fatal(err)
		}
	}
}

// poison takes the head of the turns as often as it may be handed out.
func poison(t *testing.T, queues *sqsqueue.Queues) {
	t.Helper()
	for range platform.MaxReceives {
		if err := queues.Extend(t.Context(), receive(t, queues), 0); err != nil {
			t.Fatal(err)
		}
	}
}

func receive(t *testing.T, queues *sqsqueue.Queues) platform.Received {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	got, err := queues.Receive(ctx, platform.Turns, 1, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	return got[0]
}
