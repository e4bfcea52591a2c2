// Package worker takes messages from a queue and hands them to a handler, several at
// a time, keeping each hidden while it is worked on. It stands where Lambda's event
// source mapping stands on AWS.
package worker

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/errand-dev/errand/shared/platform"
)

// Handle handles one message. A nil error acknowledges it; any other leaves it to be
// delivered again, after RetryAfter's pause.
type Handle func(ctx context.Context, r platform.Received) error

// Pool works off one queue.
type Pool struct {
	Queue    string
	Receiver platform.Receiver
	Handle   Handle
	// Size is how many messages are handled at a time.
	Size int
	// Visibility is how long a message stays hidden; it is extended while it is handled.
	Visibility time.Duration
	// RetryAfter says how long to hide a message whose handling failed.
	RetryAfter func(err error, receives int) time.Duration
	Log        *slog.Logger
}

// Run works until ctx ends, and returns when what was begun has ended. work is the
// context of the handlers: it may outlive ctx for a graceful stop.
func (p *Pool) Run(ctx, work context.Context) {
	var handlers sync.WaitGroup
	defer handlers.Wait()
	free := make(chan struct{}, p.Size)
	for {
		select {
		case free <- struct{}{}:
		case <-ctx.Done():
			return
		}
		batch := 1 + p.reserve(free)
		received, err := p.Receiver.Receive(ctx, p.Queue, batch, p.Visibility)
		if err != nil && ctx.Err() == nil {
			p.Log.ErrorContext(ctx, "receiving failed", "queue", p.Queue, "error", err)
			wait(ctx, time.Second)
		}
		for range batch - len(received) {
			<-free
		}
		for _, r := range received {
			handlers.Go(func() {
				defer func() { <-free }()
				p.handle(work, r)
			})
		}
	}
}

// reserve takes further free places, so that one receive can fill them all.
func (p *Pool) reserve(free chan struct{}) int {
	const batch = 10
	n := 0
	for n < batch-1 {
		select {
		case free <- struct{}{}:
			n++
		default:
			return n
		}
	}
	return n
}

func (p *Pool) handle(ctx context.Context, r platform.Received) {
	message := r
	r.Body = nil // only the handler needs it, and it may take long
	keep := KeepHidden(ctx, p.Receiver, r, p.Visibility, p.Log)
	err := p.Handle(ctx, message)
	keep()
	// The message must go, or come back, also while the process stops.
	ctx = context.WithoutCancel(ctx)
	if err == nil {
		if err := p.acknowledge(ctx, r); err != nil {
			p.Log.ErrorContext(ctx, "acknowledging failed", "queue", p.Queue, "message_id", r.ID, "error", err)
		}
		return
	}
	p.Log.WarnContext(ctx, "message will be delivered again", "queue", p.Queue, "message_id", r.ID, "receives", r.Receives, "error", err)
	if err := p.Receiver.Extend(ctx, r, p.RetryAfter(err, r.Receives)); err != nil {
		p.Log.ErrorContext(ctx, "returning failed", "queue", p.Queue, "message_id", r.ID, "error", err)
	}
}

// acknowledge deletes a message that was handled. Where it can, it does not wait for
// the disk: to handle a message twice is harmless, and costs less than to wait each time.
func (p *Pool) acknowledge(ctx context.Context, r platform.Received) error {
	if later, ok := p.Receiver.(interface {
		AcknowledgeSoon(r platform.Received) error
	}); ok {
		return later.AcknowledgeSoon(r)
	}
	return p.Receiver.Acknowledge(ctx, r)
}

// KeepHidden extends the visibility of a message until stop is called.
func KeepHidden(ctx context.Context, receiver platform.Receiver, r platform.Received, visibility time.Duration, log *slog.Logger) (stop func()) {
	var mu sync.Mutex
	stopped := false
	var timer *time.Timer
	mu.Lock()
	defer mu.Unlock()
	timer = time.AfterFunc(visibility/3, func() {
		mu.Lock()
		defer mu.Unlock()
		if stopped {
			return
		}
		if err := receiver.Extend(ctx, r, visibility); err != nil && !errors.Is(err, context.Canceled) {
			log.WarnContext(ctx, "extending visibility failed", "queue", r.Queue, "message_id", r.ID, "error", err)
		}
		timer.Reset(visibility / 3)
	})
	return func() {
		mu.Lock()
		defer mu.Unlock()
		stopped = true
		timer.Stop()
	}
}

func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
