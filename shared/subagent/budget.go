package subagent

import (
	"errors"
	"fmt"
	"time"

	"github.com/errand-dev/errand/shared/money"
)

// Default and largest budgets of a detached run.
const (
	DefaultMaxBudget        = 24 * time.Hour
	DefaultNoProgressBudget = time.Hour
	LongestBudget           = 365 * 24 * time.Hour
)

// ErrInvalidBudget is wrapped by every refusal of a budget.
var ErrInvalidBudget = errors.New("invalid budget")

// Budget bounds how long a detached run is waited for, and what it may cost.
type Budget struct {
	// Max is the absolute ceiling, counted from the dispatch. Zero means the default,
	// Unlimited none.
	Max time.Duration
	// NoProgress is the longest silence after a first signal. Zero means the
	// default, Unlimited none.
	NoProgress time.Duration
	// MaxTokens and MaxCost bound the model calls of the run and of all below it,
	// together. Zero means no bound.
	MaxTokens int64
	MaxCost   money.USD
}

// Allowance is what the run and all below it may spend.
func (b Budget) Allowance() Allowance { return Allowance{Tokens: b.MaxTokens, Cost: b.MaxCost} }

// Budget is what the run was dispatched with, as far as its row tells: the reverse of Bounds.
func (r Run) Budget() Budget {
	b := Budget{Max: Unlimited, NoProgress: Unlimited}
	if r.Deadline != 0 {
		b.Max = time.Duration(r.Deadline-r.DispatchedAt) * time.Millisecond
	}
	if r.Silence != 0 {
		b.NoProgress = time.Duration(r.Silence) * time.Millisecond
	}
	limit := r.Limit()
	b.MaxTokens, b.MaxCost = limit.Tokens, limit.Cost
	return b
}

// Unlimited switches a bound off.
const Unlimited = time.Duration(-1)

// Validate refuses negative and absurd bounds.
func (b Budget) Validate() error {
	for _, bound := range []struct {
		name string
		d    time.Duration
	}{{"max budget", b.Max}, {"no-progress budget", b.NoProgress}} {
		if bound.d < 0 && bound.d != Unlimited || bound.d > LongestBudget {
			return fmt.Errorf("%w: the %s must lie between 1 ms and %d days", ErrInvalidBudget, bound.name, int(LongestBudget.Hours()/24))
		}
	}
	if b.MaxTokens < 0 || b.MaxCost < 0 {
		return fmt.Errorf("%w: the bounds of tokens and of cost must not be negative", ErrInvalidBudget)
	}
	return nil
}

// Bounds returns the absolute deadline (zero: never) and the silence window in
// milliseconds (zero: none) of a run dispatched at now.
func (b Budget) Bounds(now time.Time) (deadline Time, silence int64) {
	ceiling, quiet := b.Max, b.NoProgress
	if ceiling == 0 {
		ceiling = DefaultMaxBudget
	}
	if quiet == 0 {
		quiet = DefaultNoProgressBudget
	}
	if ceiling != Unlimited {
		deadline = At(now.Add(ceiling))
	}
	if quiet != Unlimited {
		silence = quiet.Milliseconds()
	}
	return deadline, silence
}
