package ledger

import (
	"context"
	"fmt"
	"slices"

	"github.com/errand-dev/errand/shared/platform"
	"github.com/errand-dev/errand/shared/subagent"
)

// RecentEvents returns the events of the newest batches of a conversation's log, in order.
func (l *Ledger) RecentEvents(ctx context.Context, o subagent.Owner, batches int) ([]Event, error) {
	newest, _, err := list[batch](ctx, l, platform.Query{Partition: partition(o), Prefix: eventPrefix, Descending: true, Limit: batches})
	var events []Event
	for _, b := range slices.Backward(newest) {
		events = append(events, b.Events...)
	}
	return events, err
}

// Turns reads turns in the order of ids; one that is not there has no status. It is not a
// snapshot.
func (l *Ledger) Turns(ctx context.Context, o subagent.Owner, ids []string) ([]subagent.Turn, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	keys := make([]platform.Key, len(ids))
	for i, id := range ids {
		keys[i] = turnKey(o, id)
	}
	items, err := l.store.GetMany(ctx, keys)
	if err != nil {
		return nil, fmt.Errorf("reading %d turns of %s: %w", len(ids), partition(o), failed(err))
	}
	turns := make([]subagent.Turn, len(ids))
	for i, item := range items {
		r, err := decode[subagent.Turn](item)
		if err != nil {
			return nil, err
		}
		turns[i] = turnOf(r, o)
	}
	return turns, nil
}
