package sqlitestore

import (
	"container/heap"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/errand-dev/errand/shared/platform"
)

// never hides an entry whose row is being deleted or buried.
const never = time.Duration(math.MaxInt64)

// cacheBudget bounds the bodies that one queue keeps in memory, in bytes; others
// are read from the file when they are handed out.
const cacheBudget = 4 << 20

// queue says which message may be handed out when. It knows live messages only,
// about 200 bytes for each that is idle. A delayed message, one in flight and one
// that can be had now differ only in the time from which they are visible, so
// one heap in the order of that time holds them all; of a FIFO group it holds
// only the head, which is how a head blocks its group.
type queue struct {
	name  string
	fifo  bool
	clock func() time.Duration // since the store was opened

	mu      sync.Mutex
	byID    map[int64]*entry
	visible visibleHeap
	lanes   map[string]*lane // by group, FIFO only
	cached  int              // bytes of bodies in memory
	handed  int64            // receipts given out
	waiters []chan struct{}  // receivers with nothing to do, oldest first
	timer   *time.Timer      // for the first waiter, nil until needed
	stopped bool
}

// entry is one live message. Its fields are guarded by queue.mu.
type entry struct {
	queue    *queue
	id       int64
	lane     *lane         // nil on a standard queue
	at       time.Duration // visible from then on
	pos      int           // in the heap, -1 if not there
	receives int
	receipt  int64             // of the last hand-out
	message  *platform.Message // nil if it has to be read from the file
	sent     time.Time         // valid with message
	// recovered marks a message that an earlier process may have died of: its
	// receives are made durable before it is handed out.
	recovered bool
}

// lane is one FIFO group: its messages in order, the first of them in the heap.
type lane struct {
	group   string
	entries []*entry
}

func newQueue(name string, clock func() time.Duration) *queue {
	return &queue{
		name:  name,
		fifo:  name == platform.Turns,
		clock: clock,
		byID:  make(map[int64]*entry),
		lanes: make(map[string]*lane),
	}
}

// push adds a message that has become durable.
func (q *queue) push(e *entry, group string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e.queue, e.pos = q, -1
	q.byID[e.id] = e
	if e.message != nil {
		if q.cached+len(e.message.Body) > cacheBudget {
			e.message = nil
		} else {
			q.cached += len(e.message.Body)
		}
	}
	if q.fifo {
		e.lane = q.lanes[group]
		if e.lane == nil {
			e.lane = &lane{group: group}
			q.lanes[group] = e.lane
		}
		e.lane.entries = append(e.lane.entries, e)
		if e.lane.entries[0] != e {
			return
		}
	}
	heap.Push(&q.visible, e)
	q.wake()
}

// hand is one message handed out.
type hand struct {
	entry    *entry
	receipt  int64
	receives int
	message  *platform.Message
	sent     time.Time
}

// take hands out up to limit messages. Those received too often already are
// returned as dead, hidden until they are removed or restored. If there is neither,
// wait is closed when it is worth another try; release it with giveUp if unused.
func (q *queue) take(limit int, visibility time.Duration) (hands []hand, dead []*entry, wait chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.clock()
	for len(hands) < limit && q.ready(now) {
		e := q.visible[0]
		q.show(e, never) // not twice in one batch
		if e.receives >= platform.MaxReceives {
			dead = append(dead, e)
			continue
		}
		e.receives++
		q.handed++
		e.receipt = q.handed
		hands = append(hands, hand{entry: e, receipt: e.receipt, receives: e.receives, message: e.message, sent: e.sent})
	}
	for _, h := range hands {
		q.show(h.entry, now+visibility)
	}
	if len(hands) == 0 && len(dead) == 0 {
		wait = make(chan struct{})
		q.waiters = append(q.waiters, wait)
	}
	q.wake() // the next waiter, if something is left, or the timer
	return hands, dead, wait
}

// giveUp releases a wait. If it was woken meanwhile, another is woken instead.
func (q *queue) giveUp(wait chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if i := slices.Index(q.waiters, wait); i >= 0 {
		q.waiters = slices.Delete(q.waiters, i, i+1)
	}
	q.wake()
}

// claim returns the entry that this hand-out may delete, hidden until it is removed
// or restored. It returns nil if the message is gone, is being deleted, or was
// handed out again since: then it belongs to another.
func (q *queue) claim(id, receipt int64) *entry {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.byID[id]
	if e == nil || e.receipt != receipt || e.at == never {
		return nil
	}
	q.show(e, never)
	return e
}

// extend hides the message for d from now, if the hand-out still owns it.
func (q *queue) extend(id, receipt int64, d time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if e := q.byID[id]; e != nil && e.receipt == receipt && e.at != never {
		q.show(e, q.clock()+d)
		q.wake()
	}
}

// restore shows an entry again whose deletion did not take place.
func (q *queue) restore(e *entry) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if e.pos >= 0 && e.at == never {
		q.show(e, q.clock())
		q.wake()
	}
}

// takeBack undoes a hand-out that never reached a receiver.
func (q *queue) takeBack(h hand) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if h.entry.pos >= 0 && h.entry.receipt == h.receipt {
		h.entry.receives--
		q.show(h.entry, q.clock())
		q.wake()
	}
}

// remove forgets a deleted message and lets the next of its group come forward.
func (q *queue) remove(e *entry) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if e.pos < 0 {
		return
	}
	delete(q.byID, e.id)
	heap.Remove(&q.visible, e.pos)
	if e.message != nil {
		q.cached -= len(e.message.Body)
	}
	if e.lane == nil {
		return
	}
	e.lane.entries[0] = nil
	e.lane.entries = e.lane.entries[1:]
	if len(e.lane.entries) == 0 {
		delete(q.lanes, e.lane.group)
		return
	}
	heap.Push(&q.visible, e.lane.entries[0])
	q.wake()
}

// stop ends the timer.
func (q *queue) stop() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.stopped = true
	if q.timer != nil {
		q.timer.Stop()
	}
}

func (q *queue) ready(now time.Duration) bool {
	return len(q.visible) > 0 && q.visible[0].at <= now
}

func (q *queue) show(e *entry, at time.Duration) {
	e.at = at
	heap.Fix(&q.visible, e.pos)
}

// wake wakes the first waiter if a message can be had, which wakes the next in
// turn when it has taken its share; or else sets the timer to the first that will
// be. Without waiters there is no timer.
func (q *queue) wake() {
	if len(q.waiters) == 0 || len(q.visible) == 0 || q.stopped {
		return
	}
	wait := q.visible[0].at - q.clock()
	switch {
	case wait <= 0:
		close(q.waiters[0])
		q.waiters = q.waiters[1:]
	case q.visible[0].at == never:
	case q.timer == nil:
		q.timer = time.AfterFunc(wait, func() {
			q.mu.Lock()
			defer q.mu.Unlock()
			q.wake()
		})
	default:
		q.timer.Reset(wait)
	}
}

// visibleHeap orders entries by the time they become visible, then by age.
type visibleHeap []*entry

func (h visibleHeap) Len() int { return len(h) }

func (h visibleHeap) Less(i, j int) bool {
	if h[i].at != h[j].at {
		return h[i].at < h[j].at
	}
	return h[i].id < h[j].id
}

func (h visibleHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].pos, h[j].pos = i, j
}

func (h *visibleHeap) Push(x any) {
	e := x.(*entry)
	e.pos = len(*h)
	*h = append(*h, e)
}

func (h *visibleHeap) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	e.pos = -1
	return e
}
