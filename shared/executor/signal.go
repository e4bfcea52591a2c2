package executor

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/ledger"
	"github.com/errand-dev/errand/shared/subagent"
)

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
	if show {
		p.Fraction, p.Message, p.Phase = snapshot.Fraction, snapshot.Message, snapshot.Phase
		x.Ephemeral("run.progress", p)
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
	progress, reached := x.pending, x.reached
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
		sequence := x.reached
		x.mu.Unlock()
		stored, taken, err := x.Ledger.AddMilestone(ctx, ledger.LifeOf(*x.row), ledger.Milestone{
			Name: name, Sequence: sequence, At: subagent.At(x.Ledger.Now()), Data: data})
		if err != nil {
			return false, err
		}
		x.mu.Lock()
		x.reached = sequence + 1
		x.mu.Unlock()
		counted := sequence < x.row.Milestones
		switch {
		case taken && stored.Name != name:
			continue
		case taken && counted:
			return true, nil
		}
		x.emit(ctx, x.row.Owner, append(x.notes(), x.Ledger.NewEvent("run.milestone", x.row.ID, "", ledger.MilestoneEvent{Name: name, Sequence: sequence, Data: data}))...)
		return false, nil
	}
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
