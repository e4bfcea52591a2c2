package ledger

import (
	"context"
	"fmt"
	"strings"

	"github.com/errand-dev/errand/shared/platform"
	"github.com/errand-dev/errand/shared/subagent"
)

// Erase deletes everything of a conversation but its backbone. It can be repeated
// until it succeeds.
func (l *Ledger) Erase(ctx context.Context, o subagent.Owner) error {
	for _, prefix := range []string{turnPrefix, runPrefix, messagePrefix, eventPrefix, valuePrefix, "CONV"} {
		err := l.eraseAll(ctx, partition(o), prefix, func(item platform.Item) error {
			if prefix == runPrefix || prefix == turnPrefix {
				owner := strings.TrimPrefix(item.Key.Sort, prefix)
				return l.eraseAll(ctx, runPartition(o, owner), "", nil)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	l.tails.set(o, 1)
	return nil
}

func (l *Ledger) eraseAll(ctx context.Context, partition, prefix string, before func(platform.Item) error) error {
	q := platform.Query{Partition: partition, Prefix: prefix, Limit: 100}
	for {
		items, err := l.store.List(ctx, q)
		if err != nil {
			return fmt.Errorf("listing %s %s: %w", partition, prefix, err)
		}
		for _, item := range items {
			if before != nil {
				if err := before(item); err != nil {
					return err
				}
			}
			if err := l.store.Delete(ctx, item.Key, 0); err != nil {
				return fmt.Errorf("deleting %s %s: %w", item.Key.Partition, item.Key.Sort, err)
			}
		}
		if len(items) < q.Limit {
			return nil
		}
		q.After = items[len(items)-1].Key.Sort
	}
}
