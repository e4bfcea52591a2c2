package ledger

import (
	"context"
	"encoding/json"
	"fmt"

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

// batch is the item of some events that were written together: one write, and the
// numbers from its key on.
type batch struct {
	Events []Event `json:"events"`
}

// NewEvent returns an event at now; data may be nil.
func (l *Ledger) NewEvent(typ, run, turn string, data any) Event {
	e := Event{Type: typ, Run: run, Turn: turn, At: subagent.At(l.Now())}
	if data != nil {
		// The data of events are our own small structs: they always encode.
		e.Data, _ = json.Marshal(data)
	}
	return e
}

// Emit appends events to the conversation's log in one write, without gaps between
// them. A failure loses the events, nothing else.
func (l *Ledger) Emit(ctx context.Context, o subagent.Owner, events ...Event) error {
	if len(events) == 0 {
		return nil
	}
	next, known := l.tails.get(o)
	read := !known
	if read {
		var err error
		if next, err = l.tail(ctx, o); err != nil {
			return err
		}
	}
	for range maxSwaps {
		for i := range events {
			events[i].Seq = next + int64(i)
		}
		stored, taken, err := create(ctx, l, eventKey(o, next), batch{events})
		if err != nil {
			return err
		}
		if !taken {
			l.tails.set(o, next+int64(len(events)))
			return nil
		}
		next += int64(max(len(stored.Events), 1))
		if !read {
			// The remembered end was stale, perhaps by much.
			read = true
			if next, err = l.tail(ctx, o); err != nil {
				return err
			}
		}
	}
	return fmt.Errorf("appending to the log of %s: %w", partition(o), ErrContended)
}

// Tail returns where the log is thought to end, zero if unknown; HintTail tells it
// from what another process knew. Being wrong costs a read, or a gap in the numbers.
func (l *Ledger) Tail(o subagent.Owner) int64 {
	n, _ := l.tails.get(o)
	return n
}

// HintTail remembers n as the end of the log unless something is known already.
func (l *Ledger) HintTail(o subagent.Owner, n int64) {
	if _, known := l.tails.get(o); !known && n > 0 {
		l.tails.set(o, n)
	}
}

func (l *Ledger) tail(ctx context.Context, o subagent.Owner) (int64, error) {
	last, _, err := list[batch](ctx, l, platform.Query{Partition: partition(o), Prefix: eventPrefix, Descending: true, Limit: 1})
	if err != nil || len(last) == 0 || len(last[0].Events) == 0 {
		return 1, err
	}
	events := last[0].Events
	return events[len(events)-1].Seq + 1, nil
}

// Events returns up to limit events with a number above after, in order.
func (l *Ledger) Events(ctx context.Context, o subagent.Owner, after int64, limit int) ([]Event, error) {
	var events []Event
	// A batch may begin at or before after and reach beyond it.
	q := platform.Query{Partition: partition(o), Prefix: eventPrefix, Descending: true, After: numbered(eventPrefix, after+1), Limit: 1}
	if after > 0 {
		before, _, err := list[batch](ctx, l, q)
		if err != nil {
			return nil, err
		}
		for _, b := range before {
			events = appendAfter(events, b.Events, after)
		}
	}
	rest, _, err := list[batch](ctx, l, platform.Query{Partition: partition(o), Prefix: eventPrefix, After: numbered(eventPrefix, after), Limit: limit})
	if err != nil {
		return nil, err
	}
	for _, b := range rest {
		events = appendAfter(events, b.Events, after)
	}
	return events[:min(limit, len(events))], nil
}

func appendAfter(events, more []Event, after int64) []Event {
	for _, e := range more {
		if e.Seq > after && (len(events) == 0 || e.Seq > events[len(events)-1].Seq) {
			events = append(events, e)
		}
	}
	return events
}
