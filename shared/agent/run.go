package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"github.com/errand-dev/errand/shared/subagent"
)

// Work is what tasks and chats have in common: journalled steps and background runs.
// The executor provides the backend.
type Work struct {
	Owner subagent.Owner
	// ID is the id of the run or turn.
	ID      string
	backend Backend
}

// Run is one execution of a task.
type Run struct {
	Work
	Agent string
	// Attempt counts executions, from 1: more than one after a crash or a hand-on.
	Attempt int64
	// StartedAt is when the run was first executed; it stays over attempts.
	StartedAt time.Time
	// Parent is the run that dispatched this one; empty if a turn or the API did.
	Parent string
	// ReplayOf is the run that this one repeats, if it does.
	ReplayOf string
	// Depth is how many runs stand above this one.
	Depth int
	input json.RawMessage
}

// NewRun returns the view of a run that its task gets. Called by the executor.
func NewRun(r subagent.Run, input json.RawMessage, b Backend) *Run {
	return &Run{
		Work: Work{r.Owner, r.ID, b}, Agent: r.Agent, Attempt: r.Exec.Epoch,
		StartedAt: r.StartedAt.Time(), Parent: r.Parent, ReplayOf: r.ReplayOf, Depth: len(r.Lineage()), input: input,
	}
}

// Input decodes the run's input into v. Unknown fields are refused.
func (r *Run) Input(v any) error { return decodeStrict(r.input, v) }

// RawInput returns the input as it was given.
func (r *Run) RawInput() json.RawMessage { return r.input }

// Progress reports a snapshot: the latest wins. It counts as a sign of life always,
// though not each is shown or stored.
func (r *Run) Progress(ctx context.Context, p Progress) error { return r.backend.Progress(ctx, p) }

// Milestone records a durable named point. data is kept with it and may be nil.
func (r *Run) Milestone(ctx context.Context, name string, data any) error {
	if err := subagent.CheckID(name); err != nil {
		return fmt.Errorf("milestone %q: %w", name, err)
	}
	raw, err := encodeOptional(data)
	if err != nil {
		return fmt.Errorf("encoding the data of milestone %s: %w", name, err)
	}
	return r.backend.Milestone(ctx, name, raw)
}

// Inbox returns the messages that came in since the last call: follow-ups, and the
// ends of children. Call it between steps.
func (r *Run) Inbox(ctx context.Context) ([]Message, error) { return r.backend.Inbox(ctx) }

// Result is a run with its output: the end of an awaited child, or what Inspect finds.
type Result struct {
	Info
	Output json.RawMessage
}

// Progress is what a run reports about itself.
type Progress struct {
	// Fraction lies between 0 and 1; nil if it cannot be told.
	Fraction *float64 `json:"fraction,omitempty"`
	Message  string   `json:"message,omitempty"`
	Phase    string   `json:"phase,omitempty"`
	// Data is shown to whoever is watching, and not kept.
	Data json.RawMessage `json:"data,omitempty"`
}

// Fraction is a helper for Progress.
func Fraction(done, total int64) *float64 {
	f := 1.0
	if total > 0 {
		f = min(float64(done)/float64(total), 1)
	}
	return &f
}

// Milestone is a milestone that is told.
type Milestone struct {
	Name     string          `json:"name"`
	Sequence int             `json:"sequence"`
	At       time.Time       `json:"at"`
	Data     json.RawMessage `json:"data,omitempty"`
}

// Message is an entry of a run's inbox.
type Message struct {
	ID   string
	Text string
	// From is the child run whose end it tells, empty for a follow-up.
	From string
	// Milestone is set if it tells of a milestone of that run, not of its end.
	Milestone string
	Source    string
	At        time.Time
}

// Turn is one turn of a conversation, as its chat sees it.
type Turn struct {
	Work
	Kind    subagent.TurnKind
	Message string
	// Run, Milestone and Source are set on injected turns.
	Run       string
	Milestone string
	Source    string
	// Status is the end that a finish or give_up turn tells.
	Status subagent.Status
	// Metadata is what the user's request carried, or what injected the turn.
	Metadata map[string]string
	// Also are other ends that came while the conversation was busy and are told in this
	// turn, too, in their order. Message is the first one's only.
	Also []Told
}

