package simulation

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/errand-dev/errand/shared/platform"
)

// Observer hears of every change once it is durable: those of a transaction together,
// in their order, after it. It is called under the store's lock and must not call back.
type Observer interface {
	// Wrote tells of a put or delete (after.Version is then 0).
	Wrote(before, after platform.Item)
	// Sent tells of a message that was added to its queue, and Removed of one that
	// left it for good. A dead letter has not left.
	Sent(m platform.Message)
	Removed(m platform.Message)
}

// Store is a platform in memory. It is safe for concurrent use.
type Store struct {
	now      func() time.Time
	observer Observer

	mu         sync.Mutex
	partitions map[string]map[string]platform.Item
	blobs      map[string][]byte
	queues     map[string]*queue
	lastID     int
	arrived    chan struct{}

	// undo reverts the open transaction, from its end; said are its changes.
	depth int
	undo  []func()
	said  []func(Observer)
}

var (
	_ platform.Store    = (*Store)(nil)
	_ platform.Receiver = (*Store)(nil)
)

// NewStore returns an empty store. observer may be nil.
func NewStore(now func() time.Time, observer Observer) *Store {
	s := &Store{
		now: now, observer: observer, arrived: make(chan struct{}),
		partitions: map[string]map[string]platform.Item{}, blobs: map[string][]byte{}, queues: map[string]*queue{},
	}
	for _, name := range platform.Queues {
		s.queues[name] = &queue{name: name, remembered: map[string]time.Time{}}
	}
	return s
}

// change runs one operation that may change something.
func (s *Store) change(ctx context.Context, do func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changeLocked(ctx, do)
}

func (s *Store) changeLocked(ctx context.Context, do func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	err := do()
	s.tell()
	return err
}

// did notes how to revert a change, and what the observer is told of it.
func (s *Store) did(revert func(), say func(Observer)) {
	s.undo = append(s.undo, revert)
	s.said = append(s.said, say)
}

// tell ends a change outside of transactions.
func (s *Store) tell() {
	if s.depth > 0 {
		return
	}
	for _, say := range s.said {
		if s.observer != nil {
			say(s.observer)
		}
	}
	s.undo, s.said = s.undo[:0], s.said[:0]
}

// Get implements platform.Items.
func (s *Store) Get(ctx context.Context, key platform.Key) (platform.Item, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.get(key), ctx.Err()
}

func (s *Store) get(key platform.Key) platform.Item {
	item, ok := s.partitions[key.Partition][key.Sort]
	if !ok {
		return platform.Item{Key: key}
	}
	item.Body = bytes.Clone(item.Body)
	return item
}

// GetMany implements platform.Items.
func (s *Store) GetMany(ctx context.Context, keys []platform.Key) ([]platform.Item, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.getMany(keys), ctx.Err()
}

func (s *Store) getMany(keys []platform.Key) []platform.Item {
	items := make([]platform.Item, len(keys))
	for i, key := range keys {
		items[i] = s.get(key)
	}
	return items
}

// List implements platform.Items.
func (s *Store) List(ctx context.Context, q platform.Query) ([]platform.Item, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.list(q), ctx.Err()
}

func (s *Store) list(q platform.Query) []platform.Item {
	var sorts []string
	for sort := range s.partitions[q.Partition] {
		after := q.After == "" || sort > q.After
		if q.Descending {
			after = q.After == "" || sort < q.After
		}
		if after && strings.HasPrefix(sort, q.Prefix) {
			sorts = append(sorts, sort)
		}
	}
	slices.Sort(sorts)
	if q.Descending {
		slices.Reverse(sorts)
	}
	const most = 1000
	limit := q.Limit
	if limit == 0 {
		limit = most
	}
	items := make([]platform.Item, 0, min(limit, len(sorts)))
	for _, sort := range sorts[:min(limit, len(sorts))] {
		items = append(items, s.get(platform.Key{Partition: q.Partition, Sort: sort}))
	}
	return items
}

// Put implements platform.Items.
func (s *Store) Put(ctx context.Context, item platform.Item) error {
	return s.change(ctx, func() error { return s.put(item) })
}

func (s *Store) put(item platform.Item) error {
	if item.Version < 1 {
		return fmt.Errorf("putting %q: version %d", item.Key.Sort, item.Version)
	}
	if len(item.Body) > platform.MaxBody {
		return platform.ErrTooLarge
	}
	stored := s.get(item.Key)
	if stored.Version != item.Version-1 {
		return &platform.ConflictError{Stored: stored}
	}
	item.Body = bytes.Clone(item.Body)
	s.set(stored, item)
	return nil
}

