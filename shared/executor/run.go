package executor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/delivery"
	"github.com/errand-dev/errand/shared/ledger"
	"github.com/errand-dev/errand/shared/subagent"
)

// Run handles a message of the runs queue. A nil error acknowledges it.
func (e *Executor) Run(ctx context.Context, w ledger.Wake) error {
	x, err := e.acquire(ctx, w)
	if x == nil {
		return err
	}
	return x.execute(ctx)
}

// acquire takes the lease. It returns nil if there is nothing to execute.
func (e *Executor) acquire(ctx context.Context, w ledger.Wake) (*execution, error) {
	e.Ledger.LearnTail(w)
	hint := w.Hint()
	if hint.Version == 0 {
		// A wake from whoever knows a part of what the run waits for.
		var asleep bool
		var err error
		if hint, asleep, err = e.asleep(ctx, hint); asleep || err != nil {
			return nil, err
		}
	}
	if held, err := e.held(ctx, hint); held || err != nil {
		return nil, err
	}
	token := e.Ledger.Token()
	row, outcome, err := e.Ledger.UpdateRun(ctx, hint, func(r subagent.Run) (subagent.Run, subagent.Outcome) {
		return r.Acquire(token, e.Ledger.Now(), e.Ledger.Terms)
	})
	if err != nil {
		return nil, err
	}
	if !outcome.OK() {
		e.Log.DebugContext(ctx, "run is not ours to execute", "run_id", w.Run, "outcome", outcome.String())
		if row.Status.Hard() {
			// A crash may have come between its end and the delivery.
			return nil, e.Courier.Deliver(ctx, delivery.Parcel{Run: row, Slot: subagent.Finish})
		}
		return nil, nil
	}
	if row.Parent != "" {
		if ended, err := e.endWithParent(ctx, row); ended || err != nil {
			return nil, err
		}
	}
	return newExecution(e, row, w), nil
}

// endWithParent closes the race between a cancel that listed the descendants and one
// whose row came later: all above it are read strongly, before the first step.
func (e *Executor) endWithParent(ctx context.Context, row subagent.Run) (bool, error) {
	above, err := e.Ledger.Runs(ctx, row.Owner, row.Lineage())
	if err != nil || !slices.ContainsFunc(above, func(r subagent.Run) bool { return r.Status == subagent.Aborted }) {
		return false, err
	}
	return true, e.Control.CancelBelow(ctx, row)
}

// execute runs the task to its end, or until it must stop. While a task waits, all
// that its run costs is this stack: the work around it is done in calls that return.
func (x *execution) execute(ctx context.Context) error {
	x.enter(x)
	defer x.leave(x)
	taskCtx, cancel := x.withDeadline(ctx)
	x.cancel = cancel
	x.begin()
	call, err := x.prepare(taskCtx)
	var output any
	if err == nil && x.late() {
		cancel(agent.ErrLeaseLost)
	} else if err == nil {
		output, err = agent.Protect(call)
	}
	x.stop()
	cause := context.Cause(taskCtx)
	cancel(nil)
	// From here on the run's own context must not stop us from writing what became of it.
	return x.settle(context.WithoutCancel(ctx), output, err, cause)
}

// prepare returns the call of the task.
func (x *execution) prepare(ctx context.Context) (func() (any, error), error) {
	x.Log.InfoContext(ctx, "executing run", "run_id", x.row.ID, "agent", x.row.Agent, "attempt", x.epoch)
	task, ok := x.Agents.Task(x.row.Agent)
	if !ok {
		return nil, agent.UnknownAgent(x.row.Agent, x.Agents.Tasks())
	}
	input, err := x.Ledger.LoadValue(ctx, x.row.Owner, x.row.Input)
	if err != nil {
		return nil, agent.Retryable(err)
	}
	x.note(x.Ledger.NewEvent("run.started", x.row.ID, "", attempt{x.epoch}))
	if x.Agents.OnStart != nil {
		if err := x.start(ctx); err != nil {
			return nil, fmt.Errorf("start hook: %w", err)
		}
	}
	run := agent.NewRun(*x.row, json.RawMessage(input), x)
	return func() (any, error) { return task(ctx, run) }, nil
}

// startStep cannot be the key of a task's step: '#' is not in the alphabet of ids.
const startStep = "#start"

// start calls the start hook, before the task. It is journalled, so a later execution
// calls it again only if it has not succeeded yet.
func (x *execution) start(ctx context.Context) error {
	_, err := x.Step(ctx, startStep, func(ctx context.Context) (json.RawMessage, error) {
		d := agent.Delivery{ID: x.row.ID + ":start", Run: agent.InfoOf(*x.row)}
		return agent.Protect(func() (json.RawMessage, error) { return json.RawMessage("true"), x.Agents.OnStart(ctx, d) })
	})
	return err
}

type attempt struct {
	Attempt int64 `json:"attempt"`
}

// settle writes what became of the execution.
func (x *execution) settle(ctx context.Context, output any, err, cause error) error {
	if err := x.chargeBehindFence(ctx, cause); err != nil {
		return err
	}
	if errors.Is(cause, agent.ErrLeaseLost) || errors.Is(cause, agent.ErrCancelled) {
		if cleared, err := x.cleared(ctx); cleared || err != nil {
			return err
		}
	}
	wait := x.waiting()
	switch {
	case errors.Is(cause, agent.ErrLeaseLost):
		x.Log.WarnContext(ctx, "lease lost, result dropped", "run_id", x.row.ID, "attempt", x.row.Exec.Epoch)
		return nil
	case !wait.IsZero():
		return x.suspend(ctx, wait)
	case err == nil:
		return x.end(ctx, output)
	case errors.Is(cause, agent.ErrGivenUp):
		return x.tearDown(ctx)
	case errors.Is(cause, agent.ErrCancelled):
		// Whoever cancelled delivers, and the tick if that one died.
		x.emit(ctx, x.row.Owner, x.notes()...)
		return nil
	case cause != nil:
		// Our deadline, or the process shuts down: the run goes on elsewhere.
		return x.handOn(ctx, false, 0)
	case (agent.IsRetryable(err) || ledger.IsTransient(err)) && x.current().Lost+1 < x.Ledger.Terms.MaxExecutions:
		x.Log.WarnContext(ctx, "run failed, will be retried", "run_id", x.row.ID, "attempt", x.row.Exec.Epoch, "error", err)
		return x.handOn(ctx, true, subagent.Backoff(x.current().Lost+1)/5)
	}
	return x.fail(ctx, err)
}

