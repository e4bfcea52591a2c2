// Package ledger keeps Errand's rows: it builds their keys, encodes them, applies the
// rules of package subagent to them by compare-and-swap, and sends the messages that
// wake their executors. Use cases work on a *Ledger and never see an item.
package ledger

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/errand-dev/errand/shared/platform"
	"github.com/errand-dev/errand/shared/subagent"
)

// Ledger gives typed access to the rows of a store.
type Ledger struct {
	store platform.Store
	// Now tells the time; Nonce returns a fresh random text of the id alphabet.
	Now   func() time.Time
	Nonce func() string
	Terms subagent.Terms

	tails *tails
}

// New returns a ledger over store.
func New(store platform.Store, terms subagent.Terms, now func() time.Time, nonce func() string) *Ledger {
	return &Ledger{store: store, Now: now, Nonce: nonce, Terms: terms, tails: newTails(now, terms.Process != "")}
}

// RandomNonce returns a fresh random text of 100 bits.
func RandomNonce() string { return strings.ToLower(rand.Text()[:20]) }

// Token returns a fresh holder's token.
func (l *Ledger) Token() string { return l.Terms.Token(l.Nonce()) }

// Atomically runs fn on a view of the ledger whose writes become durable together
// where the platform can do that (platform.Store.Atomically). It returns fn's error, or
// a transient one if the transaction could not begin or become durable.
func (l *Ledger) Atomically(ctx context.Context, fn func(*Ledger) error) error {
	var refused error
	err := l.store.Atomically(ctx, func(s platform.Store) error {
		view := *l
		view.store = s
		refused = fn(&view)
		return refused
	})
	if err != nil && refused == nil {
		return fmt.Errorf("writing together: %w", failed(err))
	}
	return err
}

// WatchRun returns a channel that is closed after the next change of the run's row, and
// false if the platform cannot tell. stop releases it.
func (l *Ledger) WatchRun(owner subagent.Owner, id string) (changed <-chan struct{}, stop func(), ok bool) {
	return l.watch(runKey(owner, id))
}

// WatchEvents does the same for new events of a conversation.
func (l *Ledger) WatchEvents(owner subagent.Owner) (changed <-chan struct{}, stop func(), ok bool) {
	return l.watch(platform.Key{Partition: partition(owner), Sort: eventPrefix})
}

func (l *Ledger) watch(key platform.Key) (<-chan struct{}, func(), bool) {
	w, ok := l.store.(platform.Watcher)
	if !ok {
		return nil, func() {}, false
	}
	changed, stop := w.Watch(key)
	return changed, stop, true
}

// maxSwaps bounds how often one update begins again. Each conflict means that another
// writer got through. fewSwaps is after how many of them it asks to be alone.
const (
	maxSwaps = 200
	fewSwaps = 3
)

// ErrContended is returned when an update lost maxSwaps times.
var ErrContended = errors.New("the row changes too fast")

// row is a value with the version of its item; version zero means absent.
type row[T any] struct {
	value   T
	version int64
}

// absent is the version of a hint that says: the item was read, and is not there.
const absent = -1

// update applies rule to the row under key until it is written, or the rule refuses.
// A hint (a version that is not zero) saves the read: a write from a stale one fails and
// brings the fresh row, a refusal from a hint is judged again on a fresh read. A
// write whose answer was lost recognises itself by its nonce. A row that many write is
// written in a transaction where there is one: nobody else gets through then.
func update[T any](ctx context.Context, l *Ledger, key platform.Key, hint row[T], expires func(T) time.Time, rule func(T, int64) (T, subagent.Outcome)) (row[T], subagent.Outcome, error) {
	cur, outcome, err := compete(ctx, l, key, hint, expires, rule, fewSwaps)
	if !errors.Is(err, ErrContended) {
		return cur, outcome, err
	}
	err = l.Atomically(ctx, func(l *Ledger) (err error) {
		cur, outcome, err = compete(ctx, l, key, row[T]{}, expires, rule, maxSwaps)
		return err
	})
	if err != nil {
		outcome = 0
	}
	return cur, outcome, err
}

