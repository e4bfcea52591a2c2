package executor

import (
	"context"
	"sync"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/ledger"
	"github.com/errand-dev/errand/shared/money"
	"github.com/errand-dev/errand/shared/subagent"
)

// purse keeps the accounts of the model calls of one execution: its own account, and
// those of the runs that pay for it. It implements agent.Spender.
//
// The order of its writes is what makes a call count once. Reserved are its own account
// and then the payers'; the answer goes into the journal; its own account records the
// call, and remembers that; the payers' settle it, for as long as it is reserved there. An
// execution that dies anywhere leaves a call that the next one either settles (the answer
// is kept) or books in doubt and makes again.
type purse struct {
	exec   *Executor
	own    ledger.AccountOf
	payers []subagent.Payer
	trees  []ledger.AccountOf
	// prefix begins the keys of the calls in the accounts of payers.
	prefix string
	// by is the token of this execution.
	by string

	mu sync.Mutex
	// seen are the accounts as last read or written.
	seen map[ledger.AccountOf]subagent.Account
	// open are the calls under way.
	open map[string]pending
	// booked are the calls that were settled, for what a fence turns out to have cut off.
	booked []booking
}

type pending struct {
	call     agent.Call
	estimate subagent.Spend
}

type booking struct {
	at    subagent.Time
	spend subagent.Spend
}

// newPurse returns the purse of a run or turn. first means that no execution went before,
// so its own account is not there yet.
func newPurse(e *Executor, of ledger.Life, by string, payers []subagent.Payer, first bool) *purse {
	p := &purse{exec: e, own: ledger.OwnAccount(of), prefix: of.ID() + "/", by: by, payers: payers,
		seen: map[ledger.AccountOf]subagent.Account{}, open: map[string]pending{}}
	for _, payer := range payers {
		p.trees = append(p.trees, ledger.TreeAccount(of.Payer(payer)))
	}
	if first {
		p.seen[p.own] = subagent.Account{}
	}
	return p
}

func (p *purse) accounts() []ledger.AccountOf { return append([]ledger.AccountOf{p.own}, p.trees...) }

func (p *purse) limited(c agent.Call) bool { return c.Limit.Any() || len(p.payers) > 0 }

func (p *purse) key(of ledger.AccountOf, key string) string {
	if of == p.own {
		return key
	}
	return p.prefix + key
}

// actual is what the call cost. Its names may be worse than those it was reserved with.
func (p *purse) actual(c agent.Call) subagent.Spend {
	p.mu.Lock()
	names := append(c.Models[:len(c.Models):len(c.Models)], p.open[c.Key].call.Models...)
	p.mu.Unlock()
	entry, priced := p.exec.Prices.Find(names...)
	return spendOf(c.Usage, entry.Cost, priced)
}

func (p *purse) close(key string, s subagent.Spend, keep bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, key)
	if keep {
		p.booked = append(p.booked, booking{subagent.At(p.exec.Ledger.Now()), s})
	}
}

// read returns the accounts, its own first, as they were last seen.
func (p *purse) read(ctx context.Context) ([]subagent.Account, error) {
	all := p.accounts()
	var missing []ledger.AccountOf
	p.mu.Lock()
	for _, of := range all {
		if _, ok := p.seen[of]; !ok {
			missing = append(missing, of)
		}
	}
	p.mu.Unlock()
	fresh, err := p.exec.Ledger.Accounts(ctx, missing...)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, of := range missing {
		if p.seen[of].Version <= fresh[i].Version {
			p.seen[of] = fresh[i]
		}
	}
	accounts := make([]subagent.Account, len(all))
	for i, of := range all {
		accounts[i] = p.seen[of]
	}
	return accounts, nil
}

// forget drops what was seen in a transaction that came to nothing.
func (p *purse) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.seen)
}

// update applies a rule to an account and remembers what is stored then.
func (p *purse) update(ctx context.Context, l *ledger.Ledger, of ledger.AccountOf, rule func(subagent.Account) (subagent.Account, subagent.Outcome)) (subagent.Account, subagent.Outcome, error) {
	var hint *subagent.Account
	p.mu.Lock()
	if a, ok := p.seen[of]; ok {
		hint = &a
	}
	p.mu.Unlock()
	a, outcome, err := l.UpdateAccount(ctx, of, hint, rule)
	if err != nil {
		return a, outcome, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if have, ok := p.seen[of]; !ok || have.Version < a.Version {
		p.seen[of] = a
	}
	return a, outcome, nil
}

func spendOf(u subagent.Usage, costs func(subagent.Usage) money.USD, priced bool) subagent.Spend {
	u = u.NotNegative()
	s := subagent.Spend{Usage: u, Calls: 1}
	if priced {
		s.Cost = costs(u)
	} else {
		s.Unpriced = 1
	}
	return s
}

func limitsOf(payers []subagent.Payer) []subagent.Allowance {
	limits := make([]subagent.Allowance, len(payers))
	for i, p := range payers {
		limits[i] = p.Limit
	}
	return limits
}

func firstOf(names []string) string {
	for _, name := range names {
		if name != "" {
			return name
		}
	}
	return ""
}

// cost is what the event of a run's end tells of its model calls.
type cost struct {
	Calls  int64      `json:"model_calls"`
	Tokens int64      `json:"tokens"`
	USD    *money.USD `json:"usd,omitempty"`
}

func costOf(s subagent.Spend) *cost {
	if s.Calls == 0 {
		return nil
	}
	c := &cost{Calls: s.Calls, Tokens: s.Tokens()}
	if s.Unpriced == 0 {
		c.USD = &s.Cost
	}
	return c
}

// spent is what the run or turn is known to have spent.
func (p *purse) spent() subagent.Spend {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen[p.own].Spent
}
