package sqlitestore

import (
	"context"
	"fmt"
	"time"
)

// sweepBatch bounds how long a sweep keeps other writes waiting.
const sweepBatch int64 = 50

// Sweep deletes up to limit items that expired before now, a few per transaction,
// and forgets old deduplication values. It returns how many items it deleted;
// less than limit means that none is left.
func (s *Store) Sweep(ctx context.Context, now time.Time, limit int) (deleted int, err error) {
	for deleted < limit {
		batch := min(sweepBatch, int64(limit-deleted))
		var items, dedups int64
		err := s.write(ctx, func(t *tx) (err error) {
			items, err = t.exec(`DELETE FROM items WHERE rowid IN (SELECT rowid FROM items WHERE expires < ? LIMIT ?)`, now.UnixMilli(), batch)
			if err != nil {
				return err
			}
			dedups, err = t.exec(`DELETE FROM dedups WHERE (queue, dedup) IN (SELECT queue, dedup FROM dedups WHERE expires < ? LIMIT ?)`, now.UnixMilli(), sweepBatch)
			return err
		})
		if err != nil {
			return deleted, fmt.Errorf("sweeping: %w", err)
		}
		deleted += int(items)
		if items < batch && dedups < sweepBatch {
			break
		}
	}
	return deleted, nil
}
