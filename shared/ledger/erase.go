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
	e := eraser{Ledger: l, owner: o, erased: map[string]bool{}}
	for _, part := range []struct {
		prefix string
		erase  func(context.Context, platform.Item) error
	}{
		{schedulePrefix, e.remove}, {turnPrefix, e.turn}, {runPrefix, e.run}, {messagePrefix, e.remove},
		{eventPrefix, e.events}, {statePrefix, e.remove}, {valuePrefix, l.eraseValue}, {"CONV", e.remove},
	} {
		if err := l.eraseAll(ctx, partition(o), part.prefix, part.erase); err != nil {
			return err
		}
	}
	l.tails.set(o, 1)
	return nil
}

// eraser is one Erase under way.
type eraser struct {
	*Ledger
	owner subagent.Owner
	// erased are the runs and turns whose own partition is empty by now.
	erased map[string]bool
}

func (e *eraser) remove(ctx context.Context, item platform.Item) error {
	return e.store.Delete(ctx, item.Key, 0)
}

// journal deletes what a run or turn has in its own partition.
func (e *eraser) journal(ctx context.Context, id string) error {
	if id == "" || e.erased[id] {
		return nil
	}
	e.erased[id] = true
	return e.EraseJournal(ctx, e.owner, id)
}

func (e *eraser) turn(ctx context.Context, item platform.Item) error {
	if err := e.journal(ctx, strings.TrimPrefix(item.Key.Sort, turnPrefix)); err != nil {
		return err
	}
	return e.remove(ctx, item)
}

// run leaves a tombstone.
func (e *eraser) run(ctx context.Context, item platform.Item) error {
	id := strings.TrimPrefix(item.Key.Sort, runPrefix)
	if err := e.journal(ctx, id); err != nil {
		return err
	}
	_, _, err := e.UpdateRun(ctx, subagent.Run{Owner: e.owner, ID: id}, func(r subagent.Run) (subagent.Run, subagent.Outcome) {
		return r.Erase(e.Now())
	})
	return err
}

// events deletes a batch, and the journals of the runs and turns it tells of: their rows
// may have expired, but the log has not.
func (e *eraser) events(ctx context.Context, item platform.Item) error {
	told, err := decode[batch](item)
	if err != nil {
		return err
	}
	for _, event := range told.value.Events {
		for _, id := range []string{event.Run, event.Turn} {
			if err := e.journal(ctx, id); err != nil {
				return err
			}
		}
	}
	return e.remove(ctx, item)
}

func (l *Ledger) eraseAll(ctx context.Context, partition, prefix string, erase func(context.Context, platform.Item) error) error {
	q := platform.Query{Partition: partition, Prefix: prefix, Limit: 100}
	for {
		items, err := l.store.List(ctx, q)
		if err != nil {
			return fmt.Errorf("listing %s %s: %w", partition, prefix, failed(err))
		}
		for _, item := range items {
			if err := erase(ctx, item); err != nil {
				return fmt.Errorf("deleting %s %s: %w", item.Key.Partition, item.Key.Sort, failed(err))
			}
		}
		if len(items) < q.Limit {
			return nil
		}
		q.After = items[len(items)-1].Key.Sort
	}
}