// Told is the end of a run that a turn tells of.
type Told struct {
	Run     string
	Status  subagent.Status
	Message string
	Source  string
}

// NewTurn returns the view of a turn that its chat gets. Called by the executor.
func NewTurn(t subagent.Turn, message string, also []Told, b Backend) *Turn {
	return &Turn{
		Work: Work{t.Owner, t.ID, b}, Kind: t.Kind, Message: message,
		Run: t.Run, Milestone: t.Milestone, Source: t.Source, Status: t.Told, Also: also,
		Metadata: maps.Clone(t.Metadata),
	}
}

// Transcript returns up to limit entries of the conversation, oldest first; the last one
// is this turn's own message.
func (t *Turn) Transcript(ctx context.Context, limit int) ([]Line, error) {
	return t.backend.Transcript(ctx, limit)
}

// Line is one entry of a conversation's transcript.
type Line struct {
	// Role is user or assistant.
	Role string
	Text string
	// Source is user, agent, or whoever told of a run.
	Source string
	At     time.Time
}

// Dispatch is a request for a background run.
type Dispatch struct {
	// Key makes the run's id, with the id of the run or turn that dispatches: the same
	// key is the same run, also when the code is executed again. Without one it is the
	// place among the caller's dispatches, which must then come in the same order each time.
	Key string
	// RunID, if set, is the run's id; Key is not looked at then.
	RunID string
	// Agent is the name of a registered task.
	Agent string
	// Input is encoded as JSON, the task reads it with Run.Input.
	Input any
	// Awaited: the result is taken by Await or Join instead of being delivered.
	Awaited bool
	// Notice says who is told of the end, and of which milestones. Zero means nobody.
	Notice subagent.Notice
	Budget subagent.Budget
}

// Dispatch starts a background run and returns at once. The run that has the id
// already, if one has, is the answer: nothing is started twice.
func (w *Work) Dispatch(ctx context.Context, d Dispatch) (Info, error) {
	return w.backend.Dispatch(ctx, d)
}

// Runs lists the conversation's background runs that have not ended, oldest first.
func (w *Work) Runs(ctx context.Context) ([]Info, error) { return w.backend.Runs(ctx) }

// Cancel cancels a background run and its descendants.
func (w *Work) Cancel(ctx context.Context, run, reason string) (Info, error) {
	return w.backend.Cancel(ctx, run, reason)
}

// Inspect returns a run of the conversation, also one that has ended, with its output.
// Errors: ErrNoRun.
func (w *Work) Inspect(ctx context.Context, run string) (Result, error) {
	return w.backend.Inspect(ctx, run)
}

// Milestones returns the milestones that a run of the conversation has reached, in
// sequence. Errors: ErrNoRun.
func (w *Work) Milestones(ctx context.Context, run string) ([]Milestone, error) {
	return w.backend.Milestones(ctx, run)
}

// RunLog returns what the conversation's log says of a run, behind the cursor after;
// zero is its beginning. A page comes from a bounded part of the log and may be empty.
func (w *Work) RunLog(ctx context.Context, run string, after int64) (LogPage, error) {
	return w.backend.RunLog(ctx, run, after)
}

// LogPage is a part of a run's log.
type LogPage struct {
	Entries []LogEntry
	// Next is the cursor of the next page, More whether there is one already.
	Next int64
	More bool
}

// LogEntry is one event of a run.
type LogEntry struct {
	Type string          `json:"type"`
	At   time.Time       `json:"at"`
	Data json.RawMessage `json:"data,omitempty"`
}

// FollowUp puts a message into the inbox of a live run of the conversation. The same id
// is the same message: it is put there once. Errors: ErrNoRun, ErrRunEnded.
func (w *Work) FollowUp(ctx context.Context, run, id, text string) error {
	return w.backend.FollowUp(ctx, run, id, text)
}

// Now is the executor's clock.
func (w *Work) Now() time.Time { return w.backend.Now() }