// Delete implements platform.Items.
func (s *Store) Delete(ctx context.Context, key platform.Key, version int64) error {
	return s.change(ctx, func() error { return s.delete(key, version) })
}

func (s *Store) delete(key platform.Key, version int64) error {
	stored := s.get(key)
	switch {
	case !stored.Exists():
		return nil
	case version != 0 && version != stored.Version:
		return &platform.ConflictError{Stored: stored}
	}
	s.set(stored, platform.Item{Key: key})
	return nil
}

func (s *Store) set(before, after platform.Item) {
	write := func(item platform.Item) {
		rows := s.partitions[item.Key.Partition]
		if rows == nil {
			rows = map[string]platform.Item{}
			s.partitions[item.Key.Partition] = rows
		}
		if item.Exists() {
			rows[item.Key.Sort] = item
		} else {
			delete(rows, item.Key.Sort)
		}
	}
	write(after)
	s.did(func() { write(before) }, func(o Observer) { o.Wrote(before, after) })
}

// PutBlob implements platform.Blobs.
func (s *Store) PutBlob(ctx context.Context, name string, data []byte) error {
	return s.change(ctx, func() error { return s.setBlob(name, bytes.Clone(data), true) })
}

// DeleteBlob implements platform.Blobs.
func (s *Store) DeleteBlob(ctx context.Context, name string) error {
	return s.change(ctx, func() error { return s.setBlob(name, nil, false) })
}

func (s *Store) setBlob(name string, data []byte, keep bool) error {
	before, had := s.blobs[name]
	write := func(data []byte, keep bool) {
		delete(s.blobs, name)
		if keep {
			s.blobs[name] = data
		}
	}
	write(data, keep)
	s.did(func() { write(before, had) }, func(Observer) {})
	return nil
}

// GetBlob implements platform.Blobs.
func (s *Store) GetBlob(ctx context.Context, name string) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	data, ok := s.blobs[name]
	if !ok {
		return nil, platform.ErrNoBlob
	}
	return bytes.Clone(data), ctx.Err()
}

// Atomically implements platform.Store: all of fn or nothing, nobody else in between.
func (s *Store) Atomically(ctx context.Context, fn func(platform.Store) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.atomically(ctx, fn)
}

func (s *Store) atomically(ctx context.Context, fn func(platform.Store) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	undo, said := len(s.undo), len(s.said)
	s.depth++
	err := errAbandoned
	// Also when fn does not return: its goroutine may end inside.
	defer func() {
		s.depth--
		if err != nil {
			for _, revert := range slices.Backward(s.undo[undo:]) {
				revert()
			}
			s.undo, s.said = s.undo[:undo], s.said[:said]
		}
		s.tell()
	}()
	err = fn(view{s})
	return err
}

var errAbandoned = errors.New("the transaction was abandoned")

// view is the store inside a transaction, whose lock is held.
type view struct{ s *Store }

func (v view) Get(ctx context.Context, key platform.Key) (platform.Item, error) {
	return v.s.get(key), ctx.Err()
}
func (v view) GetMany(ctx context.Context, keys []platform.Key) ([]platform.Item, error) {
	return v.s.getMany(keys), ctx.Err()
}
func (v view) List(ctx context.Context, q platform.Query) ([]platform.Item, error) {
	return v.s.list(q), ctx.Err()
}
func (v view) Put(ctx context.Context, item platform.Item) error {
	return v.s.changeLocked(ctx, func() error { return v.s.put(item) })
}
func (v view) Delete(ctx context.Context, key platform.Key, version int64) error {
	return v.s.changeLocked(ctx, func() error { return v.s.delete(key, version) })
}
func (v view) Send(ctx context.Context, m platform.Message) error {
	return v.s.changeLocked(ctx, func() error { return v.s.send(m) })
}
func (v view) PutBlob(ctx context.Context, name string, data []byte) error {
	return v.s.changeLocked(ctx, func() error { return v.s.setBlob(name, bytes.Clone(data), true) })
}
func (v view) DeleteBlob(ctx context.Context, name string) error {
	return v.s.changeLocked(ctx, func() error { return v.s.setBlob(name, nil, false) })
}
func (v view) GetBlob(ctx context.Context, name string) ([]byte, error) {
	data, ok := v.s.blobs[name]
	if !ok {
		return nil, platform.ErrNoBlob
	}
	return bytes.Clone(data), ctx.Err()
}
func (v view) Atomically(ctx context.Context, fn func(platform.Store) error) error {
	return v.s.atomically(ctx, fn)
}
