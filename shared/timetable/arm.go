package timetable

import (
	"context"
	"fmt"
	"time"

	"github.com/errand-dev/errand/shared/ledger"
	"github.com/errand-dev/errand/shared/platform"
	"github.com/errand-dev/errand/shared/schedule"
	"github.com/errand-dev/errand/shared/subagent"
)

func asItIs(s schedule.Schedule) (schedule.Schedule, error) { return s, nil }

// maxRounds bounds how often an arming begins again because the row changed.
const maxRounds = 20

// arm edits the row, sends a timer for what it then promises, and writes it under a new
// generation: timers of the old one are nobody's.
func (t *Timetable) arm(ctx context.Context, row schedule.Schedule, edit func(schedule.Schedule) (schedule.Schedule, error)) (schedule.Schedule, error) {
	for range maxRounds {
		edited, err := edit(row)
		if err != nil {
			return row, err
		}
		now, generation := t.Ledger.Now(), t.Ledger.Nonce()
		next, err := edited.Planned(now)
		if err != nil {
			return row, err
		}
		if next != 0 {
			if err := t.send(ctx, t.Ledger, row.Owner, schedule.Timer{ID: row.ID, Generation: generation, Due: next}, now); err != nil {
				return row, err
			}
		}
		stored, outcome, err := t.Ledger.UpdateSchedule(ctx, row, func(s schedule.Schedule) (schedule.Schedule, subagent.Outcome) {
			return s.Arm(row, edited, generation, next, now)
		})
		switch {
		case err != nil:
			return row, err
		case outcome == subagent.Apply:
			return stored, nil
		case outcome == subagent.Absent:
			return row, fmt.Errorf("%w: %s", ErrNoSchedule, row.ID)
		}
		row = stored
	}
	return row, fmt.Errorf("arming schedule %s: %w", row.ID, ledger.ErrContended)
}

// send sends the timer, to come when it is due or one hop on the way there.
func (t *Timetable) send(ctx context.Context, l *ledger.Ledger, o subagent.Owner, timer schedule.Timer, now time.Time) error {
	delay := max(timer.Due.Time().Sub(now), 0)
	if !t.LongTimers {
		delay = min(delay, platform.MaxDelay)
	}
	return l.SendTimer(ctx, o, timer, delay)
}

// repair arms what its creator did not come to, and sends the timer again that must be
// lost. One that was not lost finds its moment passed.
func (t *Timetable) repair(ctx context.Context, row schedule.Schedule) (schedule.Schedule, error) {
	now := t.Ledger.Now()
	switch {
	case row.Unarmed():
		return t.arm(ctx, row, asItIs)
	case row.Lost(now):
		t.Log.WarnContext(ctx, "timer of a schedule sent again", "schedule_id", row.ID, "due", row.NextAt.Time())
		return row, t.send(ctx, t.Ledger, row.Owner, row.Timer(), now)
	}
	return row, nil
}
