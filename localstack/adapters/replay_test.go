package adapters

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/scheduler"

	"github.com/errand-dev/errand/localstack/endpoint"
	"github.com/errand-dev/errand/shared/awsclient"
	"github.com/errand-dev/errand/shared/platform"
	"github.com/errand-dev/errand/shared/schedulertimer"
)

// forgetful lets a request through and loses its answer, once each time it is
// armed: the SDK sends the request again, which the server has applied already.
type forgetful struct {
	mu   sync.Mutex
	lose bool
	lost int
}

func (f *forgetful) arm() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lose = true
}

func (f *forgetful) Do(r *http.Request) (*http.Response, error) {
	response, err := http.DefaultClient.Do(r)
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil || !f.lose {
		return response, err
	}
	f.lose = false
	f.lost++
	response.Body.Close()
	return nil, &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}
}

// lossy returns clients, and a function that runs a write whose first answer is
// lost and checks that it was.
func lossy(t *testing.T) (*awsclient.Clients, func(write func(context.Context) error) error) {
	t.Helper()
	client := &forgetful{}
	clients := endpoint.Clients(t, awsclient.Config{HTTPClient: client})
	return clients, func(write func(context.Context) error) error {
		t.Helper()
		before := client.lost
		client.arm()
		err := write(t.Context())
		if client.lost != before+1 {
			t.Fatalf("%d answers were lost, want one", client.lost-before)
		}
		return err
	}
}

func TestAPutSentTwiceConflictsWithItself(t *testing.T) {
	t.Parallel()
	clients, replayed := lossy(t)
	store := newItems(t, clients)
	key := platform.Key{Partition: "p", Sort: "s"}
	for version := int64(1); version <= 3; version++ {
		body := `{"version":"` + strings.Repeat("v", int(version)) + `"}`
		err := replayed(func(ctx context.Context) error {
			return store.Put(ctx, platform.Item{Key: key, Version: version, Body: []byte(body)})
		})
		conflict, ok := errors.AsType[*platform.ConflictError](err)
		if !ok {
			t.Fatalf("version %d: %v, want a conflict", version, err)
		}
		if s := conflict.Stored; s.Key != key || s.Version != version || string(s.Body) != body {
			t.Errorf("version %d: the conflict shows %+v, want our own write", version, s)
		}
	}
}

func TestADeleteSentTwiceSucceeds(t *testing.T) {
	t.Parallel()
	clients, replayed := lossy(t)
	store := newItems(t, clients)
	key := platform.Key{Partition: "p", Sort: "s"}
	for _, version := range []int64{1, 0} {
		if err := store.Put(t.Context(), platform.Item{Key: key, Version: 1, Body: []byte(`{}`)}); err != nil {
			t.Fatal(err)
		}
		err := replayed(func(ctx context.Context) error { return store.Delete(ctx, key, version) })
		if err != nil {
			t.Errorf("deleting version %d twice: %v", version, err)
		}
	}
}

func TestATurnSentTwiceArrivesOnce(t *testing.T) {
	t.Parallel()
	clients, replayed := lossy(t)
	queues, _ := newQueues(t, clients)
	err := replayed(func(ctx context.Context) error {
		return queues.Send(ctx, platform.Message{Queue: platform.Turns, Group: "g", Dedup: "d1", Body: []byte(`{"n":1}`)})
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := queues.Send(t.Context(), platform.Message{Queue: platform.Turns, Group: "g", Dedup: "d2", Body: []byte(`{"n":2}`)}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`{"n":1}`, `{"n":2}`} {
		got, err := queues.Receive(t.Context(), platform.Turns, 1, time.Minute)
		if err != nil || len(got) != 1 || string(got[0].Body) != want {
			t.Fatalf("received %v (%v), want %s", got, err, want)
		}
		// Each acknowledgement is lost once too: the second one is stale.
		if err := replayed(func(ctx context.Context) error { return queues.Acknowledge(ctx, got[0]) }); err != nil {
			t.Errorf("acknowledging twice: %v", err)
		}
		if err := queues.Extend(t.Context(), got[0], time.Second); err != nil {
			t.Errorf("extending an acknowledged message: %v", err)
		}
	}
}

func TestARunSentTwiceArrives(t *testing.T) {
	t.Parallel()
	clients, replayed := lossy(t)
	queues, _ := newQueues(t, clients)
	err := replayed(func(ctx context.Context) error {
		return queues.Send(ctx, platform.Message{Queue: platform.Runs, Group: "tenant", Body: []byte(`{}`)})
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := queues.Receive(t.Context(), platform.Runs, 10, time.Minute); err != nil || len(got) == 0 {
		t.Errorf("received %v (%v)", got, err)
	}
}

func TestAScheduleCreatedOrDeletedTwiceSucceeds(t *testing.T) {
	t.Parallel()
	clients, replayed := lossy(t)
	timer, _ := newTimer(t, clients, time.Now)
	tick := platform.Message{Queue: platform.Ticks, Dedup: "tick-1", Body: []byte(`{}`), Delay: time.Hour}
	if err := replayed(func(ctx context.Context) error { return timer.Send(ctx, tick) }); err != nil {
		t.Errorf("creating twice: %v", err)
	}
	if err := replayed(func(ctx context.Context) error { return timer.Delete(ctx, tick.Dedup) }); err != nil {
		t.Errorf("deleting twice: %v", err)
	}
}

func TestABlobWrittenOrDeletedTwiceIsTheSame(t *testing.T) {
	t.Parallel()
	clients, replayed := lossy(t)
	blobs := newBlobs(t, clients)
	if err := replayed(func(ctx context.Context) error { return blobs.PutBlob(ctx, "b", []byte("data")) }); err != nil {
		t.Errorf("writing twice: %v", err)
	}
	if got, err := blobs.GetBlob(t.Context(), "b"); err != nil || string(got) != "data" {
		t.Errorf("got %q (%v)", got, err)
	}
	if err := replayed(func(ctx context.Context) error { return blobs.DeleteBlob(ctx, "b") }); err != nil {
		t.Errorf("deleting twice: %v", err)
	}
}

// newTimer returns a timer whose schedules target the ticks queue behind it.
func newTimer(t *testing.T, clients *awsclient.Clients, now func() time.Time) (*schedulertimer.Timer, platform.Receiver) {
	t.Helper()
	queues, urls := newQueues(t, clients)
	group := endpoint.Name("group")
	if _, err := clients.Scheduler.CreateScheduleGroup(t.Context(), &scheduler.CreateScheduleGroupInput{Name: &group}); err != nil {
		t.Fatal(err)
	}
	return schedulertimer.New(queues, clients.Scheduler, schedulertimer.Config{
		Group:         group,
		TargetARN:     queueARN(t, clients, urls[platform.Ticks].Queue),
		RoleARN:       "arn:aws:iam::000000000000:role/scheduler",
		DeadLetterARN: queueARN(t, clients, urls[platform.Ticks].DeadLetters),
		MaxAttempts:   5,
		MaxAge:        time.Hour,
		Now:           now,
	}), queues
}
