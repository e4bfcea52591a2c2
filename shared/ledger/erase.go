package ledger

import (
	"context"
	"fmt"
	"strings"

	"github.com/errand-dev/errand/shared/platform"
	"github.com/errand-dev/errand/shared/subagent"
)

// Erase deletes everything of a conversation but its backbone and the tombstones of its
// runs, which expire. It can be repeated until it succeeds.
func (l *Ledger) Erase(ctx context.Context, o subagent.Owner) error {
	remove := func(item platform.Item) error { return l.store.Delete(ctx, item.Key, 0) }
	journalToo := func(prefix string, next func(platform.Item) error) func(platform.Item) error {
		return func(item platform.Item) error {
			id := strings.TrimPrefix(item.Key.Sort, prefix)
			if err := l.eraseAll(ctx, runPartition(o, id), "", remove); err != nil {
				return err
			}
			return next(item)
		}
	}
	for _, part := range []struct {
		prefix string
		erase  func(platform.Item) error
	}{
		{turnPrefix, journalToo(turnPrefix, remove)},
		{runPrefix, journalToo(runPrefix, func(item platform.Item) error { return l.entomb(ctx, o, item) })},
		{messagePrefix, remove}, {eventPrefix, remove}, {valuePrefix, func(item platform.Item) error { return l.eraseValue(ctx, item) }}, {"CONV", remove},
	} {
		if err := l.eraseAll(ctx, partition(o), part.prefix, part.erase); err != nil {
			return err
		}
	}
	l.tails.set(o, 1)
	return nil
}

func (l *Ledger) entomb(ctx context.Context, o subagent.Owner, item platform.Item) error {
	id := strings.TrimPrefix(item.Key.Sort, runPrefix)
	_, _, err := l.UpdateRun(ctx, subagent.Run{Owner: o, ID: id}, func(r subagent.Run) (subagent.Run, subagent.Outcome) {
		return r.Erase(l.Now())
	})
	return err
}

func (l *Ledger) eraseAll(ctx context.Context, partition, prefix string, erase func(platform.Item) error) error {
	q := platform.Query{Partition: partition, Prefix: prefix, Limit: 100}
	for {
		items, err := l.store.List(ctx, q)
		if err != nil {
			return fmt.Errorf("listing %s %s: %w", partition, prefix, failed(err))
		}
		for _, item := range items {
			if err := erase(item); err != nil {
				return fmt.Errorf("deleting %s %s: %w", item.Key.Partition, item.Key.Sort, failed(err))
			}
		}
		if len(items) < q.Limit {
			return nil
		}
		q.After = items[len(items)-1].Key.Sort
	}
}
