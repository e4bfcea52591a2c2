package simulation

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/errand-dev/errand/shared/control"
	"github.com/errand-dev/errand/shared/core"
	"github.com/errand-dev/errand/shared/dispatch"
	"github.com/errand-dev/errand/shared/executor"
	"github.com/errand-dev/errand/shared/ingress"
	"github.com/errand-dev/errand/shared/ledger"
	"github.com/errand-dev/errand/shared/platform"
	"github.com/errand-dev/errand/shared/reconcile"
	"github.com/errand-dev/errand/shared/subagent"
	"github.com/errand-dev/errand/shared/worker"
)

// process is one operating system process: a worker, or a client of the API. All its
// goroutines die with it and stand still with it.
type process struct {
	w      *world
	id     int
	worker bool
	// faulty processes have faults; the last words of an operator do not.
	faulty bool
	skew   time.Duration
	ctx    context.Context
	cancel context.CancelFunc
	nonces atomic.Int64
	dead   atomic.Bool
	// busy counts messages and requests under way; faults counts what went wrong here.
	busy   int
	faults int
	// stalls counts how often it stood still.
	stalls       int
	stalledUntil time.Time
	// cutUntil is when it can reach the platform again.
	cutUntil time.Time

	ledger     *ledger.Ledger
	dispatcher *dispatch.Dispatcher
	control    *control.Control
	service    *ingress.Service
	executor   *executor.Executor
	reconciler *reconcile.Reconciler
}

func (p *process) String() string {
	if p == nil {
		return "-"
	}
	return "p" + strconv.Itoa(p.id)
}

// visibility is how long a received message is hidden.
const visibility = 30 * time.Second

