// Package reconcile is the guarantee behind the fast path. One tick reads the
// outstanding runs of one conversation, decides for each with subagent.Decide,
// repairs what it can, and sends the next tick before it moves the backbone on.
// A tick is a hint: none, one or many of them, early or late, are all right.
package reconcile

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/delivery"
	"github.com/errand-dev/errand/shared/dispatch"
	"github.com/errand-dev/errand/shared/ledger"
	"github.com/errand-dev/errand/shared/subagent"
	"github.com/errand-dev/errand/shared/timetable"
)

// Reconciler handles ticks.
type Reconciler struct {
	Ledger  *ledger.Ledger
	Agents  *agent.Registry
	Courier *delivery.Courier
	Cadence subagent.Cadence
	// Timetable gets the timers of schedules, which come by the same queue.
	Timetable *timetable.Timetable
	Log       *slog.Logger
	// Changed, if set, hears of every run whose status a tick changed, so that an
	// executor in this process stops at once.
	Changed func(subagent.Run)
	// Seen, if set, hears what each tick saw. It must not block.
	Seen func(context.Context, Observation)
}

// Observation is what one tick tells of the health of a conversation.
type Observation struct {
	// Late is how long after its time the tick came; zero if that is not known.
	Late time.Duration
	// Executions is the most that any outstanding run has used up; Run is that one.
	Executions int64
	Run        string
}

// maxRounds bounds how often one tick begins again because the backbone changed.
const maxRounds = 100

// Tick handles tick k of a conversation, or the timer of a schedule. A nil error acknowledges it: the backbone has
// moved past k, or k was stale. After an error the tick must be delivered again.
func (r *Reconciler) Tick(ctx context.Context, w ledger.Wake) error {
	if w.Timer != nil {
		return r.Timetable.Fire(ctx, w.Owner, *w.Timer)
	}
	b, err := r.Ledger.Backbone(ctx, w.Owner)
	if err != nil {
		return err
	}
	for range maxRounds {
		if !b.Current(w.Tick) {
			return nil
		}
		next, outcome, err := r.advance(ctx, w, b)
		if err != nil {
			return err
		}
		if outcome.OK() {
			return nil
		}
		b = next
	}
	return fmt.Errorf("tick %d of %s: %w", w.Tick, w.Owner.Conversation, ledger.ErrContended)
}

// advance does one round on the backbone as read: repair the runs, then move on. Stale
// means that the backbone changed meanwhile; the returned row is the fresh one.
func (r *Reconciler) advance(ctx context.Context, w ledger.Wake, read subagent.Backbone) (subagent.Backbone, subagent.Outcome, error) {
	if !read.Armed {
		return r.update(ctx, w, read, func(b subagent.Backbone) (subagent.Backbone, subagent.Outcome) { return b.Fence(w.Tick, read) })
	}
	sight, err := r.survey(ctx, w, read)
	if err != nil {
		return read, 0, err
	}
	if r.Seen != nil {
		if w.Tick == read.Epoch && read.Due != 0 {
			sight.seen.Late = max(0, r.Ledger.Now().Sub(read.Due.Time()))
		}
		r.Seen(ctx, sight.seen)
	}
	if sight.delivered {
		// A delivery closes its own reservation: look again before the next tick is sent.
		fresh, err := r.Ledger.Backbone(ctx, w.Owner)
		if err != nil || fresh.Version != read.Version {
			return fresh, subagent.Stale, err
		}
	}
	if len(sight.gone) == len(read.Open) {
		next, outcome, err := r.update(ctx, w, read, func(b subagent.Backbone) (subagent.Backbone, subagent.Outcome) {
			return b.Disarm(w.Tick, read, sight.gone)
		})
		if err == nil && outcome == subagent.Apply {
			r.emit(ctx, w.Owner, r.Ledger.NewEvent("backbone.disarmed", "", "", nil))
		}
		return next, outcome, err
	}
	now := r.Ledger.Now()
	rung, pause := r.Cadence.Next(w.Rung)
	pause = r.Cadence.Until(pause, sight.due, now)
	due := subagent.At(now.Add(pause))
	if err := r.Ledger.SendTick(ctx, w.Owner, w.Tick+1, rung, pause); err != nil {
		return read, 0, err
	}
	next, outcome, err := r.update(ctx, w, read, func(b subagent.Backbone) (subagent.Backbone, subagent.Outcome) {
		return b.Rearm(w.Tick, read, sight.gone, sight.soft, rung, due)
	})
	if err == nil && outcome == subagent.Apply {
		r.warn(ctx, w.Owner, next)
	}
	return next, outcome, err
}

func (r *Reconciler) update(ctx context.Context, w ledger.Wake, read subagent.Backbone, rule func(subagent.Backbone) (subagent.Backbone, subagent.Outcome)) (subagent.Backbone, subagent.Outcome, error) {
	return r.Ledger.UpdateBackbone(ctx, w.Owner, read, rule)
}

