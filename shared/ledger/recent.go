package ledger

import (
	"context"
	"fmt"
	"slices"

	"github.com/errand-dev/errand/shared/platform"
	"github.com/errand-dev/errand/shared/subagent"
)

// logPage is how many batches are read at once.
const logPage = 32

// EventsSince returns the events of a conversation's log since a moment, and some from before
// it, in order. complete is false if so many batches do not reach back to it.
func (l *Ledger) EventsSince(ctx context.Context, o subagent.Owner, since subagent.Time, batches int) (events []Event, complete bool, err error) {
	q := platform.Query{Partition: partition(o), Prefix: eventPrefix, Descending: true, Limit: logPage}
	var found []batch // the newest first
	for !complete && len(found) < batches {
		page, items, err := list[batch](ctx, l, q)
		if err != nil {
			return nil, false, err
		}
		found = append(found, page...)
		if complete = len(page) < logPage || page[logPage-1].before(since); !complete {
			q.After = items[logPage-1].Key.Sort
		}
	}
	for _, b := range slices.Backward(found) {
		events = append(events, b.Events...)
	}
	return events, complete, nil
}

func (b batch) before(at subagent.Time) bool { return len(b.Events) > 0 && b.Events[0].At < at }

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
