package ledger

import (
	"context"
	"fmt"

	"github.com/errand-dev/errand/shared/platform"
	"github.com/errand-dev/errand/shared/subagent"
)

// ID is that of the run or turn.
func (f Life) ID() string { return f.id }

// Payer is the life of a run that pays for this one, in the same conversation.
func (f Life) Payer(p subagent.Payer) Life { return Life{f.owner, p.Run, p.Generation} }

// AccountOf names an account.
type AccountOf struct {
	life Life
	tree bool
}

// OwnAccount is that of the model calls of one run or turn.
func OwnAccount(of Life) AccountOf { return AccountOf{life: of} }

// TreeAccount is that of a run with a limit and of all below it.
func TreeAccount(of Life) AccountOf { return AccountOf{life: of, tree: true} }

func (a AccountOf) key() platform.Key {
	if a.tree {
		return a.life.key(accountPrefix, "TREE")
	}
	return a.life.key(accountPrefix, "OWN")
}

// Accounts reads accounts in the order asked for; one that is not there yet is empty. It
// is not a snapshot.
func (l *Ledger) Accounts(ctx context.Context, of ...AccountOf) ([]subagent.Account, error) {
	if len(of) == 0 {
		return nil, nil
	}
	keys := make([]platform.Key, len(of))
	for i, a := range of {
		keys[i] = a.key()
	}
	items, err := l.store.GetMany(ctx, keys)
	if err != nil {
		return nil, fmt.Errorf("reading %d accounts of %s: %w", len(of), partition(of[0].life.owner), failed(err))
	}
	accounts := make([]subagent.Account, len(of))
	for i, item := range items {
		r, err := decode[subagent.Account](item)
		if err != nil {
			return nil, err
		}
		r.value.Version = r.version
		accounts[i] = r.value
	}
	return accounts, nil
}

// UpdateAccount applies rule to an account. hint, if not nil, is how it was last read or
// written, also if it was not there; see UpdateRun.
func (l *Ledger) UpdateAccount(ctx context.Context, of AccountOf, hint *subagent.Account, rule func(subagent.Account) (subagent.Account, subagent.Outcome)) (subagent.Account, subagent.Outcome, error) {
	var known row[subagent.Account]
	if hint != nil {
		known = row[subagent.Account]{*hint, hint.Version}
		if hint.Version == 0 {
			known.version = absent
		}
	}
	r, outcome, err := update(ctx, l, of.key(), known, nil,
		func(a subagent.Account, version int64) (subagent.Account, subagent.Outcome) {
			a.Version = version
			return rule(a)
		})
	r.value.Version = r.version
	return r.value, outcome, err
}

// EraseAccount deletes an account that was written to although its conversation was
// cleared meanwhile.
func (l *Ledger) EraseAccount(ctx context.Context, of AccountOf) error {
	if err := l.store.Delete(ctx, of.key(), 0); err != nil {
		return fmt.Errorf("deleting an account of a cleared conversation: %w", failed(err))
	}
	return nil
}
