package ingress

import (
	"sync"

	"github.com/errand-dev/errand/shared/ledger"
	"github.com/errand-dev/errand/shared/subagent"
)

// Hub passes ephemeral events to whoever watches a conversation in this process. A
// publisher never waits: a watcher that is behind by more than its buffer is dropped.
// The zero value is ready for use.
type Hub struct {
	mu       sync.Mutex
	watchers map[subagent.Owner]map[*Subscription]struct{}
}

// Subscription is one watcher of a conversation.
type Subscription struct {
	// C carries the events. It is closed when the watcher was dropped or has closed it.
	C     <-chan ledger.Event
	send  chan ledger.Event
	hub   *Hub
	owner subagent.Owner
}

// backlog is how many events a watcher may be behind.
const backlog = 64

// Subscribe returns a new watcher of the conversation; Close releases it.
func (h *Hub) Subscribe(o subagent.Owner) *Subscription {
	c := make(chan ledger.Event, backlog)
	s := &Subscription{C: c, send: c, hub: h, owner: o}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.watchers == nil {
		h.watchers = map[subagent.Owner]map[*Subscription]struct{}{}
	}
	if h.watchers[o] == nil {
		h.watchers[o] = map[*Subscription]struct{}{}
	}
	h.watchers[o][s] = struct{}{}
	return s
}

// Publish passes the event on. It does not block.
func (h *Hub) Publish(o subagent.Owner, e ledger.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range h.watchers[o] {
		select {
		case s.send <- e:
		default:
			h.drop(s)
		}
	}
}

// Close ends the subscription. A second call does nothing.
func (s *Subscription) Close() {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	s.hub.drop(s)
}

// drop must be called with the lock held.
func (h *Hub) drop(s *Subscription) {
	if _, there := h.watchers[s.owner][s]; !there {
		return
	}
	delete(h.watchers[s.owner], s)
	if len(h.watchers[s.owner]) == 0 {
		delete(h.watchers, s.owner)
	}
	close(s.send)
}
