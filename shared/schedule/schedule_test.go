package schedule_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/errand-dev/errand/shared/schedule"
	"github.com/errand-dev/errand/shared/subagent"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func at(minutes int) subagent.Time {
	return subagent.At(noon.Add(time.Duration(minutes) * time.Minute))
}

// hourly is armed for one o'clock.
func hourly() schedule.Schedule {
	return schedule.Schedule{ID: "s", Version: 7, Expression: "rate(1 hour)", Enabled: true, Anchor: at(0), Generation: "g", NextAt: at(60)}
}

func TestATimerIsJudgedByGenerationAndMoment(t *testing.T) {
	t.Parallel()
	off, ended := hourly(), hourly()
	off.Generation, off.NextAt = "h", 0
	ended.NextAt = 0
	for name, c := range map[string]struct {
		row   schedule.Schedule
		timer schedule.Timer
		want  schedule.Verdict
	}{
		"its own":                      {hourly(), schedule.Timer{ID: "s", Generation: "g", Due: at(60)}, schedule.Fire},
		"one ahead of the row":         {hourly(), schedule.Timer{ID: "s", Generation: "g", Due: at(120)}, schedule.Fire},
		"an older one":                 {hourly(), schedule.Timer{ID: "s", Generation: "g", Due: at(0)}, schedule.Over},
		"one of another generation":    {hourly(), schedule.Timer{ID: "s", Generation: "f", Due: at(60)}, schedule.Foreign},
		"one from before it was off":   {off, schedule.Timer{ID: "s", Generation: "g", Due: at(60)}, schedule.Foreign},
		"one after the schedule ended": {ended, schedule.Timer{ID: "s", Generation: "g", Due: at(60)}, schedule.Over},
		"one before the first arming":  {schedule.Schedule{ID: "s", Enabled: true}, schedule.Timer{ID: "s", Generation: "g", Due: at(60)}, schedule.Foreign},
	} {
		if got := c.row.Judge(c.timer); got != c.want {
			t.Errorf("%s: verdict %d, want %d", name, got, c.want)
		}
	}
}

func TestOnlyTheRowThatWasReadIsArmedOrFenced(t *testing.T) {
	t.Parallel()
	read := hourly()
	edited := read
	edited.Trigger = "report"
	armed, outcome := read.Arm(read, edited, "h", at(90), noon)
	want := edited
	want.Generation, want.NextAt, want.UpdatedAt = "h", at(90), at(0)
	if diff := cmp.Diff(want, armed); diff != "" || outcome != subagent.Apply {
		t.Errorf("%v (-want +got)\n%s", outcome, diff)
	}
	moved := read
	moved.Version++
	if _, outcome := moved.Arm(read, edited, "h", at(90), noon); outcome != subagent.Stale {
		t.Errorf("a row that moved on is armed: %v", outcome)
	}
	if same, outcome := read.Fence(read); outcome != subagent.Apply || same != read {
		t.Errorf("a fence is %v and makes %+v", outcome, same)
	}
	if _, outcome := moved.Fence(read); outcome != subagent.Stale {
		t.Errorf("a row that moved on is fenced: %v", outcome)
	}
}

func TestARowMovesFromItsOwnMomentOnly(t *testing.T) {
	t.Parallel()
	row := hourly()
	ahead := schedule.Timer{ID: "s", Generation: "g", Due: at(120)}
	next, outcome := row.Fired(ahead, at(60), at(120))
	if outcome != subagent.Apply || next.NextAt != at(120) || next.LastAt != at(60) {
		t.Errorf("%v %+v", outcome, next)
	}
	if _, outcome := next.Fired(row.Timer(), at(60), at(180)); outcome != subagent.Stale {
		t.Errorf("it moves twice from one moment: %v", outcome)
	}
	if _, outcome := row.Fired(schedule.Timer{ID: "s", Generation: "f", Due: at(60)}, at(60), at(120)); outcome != subagent.Stale {
		t.Errorf("another generation moves it: %v", outcome)
	}
}

func TestWhatComesNext(t *testing.T) {
	t.Parallel()
	ends := hourly()
	ends.EndsAt = at(120)
	for name, c := range map[string]struct {
		row       schedule.Schedule
		due, seen subagent.Time
		want      subagent.Time
	}{
		"after a firing in time":                {hourly(), at(60), at(60), at(120)},
		"after one that was accepted late":      {hourly(), at(60), at(61), at(120)},
		"after many that were missed, one next": {hourly(), at(60), at(500), at(540)},
		"after one accepted by an early clock":  {hourly(), at(60), at(59), at(120)},
		"the last moment is allowed":            {ends, at(60), at(60), at(120)},
		"beyond the end there is none":          {ends, at(120), at(120), 0},
	} {
		if got, err := c.row.After(c.due, c.seen); got != c.want || err != nil {
			t.Errorf("%s: %v %v, want %v", name, got.Time(), err, c.want.Time())
		}
	}
}

func TestAnArmingKeepsWhatIsOwed(t *testing.T) {
	t.Parallel()
	off := hourly()
	off.Enabled = false
	unarmed := hourly()
	unarmed.Generation, unarmed.NextAt, unarmed.CreatedAt = "", 0, at(0)
	for name, c := range map[string]struct {
		row  schedule.Schedule
		now  int
		want subagent.Time
	}{
		"before its moment":        {hourly(), 30, at(60)},
		"at its moment":            {hourly(), 60, at(60)},
		"long after it":            {hourly(), 600, at(60)},
		"switched off, it is gone": {off, 600, 0},
		"created and never armed":  {unarmed, 600, at(60)},
	} {
		if got, err := c.row.Planned(at(c.now).Time()); got != c.want || err != nil {
			t.Errorf("%s: %v %v, want %v", name, got.Time(), err, c.want.Time())
		}
	}
}

func TestATimerIsTakenForLostAfterAWhile(t *testing.T) {
	t.Parallel()
	row := hourly()
	if row.Lost(at(75).Time()) || !row.Lost(at(76).Time()) {
		t.Error("a timer is lost 15 minutes after its moment, not earlier, not later")
	}
	row.NextAt = 0
	if row.Lost(at(6000).Time()) {
		t.Error("a schedule that waits for nothing has lost a timer")
	}
	early := schedule.Timer{Due: at(1)}
	if !early.Early(noon) || early.Early(at(1).Time()) {
		t.Error("a timer is early before its moment, and not at it")
	}
}

func TestTheStatusOfASchedule(t *testing.T) {
	t.Parallel()
	off, ended, unarmed := hourly(), hourly(), hourly()
	off.Enabled, ended.NextAt = false, 0
	unarmed.Generation, unarmed.NextAt = "", 0
	for want, row := range map[string]schedule.Schedule{"active": hourly(), "disabled": off, "ended": ended} {
		if got := row.Status(); got != want || row.Unarmed() {
			t.Errorf("%s is %s", want, got)
		}
	}
	if unarmed.Status() != "active" || !unarmed.Unarmed() {
		t.Error("what was created and not armed yet counts as ended")
	}
}
