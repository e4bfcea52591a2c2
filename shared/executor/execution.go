package executor

import (
	"context"
	"sync"
	"time"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/ledger"
	"github.com/errand-dev/errand/shared/subagent"
)

// execution is one run under its lease: the backend of its task.
type execution struct {
	*Executor
	pad
	agent.Spender
	purse *purse
	// row is the run as acquired; epoch is ours for as long as we hold the lease.
	row    *subagent.Run
	epoch  int64
	cancel context.CancelCauseFunc
	// backbone is a hint for the end.
	backbone subagent.Backbone

	mu        sync.Mutex
	heartbeat *time.Timer
	// tell writes the events that would otherwise wait for the run's next write.
	tell    *time.Timer
	stopped bool
	// last is the row as last written or read: a hint for the next write.
	last *subagent.Run
	// further: a new step was finished since the last fence.
	further bool
	steps   map[string]ledger.Step
	// pending is progress that is not stored yet; flush stores it.
	pending *subagent.Progress
	stored  time.Time
	shown   time.Time
	flush   *time.Timer

	reached    int
	dispatched int
	inboxReads int
	inboxRead  int
	// path is that of the run's agents, once it was asked for.
	path string
	// wait is what the task waits for, if it does.
	wait subagent.Wait
}

func newExecution(e *Executor, row subagent.Run, w ledger.Wake) *execution {
	p := newPurse(e, ledger.LifeOf(row), row.Exec.Holder, row.Payers, row.Exec.Epoch == 1)
	return &execution{Executor: e, Spender: p, purse: p, row: &row, last: &row, epoch: row.Exec.Epoch, backbone: w.BackboneHint(), inboxRead: row.InboxRead}
}

// begin starts the heartbeat.
func (x *execution) begin() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.heartbeat = time.AfterFunc(x.Ledger.Terms.FirstBeat(x.row.Exec.Until, x.Ledger.Now()), x.beat)
	x.tell = time.AfterFunc(showAfter, func() { x.emit(context.Background(), x.row.Owner, x.notes()...) })
}

// late reports whether the lease is too near its end to begin the task under it.
func (x *execution) late() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.Ledger.Terms.Late(x.last.Exec.Until, x.Ledger.Now())
}

// current is the row as this execution knows it.
func (x *execution) current() subagent.Run {
	x.mu.Lock()
	defer x.mu.Unlock()
	return *x.last
}

func (x *execution) state() (inboxRead int, progress *subagent.Progress) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.inboxRead, x.pending
}

func (x *execution) waiting() subagent.Wait {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.wait
}

func (x *execution) setRead(n int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.inboxRead = n
}

// write applies a rule that needs our lease to the row. If it is refused, the task
// must stop: its context ends with the cause, which is also returned.
func (x *execution) write(ctx context.Context, rule func(subagent.Run) (subagent.Run, subagent.Outcome)) error {
	row, outcome, err := x.update(ctx, x.Ledger, rule)
	if err != nil {
		return err
	}
	x.mu.Lock()
	x.last = &row
	x.mu.Unlock()
	if outcome.OK() {
		return nil
	}
	cause := causeOf(row, x.epoch)
	x.cancel(cause)
	return cause
}

// update applies a rule to the run's row, if it is still that of our run: one that has the
// same id since the conversation was cleared has another generation.
func (x *execution) update(ctx context.Context, l *ledger.Ledger, rule func(subagent.Run) (subagent.Run, subagent.Outcome)) (subagent.Run, subagent.Outcome, error) {
	return l.UpdateRun(ctx, x.current(), func(r subagent.Run) (subagent.Run, subagent.Outcome) {
		if r.Generation != x.row.Generation {
			return r, subagent.Stale
		}
		return rule(r)
	})
}

// causeOf says why a row refuses its executor.
func causeOf(row subagent.Run, epoch int64) error {
	switch {
	case row.Status == subagent.Interrupted && row.Exec.Epoch == epoch:
		return agent.ErrGivenUp
	case row.Status == subagent.Aborted && row.Exec.Epoch == epoch:
		return agent.ErrCancelled
	}
	return agent.ErrLeaseLost
}

// stopFor ends the task's context if the row says that it must stop.
func (x *execution) stopFor(row subagent.Run) {
	if row.Exec.Epoch == x.epoch && row.Status == subagent.Running {
		return
	}
	x.mu.Lock()
	if row.Version > x.last.Version {
		x.last = &row
	}
	x.mu.Unlock()
	x.cancel(causeOf(row, x.epoch))
}

// beat renews the lease and writes the events that wait, then sets itself again.
// A holder that cannot renew stops before its lease ends.
func (x *execution) beat() {
	ctx, done := context.WithTimeout(context.Background(), x.Ledger.Terms.BeatTimeout())
	defer done()
	err := x.write(ctx, func(r subagent.Run) (subagent.Run, subagent.Outcome) {
		return r.StartStep(x.epoch, x.Ledger.Now(), x.Ledger.Terms, false)
	})
	pause, stop := x.Ledger.Terms.Beat(x.current().Exec.Until, err != nil, x.Ledger.Now())
	if stop {
		x.cancel(agent.ErrLeaseLost)
		return
	}
	x.emit(ctx, x.row.Owner, x.notes()...)
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.stopped {
		x.heartbeat.Reset(pause)
	}
}

// stop ends heartbeat and flush. What is pending goes into the write of the end.
func (x *execution) stop() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.stopped = true
	x.heartbeat.Stop()
	x.tell.Stop()
	if x.flush != nil {
		x.flush.Stop()
	}
}
