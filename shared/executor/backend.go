package executor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/ledger"
	"github.com/errand-dev/errand/shared/subagent"
)

// Step implements agent.Backend. The fence is written before the body begins: after a
// cancel or give-up was acknowledged, no step starts.
func (x *execution) Step(ctx context.Context, key string, body func(context.Context) (json.RawMessage, error)) (json.RawMessage, error) {
	if result, known, err := x.journalled(ctx, key); known || err != nil {
		return result, err
	}
	if err := x.fence(ctx); err != nil {
		return nil, err
	}
	raw, err := body(ctx)
	if err != nil {
		return nil, err
	}
	ctx = keeping(ctx)
	value, err := x.Ledger.StoreValue(ctx, x.row.Owner, string(raw))
	if err != nil {
		return nil, err
	}
	step, err := x.Ledger.FinishStep(ctx, x.row.Owner, x.row.ID, key, ledger.Step{Result: value, At: subagent.At(x.Ledger.Now())})
	if err != nil {
		return nil, err
	}
	x.mu.Lock()
	x.further = true
	if x.steps == nil {
		x.steps = map[string]ledger.Step{}
	}
	x.steps[key] = step
	x.mu.Unlock()
	if step.Result != value {
		// Another holder was first: its result stands.
		text, err := x.Ledger.LoadValue(ctx, x.row.Owner, step.Result)
		return json.RawMessage(text), err
	}
	return raw, nil
}

// keeping lets the result of a finished step be written although the run is just being
// handed on: it was paid for.
func keeping(ctx context.Context) context.Context {
	if ctx.Err() == nil || errors.Is(context.Cause(ctx), agent.ErrHandOn) {
		return context.WithoutCancel(ctx)
	}
	return ctx
}

// fence permits the next step, or says why there is none.
func (x *execution) fence(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	x.mu.Lock()
	further := x.further
	x.further = false
	x.mu.Unlock()
	return x.write(ctx, func(r subagent.Run) (subagent.Run, subagent.Outcome) {
		return r.StartStep(x.epoch, x.Ledger.Now(), x.Ledger.Terms, further)
	})
}

// journalled returns the kept result of a step. The journal of an earlier execution is
// read once.
func (x *execution) journalled(ctx context.Context, key string) (json.RawMessage, bool, error) {
	x.mu.Lock()
	steps := x.steps
	x.mu.Unlock()
	if steps == nil && x.epoch > 1 {
		loaded, err := x.Ledger.Steps(ctx, x.row.Owner, x.row.ID)
		if err != nil {
			return nil, false, err
		}
		x.mu.Lock()
		if x.steps == nil { // a step beside this one may have loaded it, and added its own
			x.steps = loaded
		}
		x.mu.Unlock()
	}
	x.mu.Lock()
	step, known := x.steps[key]
	x.mu.Unlock()
	if !known {
		return nil, false, nil
	}
	text, err := x.Ledger.LoadValue(ctx, x.row.Owner, step.Result)
	return json.RawMessage(text), true, err
}

const (
	// showEvery is the shortest pause between two progress reports that are shown.
	showEvery   = 200 * time.Millisecond
	maxMessage  = 200
	maxPhase    = 64
	maxPlain    = 16 << 10
	maxMoreData = 64 << 10
)

// Progress implements agent.Backend: it keeps the latest snapshot, shows it now and
// then, and stores it at most every ProgressEvery; the last one is always stored.
func (x *execution) Progress(ctx context.Context, p agent.Progress) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if len(p.Data) > maxPlain {
		return fmt.Errorf("the data of a progress report has %d bytes, at most %d are allowed", len(p.Data), maxPlain)
	}
	now := x.Ledger.Now()
	snapshot := &subagent.Progress{Fraction: bounded(p.Fraction), Message: text(p.Message, maxMessage), Phase: text(p.Phase, maxPhase), At: subagent.At(now)}
	final := snapshot.Fraction != nil && *snapshot.Fraction >= 1
	x.mu.Lock()
	x.pending = snapshot
	show := final || now.Sub(x.shown) >= showEvery
	if show {
		x.shown = now
	}
	store := final || now.Sub(x.stored) >= x.ProgressEvery
	if !store && x.flush == nil && !x.stopped {
		x.flush = time.AfterFunc(x.ProgressEvery-now.Sub(x.stored), x.flushLater)
	}
	x.mu.Unlock()
	if show && x.Show != nil {
		p.Fraction, p.Message, p.Phase = snapshot.Fraction, snapshot.Message, snapshot.Phase
		x.Show(x.row.Owner, x.Ledger.NewEvent("run.progress", x.row.ID, "", p))
	}
	if !store {
		return nil
	}
	return x.signal(ctx)
}

