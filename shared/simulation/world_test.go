package simulation

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing/synctest"
	"time"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/platform"
)

// world is one simulation. Every process is some goroutines in one synctest bubble that
// park at each call of the platform and at each wait of an agent; the scheduler lets one
// of them go on, waits until all are parked again, checks, and lets a little time pass.
// So only one runs at a time, and what happens follows from the seed alone.
type world struct {
	plan plan
	rng  *rand.Rand
	// extra draws what only some plans have.
	extra  *rand.Rand
	store  *Store
	check  *checker
	trace  *trace
	agents *agent.Registry
	began  time.Time

	// calm: no more faults, let it all come to its end.
	calm      bool
	redriven  bool
	stopping  bool
	processes []*process
	lastPID   int
	actions   []action
	ghosts    []ghost
	births    []time.Time
	house     time.Time
	steps     int

	// mu guards what timers of processes touch too.
	mu     sync.Mutex
	parked []*waiter
	wake   chan struct{}
}

// waiter is a goroutine that waits for the scheduler.
type waiter struct {
	p    *process
	call call
	// at is the earliest time to go on. ctx, if set, ends the wait early.
	at     time.Time
	ctx    context.Context
	slowed bool
	resume chan fate
}

// call says what a goroutine is about to do.
type call struct {
	kind  string
	key   platform.Key
	queue string
	// faulty: it is a call of the platform, which can fail.
	faulty bool
	body   []byte
}

// fate is what the scheduler makes of a call.
type fate int

const (
	proceed fate = iota
	refuse       // an error, and nothing took place
	lose         // it takes place and the answer is lost
	late         // an error, and it takes place later
	twice        // it takes place twice
	die          // the process is gone: the goroutine ends
)

var fateNames = [...]string{"", "FAILS", "ANSWER LOST", "FAILS, APPLIED LATER", "TWICE", "dies"}

// ghost is a write or a message that its sender believes lost.
type ghost struct {
	at    time.Time
	p     *process
	call  call
	apply func() error
}

// park waits for the scheduler. It does not return if the process has died.
func (w *world) park(x *waiter) fate {
	if x.p.dead.Load() {
		runtime.Goexit()
	}
	x.resume = make(chan fate, 1)
	w.mu.Lock()
	w.parked = append(w.parked, x)
	w.mu.Unlock()
	w.poke()
	f := <-x.resume
	if f == die {
		runtime.Goexit()
	}
	return f
}

func (w *world) poke() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// stepLimit is far above what any seed needs: reaching it means that work never ends.
const stepLimit = 200_000

// run simulates until nothing is left to do or an invariant is broken.
func (w *world) run() {
	for ; w.steps < stepLimit; w.steps++ {
		synctest.Wait()
		w.barrier()
		w.check.after()
		if len(w.check.broken) > 0 {
			return
		}
		if !w.calm && time.Since(w.began) >= w.plan.duration {
			w.calmDown()
		}
		if w.step() {
			synctest.Wait()
			w.barrier()
			time.Sleep(time.Duration(1 + w.rng.IntN(4_000_000)))
			continue
		}
		if w.over() {
			w.check.final()
			return
		}
		w.rest()
	}
	w.check.fail("after %d steps it is still busy: %s", stepLimit, w.leftovers())
}

// barrier orders what the scheduler does without locks before what timers of processes
// do, which run while it sleeps, and the other way round.
func (w *world) barrier() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
}