// spawn starts a process: the real use cases over the platform.
func (w *world) spawn(isWorker bool) *process {
	w.lastPID++
	p := &process{w: w, id: w.lastPID, worker: isWorker, faulty: true}
	terms := subagent.DefaultTerms
	if w.plan.embedded {
		terms.Skew, terms.Process = 0, fmt.Sprintf("server%d", p.id)
	} else {
		p.skew = time.Duration(w.rng.Int64N(int64(10*time.Second))) - 5*time.Second
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.ledger = ledger.New(port{p}, terms, p.now, p.nonce)
	wired := core.New(core.Config{
		Ledger: p.ledger, Agents: w.agents, Cadence: subagent.DefaultCadence, MaxConcurrentRuns: w.plan.cap,
		Coalesce: w.plan.coalesce, StopBefore: 5 * time.Second, ProgressEvery: time.Second, Log: slog.New(slog.DiscardHandler),
	})
	p.service, p.executor, p.reconciler = wired.Service, wired.Executor, wired.Reconciler
	p.dispatcher, p.control = wired.Service.Dispatcher, wired.Service.Control
	w.processes = append(w.processes, p)
	return p
}

// bear replaces a worker that died.
func (w *world) bear() {
	w.births = w.births[1:]
	p := w.spawn(true)
	w.trace.add(p, call{kind: "starts"}, fmt.Sprintf("clock %v", p.skew))
}

// now is the process's clock.
func (p *process) now() time.Time { return time.Now().Add(p.skew) }

func (p *process) nonce() string {
	return p.String() + "n" + strconv.FormatInt(p.nonces.Add(1), 10)
}

func (p *process) stalled(now time.Time) bool { return p.stalledUntil.After(now) }

func (p *process) stall(w *world, d time.Duration) {
	p.stalledUntil = time.Now().Add(d)
	p.stalls++
	p.faults++
	w.trace.add(p, call{kind: "STALLS"}, d.String())
	w.trace.count("stall")
}

// cut lets every call of the platform fail for a while: the process works on without it.
func (p *process) cut(w *world, d time.Duration) {
	p.cutUntil = time.Now().Add(d)
	p.faults++
	w.trace.add(p, call{kind: "CUT OFF"}, d.String())
	w.trace.count("cut off")
}

func (p *process) cutOff() bool { return p.cutUntil.After(time.Now()) }

// kill ends a process where it stands. What it has in hand comes back when its
// visibility ends; an embedded server's successor knows that it is dead.
func (w *world) kill(p *process) {
	p.dead.Store(true)
	p.cancel()
	w.mu.Lock()
	var dying []*waiter
	w.parked = slices.DeleteFunc(w.parked, func(x *waiter) bool {
		if x.p == p {
			dying = append(dying, x)
		}
		return x.p == p
	})
	w.mu.Unlock()
	for _, x := range dying {
		x.resume <- die
	}
	w.processes = slices.DeleteFunc(w.processes, func(q *process) bool { return p == q })
	w.check.died(p)
	if !p.worker || w.stopping {
		return
	}
	w.trace.count("crash")
	w.births = append(w.births, time.Now().Add(w.between(10*time.Millisecond, 5*time.Second)))
	if w.plan.embedded {
		for _, q := range w.store.queues {
			for _, m := range q.messages {
				if m.Receives > 0 {
					m.visible = time.Now()
				}
			}
		}
	}
}

type invocationKey struct{}

// invocation is one message or request under way.
type invocation struct {
	p      *process
	owner  subagent.Owner
	faults int
	stalls int
	// ended is the id of a run whose task returned a result here, and at which epoch.
	ended string
	epoch int64
}

func invocationOf(ctx context.Context) *invocation {
	inv, _ := ctx.Value(invocationKey{}).(*invocation)
	return inv
}

// serve handles a message as worker.Pool does.
func (p *process) serve(r platform.Received, extends bool) {
	inv := &invocation{p: p, faults: p.faults, stalls: p.stalls}
	wake, err := ledger.ParseWake(r.Queue, r.Body)
	inv.owner = wake.Owner
	ctx := context.WithValue(p.ctx, invocationKey{}, inv)
	cancel := func() {}
	if p.w.plan.timeout > 0 {
		ctx, cancel = context.WithTimeout(ctx, p.w.plan.timeout)
	}
	keep := worker.KeepHidden(ctx, hider{port{p}, extends}, r, visibility, slog.New(slog.DiscardHandler))
	if err == nil {
		err = p.handle(ctx, r, wake)
	}
	keep()
	cancel()
	p.w.check.invocationEnded(inv)
	if err == nil {
		_ = p.do(context.Background(), call{kind: "acknowledge", queue: r.Queue, body: r.Body, faulty: true}, func() error {
			return p.w.store.Acknowledge(context.Background(), r)
		})
	} else {
		_ = p.do(context.Background(), call{kind: "return", queue: r.Queue, body: []byte(err.Error()), faulty: true}, func() error {
			return p.w.store.Extend(context.Background(), r, retryAfter(err, r.Receives))
		})
	}
	p.busy--
}

func (p *process) handle(ctx context.Context, r platform.Received, w ledger.Wake) error {
	switch r.Queue {
	case platform.Turns:
		return p.executor.Turn(ctx, w, r.Receives)
	case platform.Runs:
		return p.executor.Run(ctx, w)
	}
	return p.reconciler.Tick(ctx, w)
}

func retryAfter(err error, receives int) time.Duration {
	if again, ok := errors.AsType[*executor.RetryError](err); ok {
		return again.After
	}
	return subagent.Backoff(receives) / 5
}

// hider extends visibility without being scheduled: worker.KeepHidden holds a lock
// meanwhile. A process that stands still or is cut off extends nothing.
type hider struct {
	port
	extends bool
}

func (h hider) Extend(ctx context.Context, r platform.Received, d time.Duration) error {
	if h.p.dead.Load() || !h.extends || h.p.w.standsStill(h.p) {
		return nil
	}
	// Not the very instant of a later extension: who comes first would be left to chance.
	return h.p.w.store.Extend(ctx, r, d+time.Millisecond)
}

// standsStill reports whether the process can extend nothing now.
func (w *world) standsStill(p *process) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return p.stalled(time.Now()) || p.cutOff()
}

// port is the platform as one process sees it.
type port struct{ p *process }

var (
	_ platform.Store    = port{}
	_ platform.Receiver = hider{}
)

var errFault = errors.New("injected fault")

// do is one call of the platform: it waits for its turn and meets its fate.
func (p *process) do(ctx context.Context, c call, apply func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, p.w.poke)
	f := p.w.park(&waiter{p: p, call: c, ctx: ctx})
	stop()
	act := func() error {
		p.w.check.actor = p
		defer func() { p.w.check.actor = nil }()
		return apply()
	}
	if err := ctx.Err(); err != nil {
		// The caller waits no longer; the call may have come through all the same.
		if f == proceed && p.w.rng.IntN(2) == 0 {
			_ = act()
		}
		return err
	}
	switch f {
	case refuse:
		return errFault
	case lose:
		if err := act(); err != nil {
			return err
		}
		return fmt.Errorf("%w: the answer was lost", errFault)
	case late:
		p.w.ghosts = append(p.w.ghosts, ghost{time.Now().Add(p.w.between(time.Millisecond, 2*time.Minute)), p, c, apply})
		return fmt.Errorf("%w: the call is under way still", errFault)
	case twice:
		if err := act(); err != nil {
			return err
		}
	}
	return act()
}

