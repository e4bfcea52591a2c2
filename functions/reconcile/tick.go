package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/errand-dev/errand/shared/cloud"
	"github.com/errand-dev/errand/shared/config"
	"github.com/errand-dev/errand/shared/ledger"
	"github.com/errand-dev/errand/shared/platform"
	"github.com/errand-dev/errand/shared/sqsbatch"
	"github.com/errand-dev/errand/shared/subagent"
)

const (
	visibility = 2 * time.Minute
	stopBefore = 5 * time.Second
	// deadPause is how long a dead tick rests before it is sent again: what killed it
	// may be a disturbance that a flood of repairs would feed.
	deadPause = time.Minute
	// poisonPause is the longest that SQS can hide a message.
	poisonPause = 12 * time.Hour
)

type reconciler interface {
	Tick(context.Context, ledger.Wake) error
	Repair(context.Context, subagent.Owner) error
}

// ticks handles every kind of invocation.
type ticks struct {
	reconciler reconciler
	batch      *sqsbatch.Handler
}

func newTicks(cfg config.Reconcile, r reconciler, receiver platform.Receiver, log *slog.Logger) *ticks {
	t := &ticks{reconciler: r}
	t.batch = &sqsbatch.Handler{
		Queues:   map[string]string{sqsbatch.Name(cfg.TicksURL): platform.Ticks, sqsbatch.Name(cfg.DeadTicksURL): cloud.DeadTicks},
		Receiver: receiver, Handle: t.handle, RetryAfter: retryAfter,
		Visibility: visibility, Concurrency: cfg.Concurrency, StopBefore: stopBefore, Log: log,
	}
	return t
}

// invoke handles a batch of SQS, or else the payload of a schedule. An error of the
// latter has Lambda try again, and then send the payload to the ticks queue.
func (t *ticks) invoke(ctx context.Context, payload json.RawMessage) (any, error) {
	var kind struct {
		Records json.RawMessage `json:"Records"`
	}
	if err := json.Unmarshal(payload, &kind); err != nil {
		return nil, fmt.Errorf("reading the payload: %w", err)
	}
	if kind.Records == nil {
		wake, err := parse(payload)
		if err != nil {
			return nil, err
		}
		return nil, t.reconciler.Tick(ctx, wake)
	}
	var event events.SQSEvent
	if err := json.Unmarshal(payload, &event); err != nil {
		return nil, fmt.Errorf("reading the batch: %w", err)
	}
	return t.batch.Do(ctx, event)
}

// errRests keeps a dead tick in its queue for deadPause.
var errRests = errors.New("a dead tick rests before it is sent again")

func (t *ticks) handle(ctx context.Context, r platform.Received) error {
	wake, err := parse(r.Body)
	switch {
	case err != nil && r.Queue == cloud.DeadTicks:
		return &deadPoisonError{err}
	case err != nil:
		return err
	case r.Queue == platform.Ticks:
		return t.reconciler.Tick(ctx, wake)
	case r.Receives == 1:
		return errRests
	case wake.Timer != nil:
		return t.reconciler.Tick(ctx, wake)
	}
	return t.reconciler.Repair(ctx, wake.Owner)
}

// deadPoisonError is what can be handled neither now nor later, and is dead already. It
// stays where it is until an operator removes it.
type deadPoisonError struct{ error }

func (e *deadPoisonError) Unwrap() error { return e.error }

// parse reads a tick, as sent or in the envelope in which Lambda reports an invocation
// by a schedule that failed.
func parse(body []byte) (ledger.Wake, error) {
	var envelope struct {
		Payload json.RawMessage `json:"requestPayload"`
	}
	if json.Unmarshal(body, &envelope) == nil && envelope.Payload != nil {
		body = envelope.Payload
	}
	return ledger.ParseWake(platform.Ticks, body)
}

func retryAfter(err error, receives int) time.Duration {
	switch {
	case errors.Is(err, errRests):
		return deadPause
	case errors.As(err, new(*deadPoisonError)):
		return poisonPause
	case errors.Is(err, sqsbatch.ErrNotBegun):
		return 0
	case errors.Is(err, ledger.ErrPoison):
		return time.Second
	}
	return subagent.Backoff(receives) / 5
}