// step does one thing that can be done now, or reports that there is none.
func (w *world) step() bool {
	now := time.Now()
	var choices []func()
	add := func(do func()) { choices = append(choices, do) }
	for _, x := range w.parked {
		if x.ready(now) {
			add(func() { w.release(x) })
		}
	}
	if len(w.actions) > 0 && !w.actions[0].at.After(now) {
		if p := w.host(now); p != nil {
			add(func() { w.act(p) })
		}
	}
	for i := range w.ghosts {
		if !w.ghosts[i].at.After(now) {
			add(func() { w.haunt(i) })
		}
	}
	if len(w.births) > 0 && !w.births[0].After(now) {
		add(w.bear)
	}
	if !w.house.After(now) {
		add(w.keepHouse)
	}
	for _, p := range w.processes {
		if p.worker && p.busy < w.plan.slots && !p.stalled(now) && !p.cutOff() {
			for _, name := range platform.Queues {
				q := w.store.queues[name]
				for _, m := range q.available(now) {
					add(func() { w.hand(p, q, m) })
				}
			}
		}
	}
	if len(choices) == 0 {
		return w.squeeze(now)
	}
	choices[w.rng.IntN(len(choices))]()
	return true
}

// squeeze lets a worker that has no place left handle a tick all the same, when nothing else
// can go on: on the platforms ticks do not share the places of runs, which only a tick may free.
func (w *world) squeeze(now time.Time) bool {
	q := w.store.queues[platform.Ticks]
	for _, p := range w.processes {
		if p.worker && p.busy >= w.plan.slots && !p.stalled(now) && !p.cutOff() {
			for _, m := range q.available(now) {
				w.hand(p, q, m)
				return true
			}
		}
	}
	return false
}

func (x *waiter) ready(now time.Time) bool {
	return !x.p.stalled(now) && (!x.at.After(now) || x.ctx != nil && x.ctx.Err() != nil)
}

// release lets a goroutine go on, and decides what becomes of its call.
func (w *world) release(x *waiter) {
	f := proceed
	if !w.calm && x.p.faulty {
		switch r := w.rng; {
		case r.Float64() < w.plan.crash:
			w.trace.add(x.p, x.call, "CRASH")
			w.kill(x.p)
			return
		case r.Float64() < w.plan.stall:
			x.p.stall(w, w.between(time.Second, 4*time.Minute))
			return
		case x.p.cutOff():
			if x.call.faulty {
				f = refuse
			}
		case r.Float64() < w.plan.cut:
			x.p.cut(w, w.between(10*time.Second, 3*time.Minute))
			return
		case x.call.faulty:
			if !x.slowed && r.Float64() < w.plan.slow {
				x.slowed, x.at = true, time.Now().Add(w.between(time.Second, 100*time.Second))
				x.p.faults++
				w.trace.add(x.p, x.call, "SLOW")
				w.trace.count("slow call")
				return
			}
			f = w.fate(x.call)
		}
	}
	if f != proceed {
		x.p.faults++
		w.trace.count(fateNames[f])
	}
	w.mu.Lock()
	w.parked = slices.DeleteFunc(w.parked, func(y *waiter) bool { return x == y })
	w.mu.Unlock()
	w.trace.add(x.p, x.call, fateNames[f])
	x.resume <- f
}

func (w *world) fate(c call) fate {
	r := w.rng.Float64()
	switch {
	case r < w.plan.lost:
		return refuse
	case r < 2*w.plan.lost:
		return lose
	case r < 2.5*w.plan.lost && (c.kind == "put" || c.kind == "send" || c.kind == "delete"):
		return late
	case r < 3.5*w.plan.lost && c.kind == "send":
		return twice
	}
	return proceed
}