// lookAt checks that an invocation touches its own tenant's rows only.
func (p *process) lookAt(ctx context.Context, key platform.Key) {
	if inv := invocationOf(ctx); inv != nil && inv.owner.Tenant != "" && tenantOf(key.Partition) != inv.owner.Tenant {
		p.w.check.fail("%v works for tenant %s and touches %s %s", p, inv.owner.Tenant, key.Partition, key.Sort)
	}
}

func (o port) Get(ctx context.Context, key platform.Key) (item platform.Item, err error) {
	err = o.p.do(ctx, call{kind: "get", key: key, faulty: true}, func() error {
		o.p.lookAt(ctx, key)
		item, err = o.p.w.store.Get(context.WithoutCancel(ctx), key)
		return err
	})
	return item, err
}

func (o port) GetMany(ctx context.Context, keys []platform.Key) (items []platform.Item, err error) {
	c := call{kind: "get many", faulty: true}
	for _, key := range keys {
		c.key.Partition, c.key.Sort = key.Partition, max(c.key.Sort, key.Sort)
	}
	err = o.p.do(ctx, c, func() error {
		for _, key := range keys {
			o.p.lookAt(ctx, key)
		}
		items, err = o.p.w.store.GetMany(context.WithoutCancel(ctx), keys)
		return err
	})
	return items, err
}

func (o port) List(ctx context.Context, q platform.Query) (items []platform.Item, err error) {
	key := platform.Key{Partition: q.Partition, Sort: q.Prefix}
	err = o.p.do(ctx, call{kind: "list", key: key, faulty: true}, func() error {
		o.p.lookAt(ctx, key)
		items, err = o.p.w.store.List(context.WithoutCancel(ctx), q)
		return err
	})
	return items, err
}

func (o port) Put(ctx context.Context, item platform.Item) error {
	free := context.WithoutCancel(ctx)
	return o.p.do(ctx, call{kind: "put", key: item.Key, body: item.Body, faulty: true}, func() error {
		o.p.lookAt(ctx, item.Key)
		err := o.p.w.store.Put(free, item)
		if err != nil && o.p.stalls > 0 {
			o.p.w.trace.count("stale write refused")
		}
		return err
	})
}

func (o port) Delete(ctx context.Context, key platform.Key, version int64) error {
	free := context.WithoutCancel(ctx)
	return o.p.do(ctx, call{kind: "delete", key: key, faulty: true}, func() error {
		o.p.lookAt(ctx, key)
		return o.p.w.store.Delete(free, key, version)
	})
}

func (o port) Send(ctx context.Context, m platform.Message) error {
	free := context.WithoutCancel(ctx)
	return o.p.do(ctx, call{kind: "send", queue: m.Queue, body: m.Body, faulty: true}, func() error { return o.p.w.store.Send(free, m) })
}

func (o port) PutBlob(ctx context.Context, name string, data []byte) error {
	return o.p.do(ctx, call{kind: "put blob", faulty: true}, func() error { return o.p.w.store.PutBlob(context.WithoutCancel(ctx), name, data) })
}

func (o port) GetBlob(ctx context.Context, name string) (data []byte, err error) {
	err = o.p.do(ctx, call{kind: "get blob", faulty: true}, func() error {
		data, err = o.p.w.store.GetBlob(context.WithoutCancel(ctx), name)
		return err
	})
	return data, err
}

func (o port) DeleteBlob(ctx context.Context, name string) error {
	return o.p.do(ctx, call{kind: "delete blob", faulty: true}, func() error { return o.p.w.store.DeleteBlob(context.WithoutCancel(ctx), name) })
}

// Atomically is a transaction on the embedded platform, nothing on the other.
func (o port) Atomically(ctx context.Context, fn func(platform.Store) error) error {
	if !o.p.w.plan.embedded {
		return fn(o)
	}
	free := context.WithoutCancel(ctx)
	return o.p.do(ctx, call{kind: "transaction", faulty: true}, func() error { return o.p.w.store.Atomically(free, fn) })
}

func (o port) Receive(context.Context, string, int, time.Duration) ([]platform.Received, error) {
	return nil, errFault
}
func (o port) Acknowledge(context.Context, platform.Received) error { return errFault }
func (o port) DeadLetters(context.Context, string, int) ([]platform.Received, error) {
	return nil, errFault
}
func (o port) Redrive(context.Context, string) (int, error) { return 0, errFault }