// compete is update without transactions; ErrContended after it lost swaps times.
func compete[T any](ctx context.Context, l *Ledger, key platform.Key, hint row[T], expires func(T) time.Time, rule func(T, int64) (T, subagent.Outcome), swaps int) (row[T], subagent.Outcome, error) {
	cur, fresh := hint, false
	switch hint.version {
	case absent:
		cur.version = 0
	case 0:
		var err error
		if cur, err = load[T](ctx, l, key); err != nil {
			return cur, 0, err
		}
		fresh = true
	}
	nonce := l.Nonce()
	for range swaps {
		next, outcome := rule(cur.value, cur.version)
		if outcome != subagent.Apply {
			if fresh {
				return cur, outcome, nil
			}
			var err error
			if cur, err = load[T](ctx, l, key); err != nil {
				return cur, 0, err
			}
			fresh = true
			continue
		}
		stored, err := swap(ctx, l, key, next, cur.version+1, nonce, expires)
		if err != nil {
			// It may have been applied. Once more: the same write finds itself. The very same,
			// not the rule again: by now that would set another deadline than the row has.
			stored, err = swap(ctx, l, key, next, cur.version+1, nonce, expires)
		}
		switch {
		case err != nil:
			return cur, 0, err
		case stored == nil:
			return row[T]{next, cur.version + 1}, subagent.Apply, nil
		}
		if cur, err = decode[T](*stored); err != nil {
			return cur, 0, err
		}
		fresh = true
	}
	return cur, 0, fmt.Errorf("updating %s %s: %w", key.Partition, key.Sort, ErrContended)
}

// swap writes value as the given version. It returns nil if that is now what is stored,
// else the item that stands in the way.
func swap[T any](ctx context.Context, l *Ledger, key platform.Key, value T, version int64, nonce string, expires func(T) time.Time) (*platform.Item, error) {
	body, err := encode(value, nonce)
	if err != nil {
		return nil, err
	}
	item := platform.Item{Key: key, Version: version, Body: body}
	if expires != nil {
		item.Expires = expires(value)
	}
	err = l.store.Put(ctx, item)
	if err == nil {
		return nil, nil
	}
	var conflict *platform.ConflictError
	if !errors.As(err, &conflict) {
		return nil, fmt.Errorf("writing %s %s: %w", key.Partition, key.Sort, failed(err))
	}
	if conflict.Stored.Version == version && writer(conflict.Stored.Body) == nonce {
		return nil, nil
	}
	return &conflict.Stored, nil
}

// create writes value if the key is free. It returns the stored value, and whether
// that is somebody else's.
func create[T any](ctx context.Context, l *Ledger, key platform.Key, value T) (T, bool, error) {
	nonce := l.Nonce()
	stored, err := swap(ctx, l, key, value, 1, nonce, nil)
	if err != nil {
		if stored, err = swap(ctx, l, key, value, 1, nonce, nil); err != nil {
			return value, false, err
		}
	}
	if stored == nil {
		return value, false, nil
	}
	old, err := decode[T](*stored)
	return old.value, true, err
}

func load[T any](ctx context.Context, l *Ledger, key platform.Key) (row[T], error) {
	item, err := l.store.Get(ctx, key)
	if err != nil {
		return row[T]{}, fmt.Errorf("reading %s %s: %w", key.Partition, key.Sort, failed(err))
	}
	return decode[T](item)
}

func list[T any](ctx context.Context, l *Ledger, q platform.Query) ([]T, []platform.Item, error) {
	items, err := l.store.List(ctx, q)
	if err != nil {
		return nil, nil, fmt.Errorf("listing %s %s: %w", q.Partition, q.Prefix, failed(err))
	}
	values := make([]T, 0, len(items))
	for _, item := range items {
		r, err := decode[T](item)
		if err != nil {
			return nil, nil, err
		}
		values = append(values, r.value)
	}
	return values, items, nil
}

// encode adds the nonce of the write to the object.
func encode[T any](value T, nonce string) ([]byte, error) {
	body, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("encoding %T: %w", value, err)
	}
	body = body[:len(body)-1]
	if len(body) > 1 {
		body = append(body, ',')
	}
	body = append(body, `"w":"`...)
	body = append(body, nonce...)
	return append(body, `"}`...), nil
}

func decode[T any](item platform.Item) (row[T], error) {
	r := row[T]{version: item.Version}
	if !item.Exists() {
		return r, nil
	}
	if err := json.Unmarshal(item.Body, &r.value); err != nil {
		return r, fmt.Errorf("decoding %s %s: %w", item.Key.Partition, item.Key.Sort, err)
	}
	return r, nil
}

func writer(body []byte) string {
	var w struct {
		Nonce string `json:"w"`
	}
	if json.Unmarshal(body, &w) != nil {
		return ""
	}
	return w.Nonce
}
