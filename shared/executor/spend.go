package executor

import (
	"context"
	"errors"
	"slices"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/ledger"
	"github.com/errand-dev/errand/shared/subagent"
)

// Reserve implements agent.Spender.
func (p *purse) Reserve(ctx context.Context, c agent.Call) error {
	entry, priced := p.exec.Prices.Find(c.Models...)
	estimate := spendOf(c.Usage, entry.Ceiling, priced)
	limits := append([]subagent.Allowance{c.Limit}, limitsOf(p.payers)...)
	if !priced && slices.ContainsFunc(limits, func(a subagent.Allowance) bool { return a.Cost > 0 }) {
		return &agent.UnpricedError{Model: firstOf(c.Models)}
	}
	p.mu.Lock()
	p.open[c.Key] = pending{c, estimate}
	p.mu.Unlock()
	if !p.limited(c) {
		return nil
	}
	at, account, err := p.reserve(ctx, c.Key, estimate, limits)
	if !errors.Is(err, errRefused) {
		return err
	}
	if err := p.refused(ctx, c.Key, at); err != nil {
		return err
	}
	refusal := &agent.BudgetError{Limit: limits[at].Plus(account.Raised), First: limits[at], Spent: account.Spent, Reserved: account.Reserved(), Estimate: estimate}
	if at > 0 {
		refusal.Run = p.payers[at-1].Run
	}
	return refusal
}

var errRefused = errors.New("an account refuses the call")

// reserve reserves the call in all accounts, together where the platform can do that. With
// errRefused it returns the account that refuses, and its place.
func (p *purse) reserve(ctx context.Context, key string, estimate subagent.Spend, limits []subagent.Allowance) (at int, account subagent.Account, err error) {
	err = p.exec.Ledger.Atomically(ctx, func(l *ledger.Ledger) error {
		for i, of := range p.accounts() {
			a, outcome, err := p.update(ctx, l, of, func(a subagent.Account) (subagent.Account, subagent.Outcome) {
				return a.Reserve(p.key(of, key), p.by, estimate, limits[i])
			})
			if err != nil {
				return err
			}
			if !outcome.OK() {
				at, account = i, a
				return errRefused
			}
		}
		return nil
	})
	if err != nil {
		p.forget()
	}
	return at, account, err
}

// refused undoes what was reserved before the account that refuses, and books what a dead
// execution has left in it.
func (p *purse) refused(ctx context.Context, key string, at int) error {
	ctx = context.WithoutCancel(ctx)
	if err := p.Release(ctx, key); err != nil {
		return err
	}
	of := p.accounts()[at]
	_, _, err := p.update(ctx, p.exec.Ledger, of, func(a subagent.Account) (subagent.Account, subagent.Outcome) {
		return a.Abandon(p.key(of, key), p.by)
	})
	return err
}

// Raise implements agent.Spender.
func (p *purse) Raise(ctx context.Context, question string, over *agent.BudgetError) error {
	of := p.own
	for i, payer := range p.payers {
		if payer.Run == over.Run {
			of = p.trees[i]
		}
	}
	_, _, err := p.update(ctx, p.exec.Ledger, of, func(a subagent.Account) (subagent.Account, subagent.Outcome) {
		return a.Raise(p.key(of, question), over.More())
	})
	return err
}

// Settle implements agent.Spender.
func (p *purse) Settle(ctx context.Context, c agent.Call) error {
	ctx = context.WithoutCancel(ctx)
	if done, err := p.settled(ctx, c); done || err != nil {
		return err
	}
	spend := p.actual(c)
	_, outcome, err := p.update(ctx, p.exec.Ledger, p.own, func(a subagent.Account) (subagent.Account, subagent.Outcome) {
		return a.Record(c.Key, spend)
	})
	if err != nil {
		return err
	}
	for _, tree := range p.trees {
		_, _, err := p.update(ctx, p.exec.Ledger, tree, func(a subagent.Account) (subagent.Account, subagent.Outcome) {
			return a.Settle(p.key(tree, c.Key), spend)
		})
		if err != nil {
			return err
		}
	}
	p.close(c.Key, spend, outcome == subagent.Apply)
	return nil
}

// settled reports whether an execution before this one has settled the call everywhere.
func (p *purse) settled(ctx context.Context, c agent.Call) (bool, error) {
	if p.made(c.Key) {
		return false, nil
	}
	accounts, err := p.read(ctx)
	if err != nil || !accounts[0].Settled.Has(c.Key) {
		return false, err
	}
	for i, tree := range p.trees {
		if _, open := accounts[i+1].Open[p.key(tree, c.Key)]; open {
			return false, nil
		}
	}
	return true, nil
}

// Release implements agent.Spender.
func (p *purse) Release(ctx context.Context, key string) error {
	if !p.made(key) {
		return p.unmake(ctx, key, func(a subagent.Account, key string) (subagent.Account, subagent.Outcome) {
			return a.Settle(key, subagent.Spend{})
		})
	}
	return p.forfeit(ctx, key, subagent.Spend{})
}

