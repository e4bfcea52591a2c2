package main

import (
	"context"
	"errors"
	"time"

	"github.com/errand-dev/errand/shared/executor"
	"github.com/errand-dev/errand/shared/ledger"
	"github.com/errand-dev/errand/shared/platform"
	"github.com/errand-dev/errand/shared/sqsbatch"
	"github.com/errand-dev/errand/shared/subagent"
)

// visibility is how long the message of a turn whose executor died stays hidden: longer
// than the turn's lease. Its third is when a run begins to pay for being kept hidden.
const visibility = 90 * time.Second

// work hands a message to the executor.
type work struct {
	executor interface {
		Run(context.Context, ledger.Wake) error
		Turn(ctx context.Context, w ledger.Wake, receives int) error
	}
}

func (w work) handle(ctx context.Context, r platform.Received) error {
	wake, err := ledger.ParseWake(r.Queue, r.Body)
	if err != nil {
		return err
	}
	if r.Queue == platform.Turns {
		return w.executor.Turn(ctx, wake, r.Receives)
	}
	return w.executor.Run(ctx, wake)
}

// retryAfter says when a message that failed comes again. What can never be handled
// does so soon: the sooner it is a dead letter, for all to see.
func retryAfter(err error, receives int) time.Duration {
	again, ok := errors.AsType[*executor.RetryError](err)
	switch {
	case ok:
		return again.After
	case errors.Is(err, sqsbatch.ErrNotBegun):
		return 0
	case errors.Is(err, ledger.ErrPoison):
		return time.Second
	}
	return subagent.Backoff(receives) / 5
}
