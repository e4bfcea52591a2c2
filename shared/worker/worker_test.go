package worker_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/errand-dev/errand/shared/platform"
	"github.com/errand-dev/errand/shared/worker"
)

// desk hands out messages once and keeps what was done to them.
type desk struct {
	platform.Receiver
	mu       sync.Mutex
	waiting  []platform.Received
	acked    []string
	extended map[string][]time.Duration
}

func (d *desk) Receive(ctx context.Context, _ string, limit int, _ time.Duration) ([]platform.Received, error) {
	d.mu.Lock()
	n := min(limit, len(d.waiting))
	batch := d.waiting[:n]
	d.waiting = d.waiting[n:]
	d.mu.Unlock()
	if n > 0 {
		return batch, nil
	}
	<-ctx.Done()
	return nil, ctx.Err()
}

func (d *desk) Acknowledge(_ context.Context, r platform.Received) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.acked = append(d.acked, r.ID)
	return nil
}

func (d *desk) Extend(_ context.Context, r platform.Received, by time.Duration) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.extended[r.ID] = append(d.extended[r.ID], by)
	return nil
}

func TestAPoolKeepsHidesAndReturnsMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &desk{extended: map[string][]time.Duration{}}
		for _, id := range []string{"slow", "bad", "quick"} {
			d.waiting = append(d.waiting, platform.Received{ID: id, Message: platform.Message{Body: []byte(id)}})
		}
		var mu sync.Mutex
		atWork, most := 0, 0
		pool := worker.Pool{
			Queue: platform.Runs, Receiver: d, Size: 2, Visibility: 30 * time.Second, Log: slog.New(slog.DiscardHandler),
			RetryAfter: func(error, int) time.Duration { return 7 * time.Second },
			Handle: func(_ context.Context, r platform.Received) error {
				mu.Lock()
				atWork++
				most = max(most, atWork)
				mu.Unlock()
				defer func() { mu.Lock(); atWork--; mu.Unlock() }()
				switch string(r.Body) {
				case "slow":
					time.Sleep(35 * time.Second)
				case "bad":
					time.Sleep(time.Second)
					return errors.New("not today")
				}
				return nil
			},
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); pool.Run(ctx, t.Context()) }()
		time.Sleep(10 * time.Second)
		cancel()
		<-done // what was begun ends first
		if most != 2 {
			t.Errorf("%d messages were handled at a time, want 2", most)
		}
		if len(d.acked) != 2 || d.acked[0] != "quick" || d.acked[1] != "slow" {
			t.Errorf("acknowledged %v", d.acked)
		}
		if got := d.extended["slow"]; len(got) != 3 || got[0] != 30*time.Second {
			t.Errorf("the slow message was hidden again %v, want three times 30 s", got)
		}
		if got := d.extended["bad"]; len(got) != 1 || got[0] != 7*time.Second {
			t.Errorf("the failed message comes back after %v, want 7 s", got)
		}
	})
}
