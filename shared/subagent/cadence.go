package subagent

import (
	"errors"
	"time"
)

// Cadence is the table of pauses between ticks. The index rises with each tick, the
// last pause repeats, a new dispatch begins again at the first.
type Cadence []time.Duration

// DefaultCadence is 5, 15, 30, 120 s.
var DefaultCadence = Cadence{5 * time.Second, 15 * time.Second, 30 * time.Second, 120 * time.Second}

// First is the pause before the first tick.
func (c Cadence) First() time.Duration { return c[0] }

// Next returns the index and the pause that follow index.
func (c Cadence) Next(index int) (int, time.Duration) {
	next := min(max(index, 0)+1, len(c)-1)
	return next, c[next]
}

// Until shortens a pause that begins at now so that it ends when something is due, but
// not below the first pause.
func (c Cadence) Until(pause time.Duration, due Time, now time.Time) time.Duration {
	if due == 0 {
		return pause
	}
	return min(pause, max(due.Time().Sub(now), c.First()))
}

// Validate refuses an empty table and pauses that are not positive.
func (c Cadence) Validate() error {
	if len(c) == 0 {
		return errors.New("the cadence is empty")
	}
	for _, d := range c {
		if d <= 0 {
			return errors.New("a pause of the cadence is not positive")
		}
	}
	return nil
}
