package ledger

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/errand-dev/errand/shared/platform"
	"github.com/errand-dev/errand/shared/subagent"
)

// tails remembers where the event log of a conversation ends. Being wrong costs a
// write and a read, being ignorant costs a read: where other processes write too, what
// was seen is soon forgotten.
type tails struct {
	now func() time.Time
	// alone: no other process writes.
	alone bool

	mu   sync.Mutex
	next map[subagent.Owner]tail
}

// tail is the number of the next batch, as it was at a time.
type tail struct {
	next int64
	at   time.Time
}

const (
	maxTails = 10_000
	// tailTrust is how long a tail is believed. A refused write is billed like six reads.
	tailTrust = 5 * time.Second
)

func newTails(now func() time.Time, alone bool) *tails {
	return &tails{now: now, alone: alone, next: map[subagent.Owner]tail{}}
}

func (t *tails) get(o subagent.Owner) (tail, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	known, ok := t.next[o]
	return known, ok && (t.alone || t.now().Sub(known.at) <= tailTrust)
}

func (t *tails) set(o subagent.Owner, n int64) { t.learn(o, tail{n, t.now()}) }

// learn keeps the newer of what is known and what is told.
func (t *tails) learn(o subagent.Owner, told tail) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if known, ok := t.next[o]; ok && known.at.After(told.at) {
		return
	}
	if len(t.next) >= maxTails {
		clear(t.next)
	}
	t.next[o] = told
}

// Tail returns the number of the next batch of events as far as is known, zero if it
// is not.
func (l *Ledger) Tail(o subagent.Owner) int64 {
	known, ok := l.tails.get(o)
	if !ok {
		return 0
	}
	return known.next
}

// LearnTail takes over what the sender of a message knew.
func (l *Ledger) LearnTail(w Wake) {
	if w.Tail > 0 {
		l.tails.learn(w.Owner, tail{w.Tail, w.TailAt.Time()})
	}
}

// BackboneAndTail reads the backbone of a conversation, and where its event log ends if
// that is not known, in one read: the keys are neighbours.
func (l *Ledger) BackboneAndTail(ctx context.Context, o subagent.Owner) (subagent.Backbone, error) {
	if _, known := l.tails.get(o); known {
		return l.Backbone(ctx, o)
	}
	items, err := l.store.List(ctx, platform.Query{Partition: partition(o), Prefix: eventFamily, Descending: true, Limit: 2})
	if err != nil {
		return subagent.Backbone{}, fmt.Errorf("reading the backbone of %s: %w", partition(o), failed(err))
	}
	var backbone row[subagent.Backbone]
	next := int64(1)
	for _, item := range items {
		if item.Key == backboneKey(o) {
			if backbone, err = decode[subagent.Backbone](item); err != nil {
				return subagent.Backbone{}, err
			}
			continue
		}
		if next, err = batchNumber(item.Key); err != nil {
			return subagent.Backbone{}, err
		}
		next++
		break
	}
	l.tails.set(o, next)
	return backboneOf(backbone), nil
}
