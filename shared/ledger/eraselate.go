package ledger

import (
	"context"
	"fmt"

	"github.com/errand-dev/errand/shared/platform"
	"github.com/errand-dev/errand/shared/subagent"
)

// EraseTurn deletes what a turn wrote although its conversation was cleared meanwhile:
// its messages with a number above after, and its journal.
func (l *Ledger) EraseTurn(ctx context.Context, o subagent.Owner, turn string, after int64) error {
	messages, err := l.Messages(ctx, o, after, listPage)
	if err != nil {
		return err
	}
	for _, m := range messages {
		if m.Turn != turn {
			continue
		}
		if err := l.store.Delete(ctx, messageKey(o, m.Seq), 0); err != nil {
			return fmt.Errorf("deleting message %d of a cleared conversation: %w", m.Seq, failed(err))
		}
	}
	return l.EraseJournal(ctx, o, turn)
}

// EraseJournal deletes the journal, milestones and inbox of a run or turn whose
// conversation was cleared while it was at work.
func (l *Ledger) EraseJournal(ctx context.Context, o subagent.Owner, id string) error {
	return l.eraseAll(ctx, runPartition(o, id), "", func(ctx context.Context, item platform.Item) error { return l.store.Delete(ctx, item.Key, 0) })
}
