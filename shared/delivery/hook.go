package delivery

import (
	"context"

	"github.com/errand-dev/errand/shared/subagent"
)

// hookHolding calls the hook before a delivery that needs no handler. The claim, which
// a message alone would not need, keeps two deliverers from calling it at the same
// time; taken reports whether we got it. It ends when the slot is marked.
func (c *Courier) hookHolding(ctx context.Context, p Parcel) (run subagent.Run, taken bool, err error) {
	token, terms := c.Ledger.Token(), c.Ledger.Terms
	run, outcome, err := c.Ledger.UpdateRun(ctx, p.Run, func(r subagent.Run) (subagent.Run, subagent.Outcome) {
		if r.Status == "" {
			return r, subagent.Absent
		}
		return r.Take(p.Slot, token, c.Ledger.Now(), terms)
	})
	if err != nil || !outcome.OK() {
		return run, false, err
	}
	c.hook(ctx, Parcel{Run: run, Slot: p.Slot})
	return run, true, nil
}
