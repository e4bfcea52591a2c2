package ledger

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/errand-dev/errand/shared/platform"
	"github.com/errand-dev/errand/shared/schedule"
	"github.com/errand-dev/errand/shared/subagent"
)

// Schedule reads a schedule; its Version is zero if there is none.
func (l *Ledger) Schedule(ctx context.Context, o subagent.Owner, id string) (schedule.Schedule, error) {
	r, err := load[schedule.Schedule](ctx, l, scheduleKey(o, id))
	return scheduleOf(r, o, id), err
}

// CreateSchedule stores a schedule under its id unless there is one: then that is
// returned, and known is true.
func (l *Ledger) CreateSchedule(ctx context.Context, s schedule.Schedule) (stored schedule.Schedule, known bool, err error) {
	_, known, err = create(ctx, l, scheduleKey(s.Owner, s.ID), s)
	if err != nil || !known {
		s.Version = 1
		return s, false, err
	}
	stored, err = l.Schedule(ctx, s.Owner, s.ID)
	return stored, true, err
}

// UpdateSchedule applies rule to a schedule. See UpdateRun. Absent if there is none.
func (l *Ledger) UpdateSchedule(ctx context.Context, hint schedule.Schedule, rule func(schedule.Schedule) (schedule.Schedule, subagent.Outcome)) (schedule.Schedule, subagent.Outcome, error) {
	r, outcome, err := update(ctx, l, scheduleKey(hint.Owner, hint.ID), row[schedule.Schedule]{hint, hint.Version}, nil,
		func(s schedule.Schedule, version int64) (schedule.Schedule, subagent.Outcome) {
			if version == 0 {
				return s, subagent.Absent
			}
			return rule(scheduleOf(row[schedule.Schedule]{s, version}, hint.Owner, hint.ID))
		})
	return scheduleOf(r, hint.Owner, hint.ID), outcome, err
}

// Schedules lists the schedules of a conversation, in the order of their ids.
func (l *Ledger) Schedules(ctx context.Context, o subagent.Owner) ([]schedule.Schedule, error) {
	values, items, err := list[schedule.Schedule](ctx, l, platform.Query{Partition: partition(o), Prefix: schedulePrefix})
	for i := range values {
		id := strings.TrimPrefix(items[i].Key.Sort, schedulePrefix)
		values[i] = scheduleOf(row[schedule.Schedule]{values[i], items[i].Version}, o, id)
	}
	return values, err
}

// DeleteSchedule removes a schedule. One that is not there is success.
func (l *Ledger) DeleteSchedule(ctx context.Context, o subagent.Owner, id string) error {
	if err := l.store.Delete(ctx, scheduleKey(o, id), 0); err != nil {
		return fmt.Errorf("deleting schedule %s: %w", id, failed(err))
	}
	return nil
}

func scheduleOf(r row[schedule.Schedule], o subagent.Owner, id string) schedule.Schedule {
	r.value.Owner, r.value.ID, r.value.Version = o, id, r.version
	return r.value
}

// SendTimer sends a timer of a schedule, to come after delay.
func (l *Ledger) SendTimer(ctx context.Context, o subagent.Owner, t schedule.Timer, delay time.Duration) error {
	name := fmt.Sprintf("%s/%s/%s/%d", partition(o), t.ID, t.Generation, t.Due)
	return l.send(ctx, Wake{Owner: o, Timer: &t}, platform.Message{
		Queue: platform.Ticks, Group: o.Tenant, Delay: delay, Dedup: Digest(name)})
}

// checkTimer refuses a timer that can never be handled.
func checkTimer(t schedule.Timer) error {
	if err := subagent.CheckID(t.ID); err != nil {
		return fmt.Errorf("%w: timer of a schedule: %w", ErrPoison, err)
	}
	if t.Due <= 0 || t.Generation == "" {
		return fmt.Errorf("%w: timer of schedule %s without a moment or a generation", ErrPoison, t.ID)
	}
	return nil
}