func (x *execution) flushLater() {
	x.mu.Lock()
	x.flush = nil
	idle := x.pending == nil || x.stopped
	x.mu.Unlock()
	if idle {
		return
	}
	if err := x.signal(context.Background()); err != nil {
		x.Log.Debug("progress not stored", "run_id", x.row.ID, "error", err)
	}
}

// signal stores pending progress and how many milestones were reached.
func (x *execution) signal(ctx context.Context) error {
	x.mu.Lock()
	progress, reached := x.pending, x.milestones
	x.pending, x.stored = nil, x.Ledger.Now()
	x.mu.Unlock()
	err := x.write(ctx, func(r subagent.Run) (subagent.Run, subagent.Outcome) {
		return r.Signal(x.epoch, x.Ledger.Now(), x.Ledger.Terms, progress, reached)
	})
	x.mu.Lock()
	if err != nil && x.pending == nil {
		x.pending = progress // the next report or the end takes it along
	}
	x.mu.Unlock()
	return err
}

// Milestone implements agent.Backend. The milestone is durable first, counted in the
// row next, and told at once if the dispatcher asked for it.
func (x *execution) Milestone(ctx context.Context, name string, data json.RawMessage) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if len(data) > maxMoreData {
		return fmt.Errorf("the data of milestone %s has %d bytes, at most %d are allowed", name, len(data), maxMoreData)
	}
	known, err := x.addMilestone(ctx, name, data)
	if known || err != nil {
		return err
	}
	if err := x.signal(ctx); err != nil {
		return err
	}
	row, err := x.Courier.TellMilestones(ctx, x.current(), "")
	x.mu.Lock()
	if err == nil && row.Version > x.last.Version {
		x.last = &row
	}
	x.mu.Unlock()
	if err != nil {
		// The tick tells it later.
		x.Log.WarnContext(ctx, "milestone not told yet", "run_id", x.row.ID, "milestone", name, "error", err)
	}
	return nil
}

// addMilestone stores the next milestone; known means that an earlier execution did.
func (x *execution) addMilestone(ctx context.Context, name string, data json.RawMessage) (known bool, err error) {
	for {
		x.mu.Lock()
		sequence := x.milestones
		x.mu.Unlock()
		stored, taken, err := x.Ledger.AddMilestone(ctx, x.row.Owner, x.row.ID, ledger.Milestone{
			Name: name, Sequence: sequence, At: subagent.At(x.Ledger.Now()), Data: data})
		if err != nil {
			return false, err
		}
		x.mu.Lock()
		x.milestones = sequence + 1
		x.mu.Unlock()
		counted := sequence < x.row.Milestones
		switch {
		case taken && stored.Name != name:
			continue
		case taken && counted:
			return true, nil
		}
		x.emit(ctx, x.row.Owner, append(x.notes(), x.Ledger.NewEvent("run.milestone", x.row.ID, "", milestone{name, sequence, data}))...)
		return false, nil
	}
}

type milestone struct {
	Name     string          `json:"name"`
	Sequence int             `json:"sequence"`
	Data     json.RawMessage `json:"data,omitempty"`
}

// Dispatch implements agent.Backend.
func (x *execution) Dispatch(ctx context.Context, d agent.Dispatch) (agent.Info, error) {
	if err := x.fence(ctx); err != nil {
		return agent.Info{}, err
	}
	x.mu.Lock()
	x.dispatched++
	nth := x.dispatched
	x.mu.Unlock()
	return x.dispatch(ctx, caller{x.row.Owner, x.row.ID, x.row.Agent, x.row, nth}, d)
}

