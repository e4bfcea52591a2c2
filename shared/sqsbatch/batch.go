// Package sqsbatch handles the batch of messages by which SQS invokes a Lambda. It
// answers with the ids of those that failed, so that the others are deleted; it keeps
// the messages hidden while it works; and it works off the messages of one FIFO group
// in order, up to the first that fails.
package sqsbatch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"golang.org/x/sync/errgroup"

	"github.com/errand-dev/errand/shared/platform"
	"github.com/errand-dev/errand/shared/sqsqueue"
	"github.com/errand-dev/errand/shared/worker"
)

// Handler handles batches. Every field is needed.
type Handler struct {
	// Queues names the queue of package platform that a message came from, by the name
	// of the SQS queue (Name).
	Queues map[string]string
	// Receiver extends the visibility of messages; it must know the same queues.
	Receiver platform.Receiver
	// Handle handles one message. After an error the message comes again.
	Handle worker.Handle
	// RetryAfter says how long to hide a message whose handling failed.
	RetryAfter func(err error, receives int) time.Duration
	// Visibility is how long a message stays hidden that is being worked on, from each
	// extension on. A message of a FIFO queue gets it at once: if its executor dies it
	// blocks its group, and the queue's own visibility is longer than any invocation.
	Visibility time.Duration
	// Concurrency is how many messages are worked on at a time.
	Concurrency int
	// StopBefore is how long before the end of the invocation no message is begun any
	// more; of a short invocation it is a quarter.
	StopBefore time.Duration
	Log        *slog.Logger
}

// Name returns the last part of a queue's URL or ARN, which is its name.
func Name(queue string) string { return queue[strings.LastIndexAny(queue, "/:")+1:] }

// ErrNotBegun is what a message fails with that was not begun: one before it in its
// group failed, or the invocation is about to end.
var ErrNotBegun = errors.New("not begun")

// message is one record of the batch.
type message struct {
	platform.Received
	fifo   bool
	group  string
	stop   func() // ends the extension of its visibility
	failed bool
}

// Do handles the batch. The list of failures is never nil: some endpoints take null
// for a failure of the whole batch.
func (h *Handler) Do(ctx context.Context, event events.SQSEvent) (events.SQSEventResponse, error) {
	messages := make([]*message, len(event.Records))
	for i, record := range event.Records {
		m, err := h.decode(ctx, record)
		if err != nil {
			// Nothing was begun: the whole batch comes again.
			return events.SQSEventResponse{}, err
		}
		messages[i] = m
	}
	// A message whose work is done stays hidden too: it is deleted with the batch.
	for _, m := range messages {
		m.stop = h.hide(ctx, m)
		defer m.stop()
	}
	lastStart := h.lastStart(ctx)
	var workers errgroup.Group
	workers.SetLimit(h.Concurrency)
	for _, group := range groups(messages) {
		workers.Go(func() error {
			h.inOrder(ctx, group, lastStart)
			return nil
		})
	}
	_ = workers.Wait()
	response := events.SQSEventResponse{BatchItemFailures: []events.SQSBatchItemFailure{}}
	for _, m := range messages {
		if m.failed {
			response.BatchItemFailures = append(response.BatchItemFailures, events.SQSBatchItemFailure{ItemIdentifier: m.ID})
		}
	}
	return response, nil
}

func (h *Handler) decode(ctx context.Context, record events.SQSMessage) (*message, error) {
	queue, ok := h.Queues[Name(record.EventSourceARN)]
	if !ok {
		return nil, fmt.Errorf("message %s came from %q, which is no queue of this function", record.MessageId, record.EventSourceARN)
	}
	r, err := sqsqueue.FromEvent(queue, record)
	if err != nil {
		return nil, err
	}
	return &message{Received: r, fifo: strings.HasSuffix(record.EventSourceARN, ".fifo"), group: record.Attributes["MessageGroupId"]}, nil
}

// hide keeps the message hidden until stop.
func (h *Handler) hide(ctx context.Context, m *message) (stop func()) {
	release := worker.KeepHidden(ctx, h.Receiver, m.Received, h.Visibility, h.Log)
	if !m.fifo {
		return release
	}
	var first sync.WaitGroup
	first.Go(func() {
		if err := h.Receiver.Extend(ctx, m.Received, h.Visibility); err != nil {
			h.Log.WarnContext(ctx, "setting visibility failed", "queue", m.Queue, "message_id", m.ID, "error", err)
		}
	})
	return func() {
		first.Wait()
		release()
	}
}

// lastStart is when the last message may be begun; zero if any time.
func (h *Handler) lastStart(ctx context.Context) time.Time {
	deadline, ok := ctx.Deadline()
	if !ok {
		return time.Time{}
	}
	return deadline.Add(-min(h.StopBefore, time.Until(deadline)/4))
}

// groups returns the messages that must be handled in order, in the order in which the
// batch brings the first of each. Messages of a standard queue have no order.
func groups(messages []*message) [][]*message {
	var all [][]*message
	place := map[string]int{}
	for _, m := range messages {
		if !m.fifo {
			all = append(all, []*message{m})
			continue
		}
		n, known := place[m.group]
		if !known {
			n = len(all)
			place[m.group], all = n, append(all, nil)
		}
		all[n] = append(all[n], m)
	}
	return all
}

// inOrder handles messages up to the first that fails. That one and all behind it fail:
// what a FIFO group is not told of is deleted.
func (h *Handler) inOrder(ctx context.Context, group []*message, lastStart time.Time) {
	for i, m := range group {
		err := ErrNotBegun
		if lastStart.IsZero() || time.Now().Before(lastStart) {
			err = h.Handle(ctx, m.Received)
		}
		if err == nil {
			continue
		}
		after := h.RetryAfter(err, m.Receives)
		h.Log.WarnContext(ctx, "message will be delivered again", "queue", m.Queue, "message_id", m.ID,
			"receives", m.Receives, "body_bytes", len(m.Body), "after_ms", after.Milliseconds(), "behind", len(group)-i-1, "error", err)
		for _, m := range group[i:] {
			h.giveBack(ctx, m, after)
		}
		return
	}
}

// giveBack makes the message visible again after a pause.
func (h *Handler) giveBack(ctx context.Context, m *message, after time.Duration) {
	m.failed = true
	m.stop()
	if err := h.Receiver.Extend(context.WithoutCancel(ctx), m.Received, after); err != nil {
		// It comes back when its visibility ends.
		h.Log.ErrorContext(ctx, "returning failed", "queue", m.Queue, "message_id", m.ID, "error", err)
	}
}
