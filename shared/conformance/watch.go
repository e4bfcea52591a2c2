package conformance

import (
	"errors"
	"testing"
	"time"

	"github.com/errand-dev/errand/shared/platform"
)

// Watch checks platform.Watcher, on platforms that have it.
func (s Suite) Watch(t *testing.T) {
	s.run(t, []sentence{
		{"a watch of a key hears of its next write", func(e *env) {
			item := e.newItem("run#1", `{}`)
			changed := e.watch(item.Key)
			wantSilent(e, changed)
			e.must(e.Store.Put(e.Context(), item))
			wantHeard(e, changed)
		}},
		{"a watch of a prefix hears of every key under it", func(e *env) {
			item := e.newItem("run#1#step#2", `{}`)
			prefix := platform.Key{Partition: item.Key.Partition, Sort: "run#1#"}
			all := platform.Key{Partition: item.Key.Partition, Sort: "run#"}
			changed, changedToo := e.watch(prefix), e.watch(all)
			e.must(e.Store.Put(e.Context(), item))
			wantHeard(e, changed)
			wantHeard(e, changedToo)
			changed = e.watch(prefix)
			e.must(e.Store.Delete(e.Context(), item.Key, 1))
			wantHeard(e, changed)
		}},
		{"a watch hears of no other key, and not of what failed", func(e *env) {
			item := e.newItem("run#1", `{}`)
			e.must(e.Store.Put(e.Context(), item))
			changed := e.watch(item.Key)
			other := item
			for _, sort := range []string{"run#", "run#11", "run#1#x", "run"} {
				other.Key.Sort = sort
				e.must(e.Store.Put(e.Context(), other))
			}
			other.Key = platform.Key{Partition: item.Key.Partition + "x", Sort: "run#1"}
			e.must(e.Store.Put(e.Context(), other))
			e.mustConflict(e.Store.Put(e.Context(), item))
			if e.Transactions {
				item.Version = 2
				err := e.Store.Atomically(e.Context(), func(s platform.Store) error { return errors.Join(s.Put(e.Context(), item), errRefused) })
				if !errors.Is(err, errRefused) {
					e.Errorf("got error %v", err)
				}
			}
			wantSilent(e, changed)
		}},
		{"a released watch stays silent, and may be released again", func(e *env) {
			item := e.newItem("run#1", `{}`)
			changed, stop := e.watcher().Watch(item.Key)
			stop()
			e.must(e.Store.Put(e.Context(), item))
			wantSilent(e, changed)
			stop()
		}},
		{"every watcher of a key hears", func(e *env) {
			item := e.newItem("run#1", `{}`)
			first, second := e.watch(item.Key), e.watch(item.Key)
			e.must(e.Store.Put(e.Context(), item))
			wantHeard(e, first)
			wantHeard(e, second)
		}},
	})
}

func (e *env) watcher() platform.Watcher {
	watcher, ok := e.Store.(platform.Watcher)
	if !ok {
		e.Skip("the platform does not tell of changes")
	}
	return watcher
}

func (e *env) watch(key platform.Key) <-chan struct{} {
	changed, stop := e.watcher().Watch(key)
	e.Cleanup(stop)
	return changed
}

func wantHeard(e *env, changed <-chan struct{}) {
	e.Helper()
	select {
	case <-changed:
	case <-time.After(settling):
		e.Fatal("heard nothing")
	}
}

func wantSilent(e *env, changed <-chan struct{}) {
	e.Helper()
	select {
	case <-changed:
		e.Fatal("heard of a change")
	case <-time.After(quiet):
	}
}
