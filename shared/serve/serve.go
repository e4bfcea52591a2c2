// Package serve wires the whole of Errand in one process over one data folder:
// ingress, executor and reconcile, with workers in place of Lambda's event source
// mappings. `errand serve`, the demo, the tests and the benchmarks start the same Stack.
package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/core"
	"github.com/errand-dev/errand/shared/executor"
	"github.com/errand-dev/errand/shared/ledger"
	"github.com/errand-dev/errand/shared/platform"
	"github.com/errand-dev/errand/shared/price"
	"github.com/errand-dev/errand/shared/sqlitestore"
	"github.com/errand-dev/errand/shared/subagent"
	"github.com/errand-dev/errand/shared/worker"
)

// Options of a Stack; zero values mean the defaults given.
type Options struct {
	// Dir is the data folder. It belongs to one process at a time.
	Dir    string
	Agents *agent.Registry
	// Lease is how long a lease or claim is valid without renewal: 60 s.
	Lease time.Duration
	// Cadence of the reconcile ticks: 5, 15, 30, 120 s.
	Cadence subagent.Cadence
	// MaxConcurrentRuns is the cap of live runs per conversation: 64, at most 256.
	MaxConcurrentRuns int
	// Prices tell what model calls cost: the table that comes with Errand.
	Prices *price.Table
	// Coalesce says how many ends of runs, that came while the conversation was busy, its agent
	// is told in one turn: 16 within 10 minutes; a Max of 1 tells each in a turn of its own.
	Coalesce subagent.Coalescing
	// Workers is how many runs are executed at a time: 1024. Waiting costs little.
	Workers int
	// NoDynamicSchedules refuses to create and change schedules.
	NoDynamicSchedules bool
	// Patience is how long Run, when it stops, waits for user code that ignores that: 8 s.
	Patience time.Duration
	// Now is the clock, time.Now if nil.
	Now func() time.Time
	// Show is given progress as it is reported; it must not block.
	Show func(subagent.Owner, ledger.Event)
	// Log is given what the stack does, also the address that it serves; nil means silence.
	Log *slog.Logger
}

// Stack is everything of one process.
type Stack struct {
	*core.Core
	store    *sqlitestore.Store
	log      *slog.Logger
	workers  int
	patience time.Duration
	now      func() time.Time
}

