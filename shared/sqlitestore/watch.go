package sqlitestore

import (
	"strings"
	"sync"

	"github.com/errand-dev/errand/shared/platform"
)

// watches holds who wants to hear of a change, by the key they named.
type watches struct {
	mu    sync.Mutex
	byKey map[platform.Key]map[chan struct{}]struct{}
}

// Watch returns a channel that is closed after the next committed write to key,
// or, if key.Sort ends in '#', to any key that begins with it. stop releases it.
// Every change after the return of Watch is seen; so watch first, then read.
func (s *Store) Watch(key platform.Key) (changed <-chan struct{}, stop func()) {
	w := &s.watches
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.byKey == nil {
		w.byKey = make(map[platform.Key]map[chan struct{}]struct{})
	}
	if w.byKey[key] == nil {
		w.byKey[key] = make(map[chan struct{}]struct{})
	}
	c := make(chan struct{})
	w.byKey[key][c] = struct{}{}
	return c, func() { w.stop(key, c) }
}

func (w *watches) stop(key platform.Key, c chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.byKey[key], c)
	if len(w.byKey[key]) == 0 {
		delete(w.byKey, key)
	}
}

// notify wakes the watchers of the keys and of their prefixes.
func (w *watches) notify(keys []platform.Key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, key := range keys {
		if len(w.byKey) == 0 {
			return
		}
		w.wake(key)
		for i := strings.IndexByte(key.Sort, '#'); i >= 0; {
			w.wake(platform.Key{Partition: key.Partition, Sort: key.Sort[:i+1]})
			next := strings.IndexByte(key.Sort[i+1:], '#')
			if next < 0 {
				break
			}
			i += 1 + next
		}
	}
}

func (w *watches) wake(key platform.Key) {
	for c := range w.byKey[key] {
		close(c)
	}
	delete(w.byKey, key)
}