// Await implements agent.Backend: the result if the child has ended, else the run is
// suspended and its context ends.
func (x *execution) Await(ctx context.Context, child string) (agent.Result, error) {
	row, err := x.Ledger.Run(ctx, x.row.Owner, child)
	switch {
	case err != nil:
		return agent.Result{}, err
	case row.Status == "" || row.Status == subagent.Void || row.Parent != x.row.ID || !row.Awaited:
		return agent.Result{}, fmt.Errorf("%w: %s is not an awaited child of this run", agent.ErrNoRun, child)
	case row.Status.Live():
		x.mu.Lock()
		x.waitsFor = child
		x.mu.Unlock()
		x.cancel(agent.ErrSuspended)
		return agent.Result{}, agent.ErrSuspended
	}
	output, err := x.Ledger.LoadValue(ctx, row.Owner, row.Output)
	return agent.Result{Info: agent.InfoOf(row), Output: json.RawMessage(output)}, err
}

// Inbox implements agent.Backend. What it returned is journalled: executed again, the
// task gets the same messages at the same place.
func (x *execution) Inbox(ctx context.Context) ([]agent.Message, error) {
	x.mu.Lock()
	x.inboxReads++
	key := "inbox:" + strconv.Itoa(x.inboxReads)
	from := x.inboxRead
	x.mu.Unlock()
	raw, err := x.Step(ctx, key, func(ctx context.Context) (json.RawMessage, error) {
		return json.Marshal(inboxRange{from, x.current().Inbox})
	})
	if err != nil {
		return nil, err
	}
	var read inboxRange
	if err := json.Unmarshal(raw, &read); err != nil {
		return nil, fmt.Errorf("decoding the journal: %w", err)
	}
	messages, err := x.Ledger.Inbox(ctx, x.row.Owner, x.row.ID, read.From, read.To)
	if err != nil {
		return nil, err
	}
	x.setRead(max(read.To, from))
	return x.openMessages(ctx, messages)
}

type inboxRange struct {
	From int `json:"from"`
	To   int `json:"to"`
}

// openMessages loads the texts. The give-up of a child whose real end has come since is
// left out: it must not be heard after that.
func (x *execution) openMessages(ctx context.Context, messages []ledger.InboxMessage) ([]agent.Message, error) {
	var opened []agent.Message
	for _, m := range messages {
		if m.Told == string(subagent.Interrupted) {
			child, err := x.Ledger.Run(ctx, x.row.Owner, m.From)
			if err != nil {
				return nil, err
			}
			if child.Status.Hard() {
				continue
			}
		}
		text, err := x.Ledger.LoadValue(ctx, x.row.Owner, m.Text)
		if err != nil {
			return nil, err
		}
		opened = append(opened, agent.Message{ID: m.ID, Text: text, From: m.From, Milestone: m.Milestone, Source: m.Source, At: m.At.Time()})
	}
	return opened, nil
}

// Runs implements agent.Backend.
func (x *execution) Runs(ctx context.Context) ([]agent.Info, error) {
	return x.active(ctx, x.row.Owner)
}

// Cancel implements agent.Backend.
func (x *execution) Cancel(ctx context.Context, run, reason string) (agent.Info, error) {
	row, err := x.Control.Cancel(ctx, x.row.Owner, run, reason)
	return agent.InfoOf(row), err
}

// Emit implements agent.Backend.
func (x *execution) Emit(ctx context.Context, typ string, data any) error {
	return x.Ledger.Emit(ctx, x.row.Owner, append(x.notes(), x.Ledger.NewEvent(typ, x.row.ID, "", data))...)
}

// Events implements agent.Backend.
func (x *execution) Events(ctx context.Context, typ string) ([]json.RawMessage, error) {
	return x.eventsOf(ctx, x.row.Owner, func(e ledger.Event) bool { return e.Type == typ && e.Run == x.row.ID })
}

func bounded(f *float64) *float64 {
	if f == nil || *f != *f {
		return nil
	}
	v := min(max(*f, 0), 1)
	return &v
}

// text is s as valid UTF-8 of at most n bytes.
func text(s string, n int) string {
	if len(s) > n {
		for n > 0 && !utf8.RuneStart(s[n]) {
			n--
		}
		s = s[:n]
	}
	return strings.ToValidUTF8(s, "?")
}

var errNotInTurn = errors.New("only a run can do this, not a turn")