// Emit appends an event of the agent's own to the conversation's log.
func (w *Work) Emit(ctx context.Context, typ string, data any) error {
	return w.backend.Emit(ctx, typ, data)
}

// Ephemeral shows an event to whoever watches the conversation now. It is not kept, and
// nobody may be watching.
func (w *Work) Ephemeral(typ string, data any) { w.backend.Ephemeral(typ, data) }

// Events returns the events of one type that this run or turn has emitted.
func (w *Work) Events(ctx context.Context, typ string) ([]json.RawMessage, error) {
	return w.backend.Events(ctx, typ)
}

// step makes Run and Turn usable by Step.
func (w *Work) step(ctx context.Context, key string, body func(context.Context) (json.RawMessage, error)) (json.RawMessage, error) {
	return w.backend.Step(ctx, key, body)
}

// Stepper is a *Run or a *Turn.
type Stepper interface {
	step(context.Context, string, func(context.Context) (json.RawMessage, error)) (json.RawMessage, error)
}

// Step runs fn once under key and keeps its result: executed again after a crash, the
// kept result is returned and fn is not called. A crash inside fn, or before its
// result is kept, calls it again. An error is not kept.
func Step[T any](ctx context.Context, on Stepper, key string, fn func(context.Context) (T, error)) (T, error) {
	if err := subagent.CheckID(key); err != nil {
		var none T
		return none, fmt.Errorf("step %q: %w", key, err)
	}
	return keep(ctx, on, key, fn)
}

// keep is Step without the check of its key: those of our own begin with '#', which no
// user's has.
func keep[T any](ctx context.Context, on Stepper, key string, fn func(context.Context) (T, error)) (T, error) {
	var result T
	raw, err := on.step(ctx, key, func(ctx context.Context) (json.RawMessage, error) {
		value, err := fn(ctx)
		if err != nil {
			return nil, err
		}
		return json.Marshal(value)
	})
	if err != nil {
		return result, err
	}
	if err := json.Unmarshal(raw, &result); err != nil {
		return result, fmt.Errorf("decoding the kept result of step %s: %w", key, err)
	}
	return result, nil
}

// Backend is what the executor provides to tasks and chats.
type Backend interface {
	Spender
	Step(ctx context.Context, key string, body func(context.Context) (json.RawMessage, error)) (json.RawMessage, error)
	Progress(ctx context.Context, p Progress) error
	Milestone(ctx context.Context, name string, data json.RawMessage) error
	Dispatch(ctx context.Context, d Dispatch) (Info, error)
	// Wait returns nil if the wait is over; else it ends the context of the run or turn,
	// which is executed again when it is.
	Wait(ctx context.Context, wait subagent.Wait) error
	// Ask makes a question known, once; Signal returns the answer to it or to a callback.
	Ask(ctx context.Context, q Question) error
	Signal(ctx context.Context, name string) (body json.RawMessage, come bool, err error)
	Callback(ctx context.Context, key string) (token string, err error)
	Inbox(ctx context.Context) ([]Message, error)
	Runs(ctx context.Context) ([]Info, error)
	Cancel(ctx context.Context, run, reason string) (Info, error)
	Inspect(ctx context.Context, run string) (Result, error)
	Milestones(ctx context.Context, run string) ([]Milestone, error)
	RunLog(ctx context.Context, run string, after int64) (LogPage, error)
	FollowUp(ctx context.Context, run, id, text string) error
	Transcript(ctx context.Context, limit int) ([]Line, error)
	Now() time.Time
	Path(ctx context.Context) (string, error)
	State(ctx context.Context, name string) (json.RawMessage, error)
	ChangeState(ctx context.Context, key, name string, change func(json.RawMessage) (json.RawMessage, error)) (json.RawMessage, error)
	Emit(ctx context.Context, typ string, data any) error
	Ephemeral(typ string, data any)
	Events(ctx context.Context, typ string) ([]json.RawMessage, error)
	// Replayed returns a step's result in the journal of the run that this one repeats.
	Replayed(ctx context.Context, key string) (result json.RawMessage, known bool, err error)
}