// cleared reports whether the conversation was deleted while the run was at work. What
// the run has written since is then deleted too, and nothing is told.
func (x *execution) cleared(ctx context.Context) (bool, error) {
	row, err := x.Ledger.Run(ctx, x.row.Owner, x.row.ID)
	if err != nil || row.Status != subagent.Void {
		return false, err
	}
	if err := x.purse.erase(ctx); err != nil {
		return true, err
	}
	return true, x.Ledger.EraseJournal(ctx, row.Owner, row.ID)
}

func (x *execution) end(ctx context.Context, output any) error {
	raw, err := json.Marshal(output)
	if err != nil {
		return x.fail(ctx, fmt.Errorf("its output cannot be encoded: %w", err))
	}
	if len(raw) > ledger.MaxValue {
		return x.fail(ctx, fmt.Errorf("its output has %d bytes, at most %d are kept", len(raw), ledger.MaxValue))
	}
	result := subagent.Result{Status: subagent.Completed, Summary: summaryOf(output, raw)}
	if output != nil {
		if result.Output, err = x.Ledger.StoreValue(ctx, x.row.Owner, string(raw)); err != nil {
			return err
		}
	}
	return x.finish(ctx, result)
}

func (x *execution) fail(ctx context.Context, err error) error {
	result := subagent.Result{Status: subagent.Error, Problem: clip(err.Error(), maxProblem)}
	if agent.Overspent(err) {
		result.Reason = subagent.ReasonSpend
	}
	return x.finish(ctx, result)
}

// finish writes the end and sends it on its way: the fast path.
func (x *execution) finish(ctx context.Context, result subagent.Result) error {
	if x.Agents.OnFinish != nil {
		// The hook is user code: it cannot run while a transaction is open.
		row, err := x.writeEnd(ctx, x.Ledger, result)
		if err != nil {
			return err
		}
		return x.Courier.Deliver(ctx, x.parcel(row))
	}
	return x.Ledger.Atomically(ctx, func(l *ledger.Ledger) error {
		row, err := x.writeEnd(ctx, l, result)
		if err != nil {
			return err
		}
		return x.Courier.DeliverIn(ctx, l, x.parcel(row))
	})
}

func (x *execution) parcel(row subagent.Run) delivery.Parcel {
	return delivery.Parcel{Run: row, Slot: subagent.Finish, Backbone: x.backbone, Events: x.notes()}
}

// writeEnd writes the end, after it has handed on what the task left unread.
func (x *execution) writeEnd(ctx context.Context, l *ledger.Ledger, result subagent.Result) (subagent.Run, error) {
	for {
		read, progress := x.state()
		row, outcome, err := x.update(ctx, l, func(r subagent.Run) (subagent.Run, subagent.Outcome) {
			if progress != nil {
				r.Progress, r.LastSignal = *progress, max(r.LastSignal, progress.At)
			}
			return r.End(x.epoch, result, read, l.Now())
		})
		switch {
		case err != nil:
			return row, err
		case outcome == subagent.Unread:
			if err := x.forward(ctx, l, row); err != nil {
				return row, err
			}
			continue
		case outcome == subagent.Apply:
			x.note(l.NewEvent("run.ended", row.ID, "", ended{Status: row.Status, Reason: row.Reason, Cost: costOf(x.purse.spent())}))
			x.Log.InfoContext(ctx, "run ended", "run_id", row.ID, "status", row.Status, "attempt", x.epoch, "output_bytes", row.Output.Size)
		case row.Status == subagent.Void:
			x.notes()
			return row, l.EraseJournal(ctx, row.Owner, row.ID)
		case outcome != subagent.Mine:
			x.Log.WarnContext(ctx, "end refused, result dropped", "run_id", row.ID, "outcome", outcome.String())
		}
		return row, nil
	}
}

type ended struct {
	Status subagent.Status `json:"status"`
	Reason string          `json:"reason,omitempty"`
	Cost   *cost           `json:"cost,omitempty"`
}

// handOn gives the run to another execution, after delay.
func (x *execution) handOn(ctx context.Context, failed bool, delay time.Duration) error {
	row, outcome, err := x.update(ctx, x.Ledger, func(r subagent.Run) (subagent.Run, subagent.Outcome) {
		return r.HandOn(x.epoch, x.Ledger.Now(), failed, delay, subagent.Wait{})
	})
	if err != nil {
		return err
	}
	x.emit(ctx, row.Owner, x.notes()...)
	switch outcome {
	case subagent.Apply:
		return x.Ledger.SendJob(ctx, row, subagent.Backbone{}, delay)
	case subagent.TornDown:
		return x.tearDown(ctx)
	}
	return nil
}

// tearDown confirms that nobody works any more on the run, which was given up. Without it the
// run is watched to the end of its window.
func (x *execution) tearDown(ctx context.Context) error {
	_, _, err := x.update(ctx, x.Ledger, func(r subagent.Run) (subagent.Run, subagent.Outcome) {
		return r.TearDown(x.epoch)
	})
	return err
}