// warn re-evaluates the live-count warning, which otherwise only a dispatch sees.
func (r *Reconciler) warn(ctx context.Context, o subagent.Owner, b subagent.Backbone) {
	if _, outcome := b.Warn(); outcome != subagent.Apply {
		return
	}
	next, outcome, err := r.Ledger.UpdateBackbone(ctx, o, b, subagent.Backbone.Warn)
	if err != nil {
		r.Log.WarnContext(ctx, "live-count warning not stored", "error", err)
		return
	}
	if outcome == subagent.Apply && next.Warned {
		r.emit(ctx, o, r.Ledger.NewEvent("run.live_count_warning", "", "", dispatch.LiveCount{Live: next.Live(), Threshold: subagent.WarnAt}))
	}
}

func (r *Reconciler) emit(ctx context.Context, o subagent.Owner, events ...ledger.Event) {
	if err := r.Ledger.Emit(ctx, o, events...); err != nil {
		r.Log.WarnContext(ctx, "events lost", "error", err)
	}
}

// sight is what a tick saw: reservations that go, those that no longer count, whether
// something was delivered, and when something is due next.
type sight struct {
	gone, soft map[string]int64
	delivered  bool
	due        subagent.Time
	seen       Observation
}

// survey reads the reserved runs and repairs each. One that fails delays nobody: its
// error is logged, the run is kept and the next tick tries again.
func (r *Reconciler) survey(ctx context.Context, w ledger.Wake, b subagent.Backbone) (sight, error) {
	s := sight{gone: map[string]int64{}, soft: map[string]int64{}}
	ids := slices.SortedFunc(maps.Keys(b.Open), func(x, y string) int {
		return cmp.Or(cmp.Compare(b.Open[x].At, b.Open[y].At), cmp.Compare(x, y))
	})
	ids, err := r.surveyTurns(ctx, w, b, ids, &s)
	if err != nil {
		return s, err
	}
	rows, err := r.Ledger.Runs(ctx, w.Owner, ids)
	if err != nil {
		return s, err
	}
	for _, row := range rows {
		reserved := b.Open[row.ID]
		after, err := r.mend(ctx, w, row, reserved)
		if err != nil {
			if ctx.Err() != nil {
				return s, err // our own time is over, not only this run's
			}
			r.Log.ErrorContext(ctx, "run not reconciled", "run_id", row.ID, "error", err)
			continue
		}
		s.due = subagent.Earliest(s.due, after.Due(r.Ledger.Terms))
		if after.Exec.Epoch > s.seen.Executions {
			s.seen.Executions, s.seen.Run = after.Exec.Epoch, after.ID
		}
		switch {
		case reserved.Awaits(after, r.Ledger.Now()):
		case after.Status == subagent.Void && after.Generation >= reserved.Generation,
			after.Status != "" && after.Status != subagent.Void && !after.Outstanding():
			s.gone[row.ID] = reserved.Generation
			s.delivered = s.delivered || row.Outstanding()
		case after.Status != "" && after.Status != subagent.Void && !after.HoldsSlot():
			s.soft[row.ID] = reserved.Generation
		}
	}
	return s, nil
}

// mend does what the run needs and returns its row as it then is.
func (r *Reconciler) mend(ctx context.Context, w ledger.Wake, row subagent.Run, reserved subagent.Reservation) (subagent.Run, error) {
	now := r.Ledger.Now()
	if row.Status == "" || row.Status == subagent.Void {
		if row.Status == "" && !reserved.Orphan(now) || row.Generation >= reserved.Generation && row.Status == subagent.Void {
			return row, nil
		}
		return r.entomb(ctx, row, reserved, now)
	}
	attempt := fmt.Sprintf("tick-%d", w.Tick)
	row, err := r.Courier.TellMilestones(ctx, row, attempt)
	if err != nil {
		return row, err
	}
	// At most a few actions follow each other: give up, then tell it, then close.
	for range 4 {
		if row, err = r.Courier.PassOn(ctx, row); err != nil {
			return row, err
		}
		action, reason := subagent.Decide(row, r.Ledger.Now(), r.Ledger.Terms)
		next, again, err := r.act(ctx, row, action, reason, attempt)
		if err != nil || !again {
			return next, err
		}
		row = next
	}
	return row, nil
}

func (r *Reconciler) entomb(ctx context.Context, row subagent.Run, reserved subagent.Reservation, now time.Time) (subagent.Run, error) {
	if !reserved.Orphan(now) {
		return row, nil
	}
	next, _, err := r.Ledger.UpdateRun(ctx, row, func(x subagent.Run) (subagent.Run, subagent.Outcome) {
		return x.Entomb(reserved.Generation, now)
	})
	return next, err
}
