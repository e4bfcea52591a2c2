// Package executor does the work that queue messages wake it for: it runs the task of
// a run under its execution lease, and the turns of a conversation one after the other.
//
// A message only names a row. The executor takes the lease or leaves the message
// alone; everything it then writes is conditional on holding it. Work that must stop,
// because the process ends or the Lambda's time is up, is handed on with its journal.
package executor

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/callback"
	"github.com/errand-dev/errand/shared/control"
	"github.com/errand-dev/errand/shared/delivery"
	"github.com/errand-dev/errand/shared/dispatch"
	"github.com/errand-dev/errand/shared/ledger"
	"github.com/errand-dev/errand/shared/operator"
	"github.com/errand-dev/errand/shared/price"
	"github.com/errand-dev/errand/shared/subagent"
)

// Config is what an Executor needs.
type Config struct {
	Ledger *ledger.Ledger
	Agents *agent.Registry
	// Prices tell what model calls cost.
	Prices     price.Table
	Courier    *delivery.Courier
	Dispatcher *dispatch.Dispatcher
	Control    *control.Control
	// Controls hold back work of agents in maintenance; nil holds nothing back.
	Controls *operator.Controls
	// Callbacks makes the tokens of callbacks.
	Callbacks *callback.Signer
	Log       *slog.Logger
	// StopBefore is how long before the end of its context an execution is handed on;
	// of a short one, a quarter of the time that it had.
	StopBefore time.Duration
	// ProgressEvery is the shortest pause between two stored progress snapshots of a
	// run; what comes in between is kept and stored when it is over.
	ProgressEvery time.Duration
	// Coalesce says how many ends of runs are told in one turn.
	Coalesce subagent.Coalescing
	// Show, if set, is given progress as it is reported, for whoever is watching.
	Show func(o subagent.Owner, e ledger.Event)
}

// Executor executes runs and turns.
type Executor struct {
	Config

	mu      sync.Mutex
	running map[runKey]*execution
}

type runKey struct {
	owner subagent.Owner
	run   string
}

// New returns an executor.
func New(c Config) *Executor {
	return &Executor{Config: c, running: map[runKey]*execution{}}
}

// Changed stops the execution of a run in this process whose row says that it must
// end. It is a shortcut: without it the next step or heartbeat finds out.
func (e *Executor) Changed(r subagent.Run) {
	e.mu.Lock()
	x := e.running[runKey{r.Owner, r.ID}]
	e.mu.Unlock()
	if x != nil {
		x.stopFor(r)
	}
}

func (e *Executor) enter(x *execution) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.running[runKey{x.row.Owner, x.row.ID}] = x
}

func (e *Executor) leave(x *execution) {
	e.mu.Lock()
	defer e.mu.Unlock()
	key := runKey{x.row.Owner, x.row.ID}
	if e.running[key] == x {
		delete(e.running, key)
	}
}

// Running is the number of runs under execution in this process.
func (e *Executor) Running() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.running)
}

func (e *Executor) emit(ctx context.Context, o subagent.Owner, events ...ledger.Event) {
	if err := e.Ledger.Emit(context.WithoutCancel(ctx), o, events...); err != nil {
		e.Log.WarnContext(ctx, "events lost", "conversation", o.Conversation, "error", err)
	}
}

// show shows an event to whoever is watching.
func (e *Executor) show(o subagent.Owner, event ledger.Event) {
	if e.Show != nil {
		e.Show(o, event)
	}
}

// withDeadline ends ctx with agent.ErrHandOn shortly before its own deadline.
func (e *Executor) withDeadline(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	deadline, ok := ctx.Deadline()
	if !ok {
		return ctx, cancel
	}
	left := time.Until(deadline)
	timer := time.AfterFunc(left-min(e.StopBefore, left/4), func() { cancel(agent.ErrHandOn) })
	return ctx, func(cause error) {
		timer.Stop()
		cancel(cause)
	}
}

const (
	maxSummary = 200
	maxProblem = 300
)

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return text(s, n-3) + "..."
}

// summaryOf is what a message tells of an output: a text itself, else its JSON.
func summaryOf(output any, raw json.RawMessage) string {
	switch v := output.(type) {
	case nil:
		return ""
	case string:
		return clip(v, maxSummary)
	case fmt.Stringer:
		return clip(v.String(), maxSummary)
	}
	return clip(string(raw), maxSummary)
}
