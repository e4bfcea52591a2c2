package conformance

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/errand-dev/errand/shared/platform"
)

// errRefused is a caller's own error.
var errRefused = errors.New("refused by the caller")

// Atomically checks platform.Store.Atomically, and more where the harness has
// transactions.
func (s Suite) Atomically(t *testing.T) {
	s.run(t, []sentence{
		{"what was done atomically is there afterwards", func(e *env) {
			item := e.newItem("a", `{"n":1}`)
			e.must(e.Store.Atomically(e.Context(), func(s platform.Store) error {
				return errors.Join(
					s.Put(e.Context(), item),
					s.PutBlob(e.Context(), item.Key.Partition, []byte("blob")),
					s.Send(e.Context(), message(platform.Runs, "job")))
			}))
			e.wantItem(item)
			e.wantBlob(item.Key.Partition, []byte("blob"))
			e.wantBodies(e.receive(platform.Runs, 10, time.Minute), "job")
		}},
		{"the view sees what was done before and on it", func(e *env) {
			before, item := e.newItem("a", `{"n":1}`), e.newItem("b", `{"n":2}`)
			item.Key.Partition = before.Key.Partition
			e.must(e.Store.Put(e.Context(), before))
			e.must(e.Store.Atomically(e.Context(), func(s platform.Store) error {
				e.must(s.Put(e.Context(), item))
				view := *e
				view.Store = s
				view.wantItem(item)
				view.wantMany([]platform.Item{item, before})
				view.wantList(platform.Query{Partition: item.Key.Partition}, []platform.Item{before, item})
				view.wantSame(view.mustConflict(s.Put(e.Context(), item)), item)
				e.must(s.Delete(e.Context(), item.Key, 1))
				view.wantItem(platform.Item{Key: item.Key})
				return nil
			}))
			e.wantItem(platform.Item{Key: item.Key})
		}},
		{"the caller's own error comes back", func(e *env) {
			err := e.Store.Atomically(e.Context(), func(platform.Store) error { return errRefused })
			if !errors.Is(err, errRefused) {
				e.Errorf("got error %v, want %v", err, errRefused)
			}
		}},
		{"a conflict that the caller handles spoils nothing", func(e *env) {
			item := e.newItem("a", `{"n":1}`)
			e.must(e.Store.Put(e.Context(), item))
			e.must(e.Store.Atomically(e.Context(), func(s platform.Store) error {
				stored := e.mustConflict(s.Put(e.Context(), item))
				item.Version = stored.Version + 1
				return s.Put(e.Context(), item)
			}))
			e.wantItem(item)
		}},
		{"many at once lose nothing", func(e *env) {
			counter := e.newItem("counter", `{"n":0}`)
			e.must(e.Store.Put(e.Context(), counter))
			const callers, each = 8, 5
			e.race(callers, func(int) error {
				for done := 0; done < each; {
					err := e.Store.Atomically(e.Context(), func(s platform.Store) error {
						item, err := s.Get(e.Context(), counter.Key)
						if err != nil {
							return err
						}
						item.Body = fmt.Appendf(nil, `{"n":%d}`, item.Version)
						item.Version++
						return s.Put(e.Context(), item)
					})
					switch conflict := (*platform.ConflictError)(nil); {
					case err == nil:
						done++
					case !errors.As(err, &conflict):
						e.Errorf("incrementing: %v", err)
						return err
					}
				}
				return nil
			})
			counter.Version, counter.Body = callers*each+1, fmt.Appendf(nil, `{"n":%d}`, callers*each)
			e.wantItem(counter)
		}},
		{"calls may be nested", func(e *env) {
			item := e.newItem("a", `{}`)
			e.must(e.Store.Atomically(e.Context(), func(s platform.Store) error {
				return s.Atomically(e.Context(), func(s platform.Store) error { return s.Put(e.Context(), item) })
			}))
			e.wantItem(item)
		}},
		{"of a call that fails nothing took place", func(e *env) {
			e.needTransactions()
			item := e.newItem("a", `{}`)
			err := e.Store.Atomically(e.Context(), func(s platform.Store) error { return e.doAllThenRefuse(s, item) })
			if !errors.Is(err, errRefused) {
				e.Fatalf("got error %v, want %v", err, errRefused)
			}
			e.wantNothingOf(item)
		}},
		{"a nested call that fails is undone alone", func(e *env) {
			e.needTransactions()
			kept, undone := e.newItem("kept", `{}`), e.newItem("undone", `{}`)
			e.must(e.Store.Atomically(e.Context(), func(s platform.Store) error {
				e.must(s.Put(e.Context(), kept))
				err := s.Atomically(e.Context(), func(s platform.Store) error { return e.doAllThenRefuse(s, undone) })
				if !errors.Is(err, errRefused) {
					e.Errorf("got error %v, want %v", err, errRefused)
				}
				return nil
			}))
			e.wantItem(kept)
			e.wantNothingOf(undone)
		}},
		{"calls that fail undo nothing of those beside them", func(e *env) {
			e.needTransactions()
			partition := e.partition()
			item := func(i int) platform.Item {
				return platform.Item{Key: platform.Key{Partition: partition, Sort: fmt.Sprintf("%02d", i)}, Version: 1, Body: []byte(`{}`)}
			}
			e.race(32, func(i int) error {
				return e.Store.Atomically(e.Context(), func(s platform.Store) error {
					if err := s.Put(e.Context(), item(i)); err != nil {
						e.Errorf("putting: %v", err)
					}
					if i%2 == 1 {
						return errRefused
					}
					return nil
				})
			})
			var want []platform.Item
			for i := 0; i < 32; i += 2 {
				want = append(want, item(i))
			}
			e.wantList(platform.Query{Partition: partition}, want)
		}},
	})
}

func (e *env) needTransactions() {
	if !e.Transactions {
		e.Skip("the platform has no transactions")
	}
}

// doAllThenRefuse makes every kind of change, successfully, and then fails.
func (e *env) doAllThenRefuse(s platform.Store, item platform.Item) error {
	turn := message(platform.Turns, "turn")
	turn.Dedup = "undone"
	e.must(errors.Join(
		s.Put(e.Context(), item),
		s.PutBlob(e.Context(), item.Key.Partition, []byte("blob")),
		s.Send(e.Context(), message(platform.Runs, "job")),
		s.Send(e.Context(), turn)))
	return errRefused
}

func (e *env) wantNothingOf(item platform.Item) {
	e.Helper()
	e.wantItem(platform.Item{Key: item.Key})
	e.wantNoBlob(item.Key.Partition)
	e.wantQuiet(platform.Runs)
	e.wantQuiet(platform.Turns)
	e.sendTurn("g", "undone", "its deduplication value is still free")
	e.receive(platform.Turns, 1, time.Minute)
}