// Lose implements agent.Spender.
func (p *purse) Lose(ctx context.Context, c agent.Call) error {
	unknown := c.Usage == (subagent.Usage{})
	switch {
	case unknown && !p.made(c.Key):
		return p.unmake(ctx, c.Key, func(a subagent.Account, key string) (subagent.Account, subagent.Outcome) {
			return a.Abandon(key, p.by)
		})
	case unknown:
		p.mu.Lock()
		lost := p.open[c.Key].estimate.Doubted()
		p.mu.Unlock()
		return p.forfeit(ctx, c.Key, lost)
	}
	return p.forfeit(ctx, c.Key, p.actual(c))
}

// made reports whether this execution has made the call.
func (p *purse) made(key string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, made := p.open[key]
	return made
}

// unmake ends the reservation of a call that an execution before this one has made in the
// background, and that failed there: this one has looked for its answer.
func (p *purse) unmake(ctx context.Context, key string, rule func(a subagent.Account, key string) (subagent.Account, subagent.Outcome)) error {
	ctx = context.WithoutCancel(ctx)
	for _, of := range p.accounts() {
		_, _, err := p.update(ctx, p.exec.Ledger, of, func(a subagent.Account) (subagent.Account, subagent.Outcome) {
			return rule(a, p.key(of, key))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (p *purse) forfeit(ctx context.Context, key string, lost subagent.Spend) error {
	ctx = context.WithoutCancel(ctx)
	p.mu.Lock()
	held, known := p.open[key]
	p.mu.Unlock()
	if !known {
		return nil
	}
	switch {
	case p.limited(held.call):
		for _, of := range p.accounts() {
			_, _, err := p.update(ctx, p.exec.Ledger, of, func(a subagent.Account) (subagent.Account, subagent.Outcome) {
				return a.Forfeit(p.key(of, key), p.by, lost)
			})
			if err != nil {
				return err
			}
		}
	case lost.Calls > 0:
		if _, _, err := p.update(ctx, p.exec.Ledger, p.own, func(a subagent.Account) (subagent.Account, subagent.Outcome) { return a.Add(lost) }); err != nil {
			return err
		}
	}
	p.close(key, lost, lost.Calls > 0)
	return nil
}

// Spend implements agent.Spender. The reservation, of nothing, lets the payers book the
// call once: it is there until they have.
func (p *purse) Spend(ctx context.Context, c agent.Call) error {
	accounts, err := p.read(ctx)
	if err != nil {
		return err
	}
	if !accounts[0].Settled.Has(c.Key) {
		for _, tree := range p.trees {
			_, _, err := p.update(ctx, p.exec.Ledger, tree, func(a subagent.Account) (subagent.Account, subagent.Outcome) {
				return a.Reserve(p.key(tree, c.Key), spender, subagent.Spend{}, subagent.Allowance{})
			})
			if err != nil {
				return err
			}
		}
	}
	if err := p.Settle(ctx, c); err != nil || len(p.payers) == 0 {
		return err
	}
	if accounts, err = p.read(ctx); err != nil {
		return err
	}
	for i, payer := range p.payers {
		if a := accounts[i+1]; !payer.Limit.Plus(a.Raised).Covers(a.Spent) {
			return &agent.BudgetError{Run: payer.Run, Limit: payer.Limit.Plus(a.Raised), First: payer.Limit, Spent: a.Spent, Reserved: a.Reserved()}
		}
	}
	return nil
}

// spender holds the reservations of calls that are over: an execution that comes later finds
// its own.
const spender = "spend"

// behindFence tells apart what was booked since the run was cancelled or given up.
func (p *purse) behindFence(ctx context.Context, since subagent.Time) error {
	p.mu.Lock()
	var late subagent.Spend
	for _, b := range p.booked {
		if b.at >= since {
			late = late.Plus(b.spend)
		}
	}
	p.mu.Unlock()
	if late == (subagent.Spend{}) {
		return nil
	}
	for _, of := range p.accounts() {
		if _, _, err := p.update(ctx, p.exec.Ledger, of, func(a subagent.Account) (subagent.Account, subagent.Outcome) { return a.Fence(late) }); err != nil {
			return err
		}
	}
	return nil
}

// erase deletes the payers' accounts: their conversation was cleared.
func (p *purse) erase(ctx context.Context) error {
	for _, tree := range p.trees {
		if err := p.exec.Ledger.EraseAccount(ctx, tree); err != nil {
			return err
		}
	}
	return nil
}

// chargeBehindFence tells apart what the run has spent since it was cancelled or given up.
func (x *execution) chargeBehindFence(ctx context.Context, cause error) error {
	row := x.current()
	switch {
	case errors.Is(cause, agent.ErrCancelled):
		return x.purse.behindFence(ctx, row.EndedAt)
	case errors.Is(cause, agent.ErrGivenUp):
		return x.purse.behindFence(ctx, row.GivenUpAt)
	}
	return nil
}
