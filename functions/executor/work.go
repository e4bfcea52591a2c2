package main

import (
	"context"
	"errors"
	"time"

	"github.com/errand-dev/errand/shared/executor"
	"github.com/errand-dev/errand/shared/ledger"
	"github.com/errand-dev/errand/shared/platform"
	"github.com/errand-dev/errand/shared/sqsbatch"
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

// retryAfter is executor.RetryAfter for what was begun.
func retryAfter(err error, receives int) time.Duration {
	if errors.Is(err, sqsbatch.ErrNotBegun) {
		return 0
	}
	return executor.RetryAfter(err, receives)
}