// Open opens the data folder and wires the stack. What a process left behind that was
// killed is taken over at once: this process holds the folder's lock, so that one is dead.
func Open(ctx context.Context, o Options) (*Stack, error) {
	o.Lease = cmp.Or(o.Lease, subagent.DefaultTerms.Lease)
	o.MaxConcurrentRuns = cmp.Or(o.MaxConcurrentRuns, subagent.DefaultCap)
	o.Coalesce = cmp.Or(o.Coalesce, subagent.DefaultCoalescing)
	o.Workers = cmp.Or(o.Workers, 1024)
	o.Patience = cmp.Or(o.Patience, 8*time.Second)
	if o.Cadence == nil {
		o.Cadence = subagent.DefaultCadence
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Prices == nil {
		prices, err := price.Default()
		if err != nil {
			return nil, fmt.Errorf("reading the default prices: %w", err)
		}
		o.Prices = &prices
	}
	if err := o.validate(); err != nil {
		return nil, err
	}
	store, err := sqlitestore.Open(ctx, o.Dir, sqlitestore.Options{Now: o.Now, Logger: o.Log})
	if err != nil {
		return nil, err
	}
	return wire(store, o), nil
}

func (o Options) validate() error {
	switch {
	case o.Lease < 100*time.Millisecond:
		return fmt.Errorf("a lease of %v is too short; at least 100ms", o.Lease)
	case o.MaxConcurrentRuns < 1 || o.MaxConcurrentRuns > subagent.MaxOpen:
		return fmt.Errorf("the cap of concurrent runs is %d; it must lie between 1 and %d", o.MaxConcurrentRuns, subagent.MaxOpen)
	case o.Workers < 1:
		return errors.New("there must be at least one worker")
	}
	for _, pause := range o.Cadence {
		if pause > platform.MaxDelay {
			return fmt.Errorf("the cadence has a pause of %v; here a tick is a delayed message, which waits for at most %v", pause, platform.MaxDelay)
		}
	}
	return o.Cadence.Validate()
}

func wire(store *sqlitestore.Store, o Options) *Stack {
	// One process, one clock: there is no skew, and every other holder is dead.
	terms := subagent.DefaultTerms.WithLease(o.Lease)
	terms.Skew, terms.Process = 0, ledger.RandomNonce()[:8]
	// All runs of a process die with it, so a death says little of any one of them.
	terms.MaxExecutions *= 5
	wired := core.New(core.Config{
		Ledger: ledger.New(store, terms, o.Now, ledger.RandomNonce), Agents: o.Agents, Cadence: o.Cadence, MaxConcurrentRuns: o.MaxConcurrentRuns,
		Prices: *o.Prices, Obey: true, NoSchedules: o.NoDynamicSchedules, Coalesce: o.Coalesce, ProgressEvery: time.Second, Show: o.Show, Log: o.Log,
	})
	return &Stack{Core: wired, store: store, log: o.Log, workers: o.Workers, patience: o.Patience, now: o.Now}
}

// turnWorkers and tickWorkers bound how many conversations and ticks are worked on at
// a time.
const (
	turnWorkers = 256
	tickWorkers = 16
	visibility  = 30 * time.Second
)

// Run works off the queues until ctx ends. It then gives what is under execution a
// moment to stop and be handed on, and returns. What has not stopped by then is left
// behind, as by a kill: once the store is closed it can write nothing, and whoever opens
// the folder next takes it over.
func (s *Stack) Run(ctx context.Context) {
	work, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(nil)
	var pools sync.WaitGroup
	for _, p := range []*worker.Pool{
		{Queue: platform.Turns, Size: turnWorkers, Handle: s.turn, RetryAfter: executor.RetryAfter},
		{Queue: platform.Runs, Size: s.workers, Handle: s.run, RetryAfter: executor.RetryAfter},
		{Queue: platform.Ticks, Size: tickWorkers, Handle: s.tick, RetryAfter: tickAfter},
	} {
		p.Receiver, p.Visibility, p.Log = s.store, visibility, s.log
		pools.Go(func() { p.Run(ctx, work) })
	}
	pools.Go(func() { s.keepHouse(ctx) })
	<-ctx.Done()
	stop(agent.ErrHandOn)
	ended := make(chan struct{})
	go func() { defer close(ended); pools.Wait() }()
	select {
	case <-ended:
	case <-time.After(s.patience):
		s.log.WarnContext(ctx, "stopping although some code does not; the next start takes it over", "runs", s.Executor.Running())
	}
}

func (s *Stack) turn(ctx context.Context, r platform.Received) error {
	w, err := ledger.ParseWake(platform.Turns, r.Body)
	if err != nil {
		return err
	}
	return s.Executor.Turn(ctx, w, r.Receives)
}

func (s *Stack) run(ctx context.Context, r platform.Received) error {
	w, err := ledger.ParseWake(platform.Runs, r.Body)
	if err != nil {
		return err
	}
	return s.Executor.Run(ctx, w)
}

func (s *Stack) tick(ctx context.Context, r platform.Received) error {
	w, err := ledger.ParseWake(platform.Ticks, r.Body)
	if err != nil {
		return err
	}
	return s.Reconciler.Tick(ctx, w)
}

// tickAfter is how long a tick that failed stays hidden: not long, since the house sends
// dead ticks again.
func tickAfter(_ error, receives int) time.Duration { return subagent.Backoff(receives) / 5 }

const (
	houseEvery = time.Minute
	sweepBatch = 500
)

// keepHouse deletes expired rows and gives ticks that failed for good another life:
// while runs are outstanding their backbone must not end.
func (s *Stack) keepHouse(ctx context.Context) {
	ticker := time.NewTicker(houseEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		s.sweep(ctx)
		if !s.deadTicks(ctx) {
			continue
		}
		if n, err := s.store.Redrive(ctx, platform.Ticks); err != nil && ctx.Err() == nil {
			s.log.WarnContext(ctx, "redriving ticks failed", "error", err)
		} else if n > 0 {
			s.log.WarnContext(ctx, "dead ticks sent again", "count", n)
		}
	}
}

// sweep deletes all rows that have expired: with a bound it would fall behind a busy
// server for good.
func (s *Stack) sweep(ctx context.Context) {
	for ctx.Err() == nil {
		deleted, err := s.store.Sweep(ctx, s.now(), sweepBatch)
		if err != nil && ctx.Err() == nil {
			s.log.WarnContext(ctx, "sweeping failed", "error", err)
		}
		if err != nil || deleted < sweepBatch {
			return
		}
	}
}

// deadTicks reports whether a dead tick can be read: one that cannot is a dead letter for
// good.
func (s *Stack) deadTicks(ctx context.Context) bool {
	const batch = 100
	dead, err := s.store.DeadLetters(ctx, platform.Ticks, batch)
	if err != nil {
		if ctx.Err() == nil {
			s.log.WarnContext(ctx, "reading dead ticks failed", "error", err)
		}
		return false
	}
	return slices.ContainsFunc(dead, func(r platform.Received) bool {
		_, err := ledger.ParseWake(platform.Ticks, r.Body)
		return err == nil
	})
}

// Receiver gives tests and operators the queues themselves.
func (s *Stack) Receiver() platform.Receiver { return s.store }

// Close closes the data folder. Run must have returned.
func (s *Stack) Close() error { return s.store.Close() }