// rest lets time pass until something can be done.
func (w *world) rest() {
	now := time.Now()
	next := w.house
	sooner := func(t time.Time) {
		if t.After(now) && t.Before(next) {
			next = t
		}
	}
	for _, x := range w.parked {
		sooner(later(x.at, x.p.stalledUntil))
	}
	for _, p := range w.processes {
		sooner(p.stalledUntil)
		sooner(p.cutUntil)
	}
	for _, a := range w.actions {
		sooner(a.at)
	}
	for _, g := range w.ghosts {
		sooner(g.at)
	}
	for _, t := range w.births {
		sooner(t)
	}
	if !w.calm {
		sooner(w.began.Add(w.plan.duration))
	}
	for _, name := range platform.Queues {
		if t := w.store.queues[name].next(now); !t.IsZero() {
			sooner(t)
		}
	}
	timer := time.NewTimer(next.Sub(now))
	defer timer.Stop()
	w.barrier()
	select {
	case <-w.wake:
	case <-timer.C:
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// hand gives a message to a process.
func (w *world) hand(p *process, q *queue, m *message) {
	visibility := visibility + time.Millisecond
	if !w.calm && q.name != platform.Turns && w.rng.Float64() < w.plan.lost {
		visibility = 10 * time.Millisecond
		w.trace.count("handed out twice")
	}
	r, ok := w.store.hand(q, m, visibility)
	if !ok {
		w.trace.count("dead letter of " + q.name)
		w.trace.add(p, call{kind: "dead letter", queue: q.name, body: m.Body}, "")
		return
	}
	p.busy++
	extends := w.calm || w.rng.Float64() >= w.plan.noExtend
	w.trace.add(p, call{kind: "receive", queue: q.name, body: m.Body}, fmt.Sprintf("receives=%d extends=%v", r.Receives, extends))
	go p.serve(r, extends)
}

func (w *world) haunt(i int) {
	g := w.ghosts[i]
	w.ghosts = slices.Delete(w.ghosts, i, i+1)
	w.check.actor = g.p
	err := g.apply()
	w.check.actor = nil
	w.trace.add(g.p, g.call, fmt.Sprintf("LATE: %v", err))
	if err == nil {
		w.trace.count("applied late")
	}
}

// keepHouse is what the platform's housekeeping does: dead ticks are sent again.
func (w *world) keepHouse() {
	w.house = time.Now().Add(time.Minute)
	if n, _ := w.store.Redrive(context.Background(), platform.Ticks); n > 0 {
		w.trace.count("dead ticks sent again")
		w.trace.add(nil, call{kind: "redrive ticks"}, fmt.Sprint(n))
	}
	if w.calm {
		w.house = time.Now().Add(time.Hour)
		if len(w.store.queues[platform.Ticks].messages) > 0 {
			w.house = time.Now().Add(10 * time.Minute)
		}
	}
}

// calmDown ends the faults. What stands still goes on, what is dead is replaced.
func (w *world) calmDown() {
	w.calm = true
	w.trace.add(nil, call{kind: "calm"}, "")
	for _, p := range w.processes {
		p.stalledUntil, p.cutUntil = time.Time{}, time.Time{}
	}
	w.house = time.Now()
}

// over reports whether nothing is left to do. An operator first sends again what is dead.
func (w *world) over() bool {
	if !w.calm || len(w.parked)+len(w.actions)+len(w.ghosts)+len(w.births) > 0 || w.check.armed() {
		return false
	}
	for _, p := range w.processes {
		if p.busy > 0 {
			return false
		}
	}
	for _, name := range platform.Queues {
		if len(w.store.queues[name].messages) > 0 {
			return false
		}
	}
	if !w.redriven {
		w.redriven = true
		for _, o := range w.plan.owners {
			w.schedule(action{at: time.Now(), name: "redrive", do: w.redriveDead(o), done: new(bool)})
		}
		if n, _ := w.store.Redrive(context.Background(), platform.Turns); n > 0 {
			w.trace.count("dead turns sent again")
		}
		return false
	}
	return true
}

func (w *world) leftovers() string {
	s := fmt.Sprintf("%d goroutines, %d actions, armed %v;", len(w.parked), len(w.actions), w.check.armed())
	for _, name := range platform.Queues {
		for _, m := range w.store.queues[name].messages {
			s += fmt.Sprintf(" %s %s", name, clip(m.Body))
		}
	}
	return s
}

// between draws a duration.
func (w *world) between(least, most time.Duration) time.Duration {
	return least + time.Duration(w.rng.Int64N(int64(most-least)))
}

// stop ends every goroutine, so that the bubble can end.
func (w *world) stop() {
	w.stopping = true
	for _, p := range slices.Clone(w.processes) {
		w.kill(p)
	}
	synctest.Wait()
}
