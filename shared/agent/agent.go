// Package agent is what users of Errand write against: tasks (background subagents
// as Go functions), chats (the agent of a conversation), named handlers and hooks,
// and the Registry that holds them by name.
//
// Names are registered text, never reflection names: a run that outlives a deploy
// finds its task and its handler again by name.
package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"github.com/errand-dev/errand/shared/subagent"
)

// Task is a background subagent. What it returns becomes the run's output, encoded
// as JSON; a string is also its summary. An error ends the run as an error, unless it
// is Retryable.
//
// A task may be executed again from its beginning after a crash: work with effects
// belongs into Step, whose results are kept. ctx ends when the run is cancelled or
// given up, or when the executor must hand it on; its cause says which.
type Task func(ctx context.Context, run *Run) (any, error)

// Chat is the agent of a conversation: it answers one turn.
type Chat func(ctx context.Context, turn *Turn) (string, error)

// Handler is called for a slot of a run whose dispatch named it in Notice.Handler. It runs
// at least once, and again only after a crash or failure inside it; Delivery.ID is the same each time.
type Handler func(ctx context.Context, d Delivery) error

// Delivery tells a handler or hook of the end of a run.
type Delivery struct {
	// ID is run:slot, or run:slot:n after n redrives; use it to deduplicate effects.
	ID      string
	Slot    subagent.Slot
	Attempt int
	Run     Info
	// Output is the run's output, nil if it has none.
	Output json.RawMessage
	// Emit appends an event to the conversation's log.
	Emit func(ctx context.Context, typ string, data any) error
}

// Info describes a run.
type Info struct {
	Owner subagent.Owner
	ID    string
	Agent string
	// Parent is the run that dispatched it, empty for a turn or the API.
	Parent string
	// ReplayOf is the run that this one repeats, if it does.
	ReplayOf string
	Status   subagent.Status
	// Summary is the beginning of the output, Problem the text of the error that it ended with.
	Summary string
	Problem string
	// Reason is set on ends that the task did not choose: what a cancel gave, or one like subagent.ReasonBudget.
	Reason string
	// ChildStillRunning: it was given up and may be at work all the same.
	ChildStillRunning bool
	Source            string
	Progress          subagent.Progress
	DispatchedAt      time.Time
	// Input is filled in by Work.Runs and Work.Inspect, up to 200 KB.
	Input json.RawMessage
}

// Protect calls user code and turns a panic of it into an error. Called by whoever calls
// tasks, chats, handlers and hooks.
func Protect[T any](call func() (T, error)) (value T, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return call()
}

// InfoOf describes the run.
func InfoOf(r subagent.Run) Info {
	return Info{
		Owner: r.Owner, ID: r.ID, Agent: r.Agent, Parent: r.Parent, ReplayOf: r.ReplayOf, Status: r.Status,
		Summary: r.Summary, Problem: r.Problem, Reason: r.Reason,
		ChildStillRunning: r.ChildStillRunning(), Source: r.Notice.Source,
		Progress: r.Progress, DispatchedAt: r.DispatchedAt.Time(),
	}
}

// Retryable marks an error after which the run is executed again, after a pause.
func Retryable(err error) error { return &retryableError{err} }

type retryableError struct{ err error }

func (e *retryableError) Error() string { return e.err.Error() }
func (e *retryableError) Unwrap() error { return e.err }

// IsRetryable reports whether err asks for another try.
func IsRetryable(err error) bool {
	var r *retryableError
	return errors.As(err, &r)
}

// Causes of a context that ends while a task or chat works.
var (
	// ErrCancelled: the run was cancelled by a user.
	ErrCancelled = errors.New("the run was cancelled")
	// ErrGivenUp: the run is over its budget or was silent for too long.
	ErrGivenUp = errors.New("the run was given up")
	// ErrLeaseLost: another executor has the run now; nothing this one writes counts.
	ErrLeaseLost = errors.New("another executor has the run")
	// ErrHandOn: the executor stops; the run goes on elsewhere from its journal.
	ErrHandOn = errors.New("the executor hands the run on")
	// ErrStalled: the turn has not finished a step for an hour.
	ErrStalled = errors.New("stalled without durable progress")
	// ErrSuspended: the run or turn waits; it is executed again when that is over.
	ErrSuspended = errors.New("suspended until a wait is over")
)

// Errors of a dispatch.
var (
	ErrUnknownAgent   = errors.New("no agent has this name")
	ErrUnknownHandler = errors.New("no handler has this name; pass the name of a registered handler, not a function")
	ErrRunEnded       = errors.New("the run has ended")
	ErrNoRun          = errors.New("no such run")
)

// UnknownAgent is ErrUnknownAgent for a name, and tells which there are.
func UnknownAgent(name string, known []string) error {
	if len(known) == 0 {
		return fmt.Errorf("%w: %q; none is registered", ErrUnknownAgent, name)
	}
	return fmt.Errorf("%w: %q; there are: %s", ErrUnknownAgent, name, strings.Join(known, ", "))
}

// CapError is returned by a dispatch beyond the cap. Nothing was written; the same
// run id can be dispatched again later.
type CapError struct{ Cap int }

func (e *CapError) Error() string {
	return fmt.Sprintf("the conversation has %d background runs already, its limit; wait for one to end or cancel one", e.Cap)
}
