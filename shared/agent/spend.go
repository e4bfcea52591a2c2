package agent

import (
	"context"
	"errors"
	"fmt"

	"github.com/errand-dev/errand/shared/subagent"
)

// Call is one call of a model, as the accounts see it.
type Call struct {
	// Key names the call in its run or turn: the same key is the same call, also when the
	// code is executed again. Numbered keys, like ask:12, take the least room.
	Key string
	// Models are the names that the model goes by, the best first; the first one that the
	// price table knows counts.
	Models []string
	// Usage is the estimate when a call is reserved, what the vendor billed afterwards.
	Usage subagent.Usage
	// Limit is what the run or turn may spend on its own calls, besides the limits of the
	// runs that pay for it. It is the same for every call.
	Limit subagent.Allowance
}

// Spender keeps the accounts of model calls. Around a call come Reserve, the call, the
// step that keeps its answer, and Settle. Where no limit is set only Settle writes.
type Spender interface {
	// Reserve sets money aside for a call that is about to be made. Errors that forbid it:
	// *BudgetError, *UnpricedError.
	Reserve(ctx context.Context, c Call) error
	// Settle books what a call has cost whose answer is kept. Settling again changes nothing.
	Settle(ctx context.Context, c Call) error
	// Release gives back what was reserved for a call that was not billed.
	Release(ctx context.Context, key string) error
	// Lose books a call whose answer is not kept, so that it may have to be made again. With
	// no usage it is not known whether it was billed, and its estimate counts.
	Lose(ctx context.Context, c Call) error
	// Raise allows more than the limit that refused a call, once for each question: people
	// have agreed to it.
	Raise(ctx context.Context, question string, over *BudgetError) error
	// Spend books a call that was not reserved. A *BudgetError says that a limit is passed.
	Spend(ctx context.Context, c Call) error
}

// BudgetError refuses a call that would pass a limit. It was not made.
type BudgetError struct {
	// Run is the run whose limit it is; empty for the limit of the agent itself.
	Run string
	// Limit is what it is now, First what it was before people have raised it.
	Limit    subagent.Allowance
	First    subagent.Allowance
	Spent    subagent.Spend
	Reserved subagent.Spend
	Estimate subagent.Spend
}

// Whose says whose limit it is.
func (e *BudgetError) Whose() string {
	if e.Run == "" {
		return "this agent's run"
	}
	return "run " + e.Run + " with all below it"
}

func (e *BudgetError) Error() string {
	whose := e.Whose()
	if then := e.Spent.Plus(e.Reserved).Plus(e.Estimate); e.Limit.Tokens > 0 && then.Tokens() > e.Limit.Tokens {
		return fmt.Sprintf("budget exceeded: %s may use %d tokens and has used %d, with %d reserved; the next call may take %d",
			whose, e.Limit.Tokens, e.Spent.Tokens(), e.Reserved.Tokens(), e.Estimate.Tokens())
	}
	return fmt.Sprintf("budget exceeded: %s may spend %v and has spent %v, with %v reserved; the next call may cost %v",
		whose, e.Limit.Cost, e.Spent.Cost, e.Reserved.Cost, e.Estimate.Cost)
}

// More is what people are asked to allow: the limit once more, or what the call needs.
func (e *BudgetError) More() subagent.Allowance {
	var more subagent.Allowance
	if e.First.Tokens > 0 {
		more.Tokens = max(e.First.Tokens, e.Estimate.Tokens())
	}
	if e.First.Cost > 0 {
		more.Cost = max(e.First.Cost, e.Estimate.Cost)
	}
	return more
}

// UnpricedError refuses a call whose cost is not known, where a limit in US dollars is
// to be kept.
type UnpricedError struct{ Model string }

func (e *UnpricedError) Error() string {
	if e.Model == "" {
		return "a limit in US dollars cannot be kept: the model has no name before its first answer; set the agent's ModelName"
	}
	return fmt.Sprintf("a limit in US dollars cannot be kept: the model %q has no price; give it one with errand serve --prices FILE or, on AWS, ERRAND_PRICES, or limit tokens instead", e.Model)
}

// Overspent reports whether err says that a limit of tokens or money ended the work.
func Overspent(err error) bool {
	_, over := errors.AsType[*BudgetError](err)
	return over
}

// Spender keeps the accounts of the run's or turn's model calls, for code that makes them
// itself and wants limits to be kept.
func (w *Work) Spender() Spender { return w.backend }

// Spend books a model call that the task has made itself: what it cost is known afterwards
// only, so a limit that it passes is reported, with a *BudgetError, when it is passed. Call it
// behind the step that keeps the answer; the same key is booked once.
func (r *Run) Spend(ctx context.Context, key, model string, u subagent.Usage) error {
	if err := subagent.CheckID(key); err != nil {
		return fmt.Errorf("spend %q: %w", key, err)
	}
	if min(u.Input, u.Output, u.CacheRead, u.CacheWrite) < 0 {
		return fmt.Errorf("spend %q: a count of tokens is negative", key)
	}
	return r.backend.Spend(ctx, Call{Key: key, Models: []string{model}, Usage: u})
}
