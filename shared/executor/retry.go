package executor

import (
	"errors"
	"time"

	"github.com/errand-dev/errand/shared/ledger"
)

// RetryError asks for the message to be delivered again, not before After has passed.
type RetryError struct {
	After time.Duration
	Err   error
}

func (e *RetryError) Error() string { return e.Err.Error() }
func (e *RetryError) Unwrap() error { return e.Err }

// RetryAfter is how long a message of turns or runs stays hidden whose handling failed
// with err, after it was handed out receives times. What can never be handled comes soon:
// the sooner it is a dead letter, for all to see. Anything else is trouble with the
// platform: the pauses add up to six minutes, so that an outage of a few does not turn
// accepted work into dead letters.
func RetryAfter(err error, receives int) time.Duration {
	if again, ok := errors.AsType[*RetryError](err); ok {
		return again.After
	}
	switch {
	case errors.Is(err, ledger.ErrPoison), receives <= 1:
		return time.Second
	case receives == 2:
		return 10 * time.Second
	case receives == 3:
		return time.Minute
	}
	return 5 * time.Minute
}
