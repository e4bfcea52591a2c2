package ledger

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/errand-dev/errand/shared/platform"
	"github.com/errand-dev/errand/shared/subagent"
)

// Event is one entry of a conversation's durable log. It tells what happened; it
// decides nothing. After a crash an event can be told twice.
type Event struct {
	Seq  int64           `json:"seq"`
	Type string          `json:"type"`
	Run  string          `json:"run_id,omitempty"`
	Turn string          `json:"turn_id,omitempty"`
	At   subagent.Time   `json:"at"`
	Data json.RawMessage `json:"data,omitempty"`
}

// batch is the item of some events that were written together: one write. Batches are
// numbered; an event's number is made of its batch's and its place in it, so numbers
// rise, with gaps, and two batches can never overlap.
type batch struct {
	Events []Event `json:"events"`
}

// batchSize is the most events of one batch; a power of two.
const batchSize = 64

// NewEvent returns an event at now; data may be nil.
func (l *Ledger) NewEvent(typ, run, turn string, data any) Event {
	e := Event{Type: typ, Run: run, Turn: turn, At: subagent.At(l.Now())}
	if data != nil {
		// The data of events are our own small structs: they always encode.
		e.Data, _ = json.Marshal(data)
	}
	return e
}

// Emit appends events to the conversation's log, in one write for up to 64 of them. A
// failure loses the events, nothing else.
func (l *Ledger) Emit(ctx context.Context, o subagent.Owner, events ...Event) error {
	for chunk := range slices.Chunk(events, batchSize) {
		// Where there are transactions, nobody else writes between a refused guess and the
		// look at the log's end: of many that append at once, none is left behind for ever.
		if err := l.Atomically(ctx, func(l *Ledger) error { return l.append(ctx, o, chunk) }); err != nil {
			return err
		}
	}
	return nil
}

// append writes one batch under the next free number. The number is guessed from
// memory; a wrong guess meets another batch, or leaves a gap.
func (l *Ledger) append(ctx context.Context, o subagent.Owner, events []Event) error {
	remembered, known := l.tails.get(o)
	next, read := remembered.next, !known
	if read {
		var err error
		if next, err = l.readTail(ctx, o); err != nil {
			return err
		}
	}
	for range maxSwaps {
		for i := range events {
			events[i].Seq = next*batchSize + int64(i)
		}
		_, taken, err := create(ctx, l, eventKey(o, next), batch{events})
		if err != nil {
			return err
		}
		next++
		if !taken {
			l.tails.set(o, next)
			return nil
		}
		if !read {
			// The remembered end was stale, perhaps by much.
			read = true
			if next, err = l.readTail(ctx, o); err != nil {
				return err
			}
		}
	}
	return fmt.Errorf("appending to the log of %s: %w", partition(o), ErrContended)
}

func (l *Ledger) readTail(ctx context.Context, o subagent.Owner) (int64, error) {
	last, _, err := list[batch](ctx, l, platform.Query{Partition: partition(o), Prefix: eventPrefix, Descending: true, Limit: 1})
	if err != nil || len(last) == 0 || len(last[0].Events) == 0 {
		return 1, err
	}
	return last[0].Events[0].Seq/batchSize + 1, nil
}

// Events returns up to limit events with a number above after, in order.
func (l *Ledger) Events(ctx context.Context, o subagent.Owner, after int64, limit int) ([]Event, error) {
	// The batch that holds after may hold more.
	q := platform.Query{Partition: partition(o), Prefix: eventPrefix, Limit: limit + 1}
	if after >= batchSize {
		q.After = numbered(eventPrefix, after/batchSize-1)
	}
	batches, _, err := list[batch](ctx, l, q)
	if err != nil {
		return nil, err
	}
	var events []Event
	for _, b := range batches {
		for _, e := range b.Events {
			if e.Seq > after && len(events) < limit {
				events = append(events, e)
			}
		}
	}
	return events, nil
}
