package timetable_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/errand-dev/errand/shared/conformance"
	"github.com/errand-dev/errand/shared/ledger"
	"github.com/errand-dev/errand/shared/operator"
	"github.com/errand-dev/errand/shared/platform"
	"github.com/errand-dev/errand/shared/schedule"
	"github.com/errand-dev/errand/shared/sqlitestore"
	"github.com/errand-dev/errand/shared/subagent"
	"github.com/errand-dev/errand/shared/timetable"
)

var owner = subagent.Owner{Tenant: "t", Conversation: "c"}

// queue is a store that keeps the timers it is given, for the test to hand them out.
type queue struct {
	platform.Store
	clock  *time.Time
	mu     sync.Mutex
	timers []delayed
	wakes  map[string]int
}

type delayed struct {
	at   time.Time
	body []byte
}

func (q *queue) Send(_ context.Context, m platform.Message) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if m.Queue == platform.Turns {
		w, err := ledger.ParseWake(m.Queue, m.Body)
		q.wakes[w.Turn]++
		return err
	}
	q.timers = append(q.timers, delayed{q.clock.Add(m.Delay), m.Body})
	return nil
}

// world is a timetable over a store that may fail, in its own time.
type world struct {
	*testing.T
	*timetable.Timetable
	clock time.Time
	queue *queue
	// fail decides what becomes of each operation.
	fail func(conformance.Op) conformance.Fault
	// revive, if set, is called when a handler has failed: the next process begins.
	revive func()
}

var start = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func newWorld(t *testing.T) *world {
	t.Helper()
	store, err := sqlitestore.Open(t.Context(), t.TempDir(), sqlitestore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	w := &world{T: t, clock: start}
	w.queue = &queue{Store: store, clock: &w.clock, wakes: map[string]int{}}
	faults := &conformance.Faults{Inner: w.queue, SplitAtomically: true, Decide: func(op conformance.Op) conformance.Fault {
		if w.fail == nil {
			return conformance.None
		}
		return w.fail(op)
	}}
	l := ledger.New(faults, subagent.DefaultTerms, func() time.Time { return w.clock }, ledger.RandomNonce)
	w.Timetable = &timetable.Timetable{Ledger: l, Controls: operator.New(l), Log: slog.New(slog.DiscardHandler)}
	return w
}

func text(s string) *string { return &s }

func (w *world) create(expression string) timetable.Schedule {
	w.Helper()
	s, _, err := w.Create(w.Context(), owner, timetable.Change{Expression: &expression, Prompt: text("report")}, "")
	if err != nil {
		w.Fatal(err)
	}
	return s
}

// run hands out the timers that are due until a moment, each when it is, and once more
// after a pause if it fails, as a queue does.
func (w *world) run(until time.Time) {
	w.Helper()
	for range 10_000 {
		slices.SortStableFunc(w.queue.timers, func(a, b delayed) int { return a.at.Compare(b.at) })
		if len(w.queue.timers) == 0 || w.queue.timers[0].at.After(until) {
			w.clock = until
			return
		}
		next := w.queue.timers[0]
		w.queue.timers = w.queue.timers[1:]
		if next.at.After(w.clock) {
			w.clock = next.at
		}
		if w.handle(next.body) != nil {
			if w.revive != nil {
				w.revive()
			}
			w.queue.timers = append(w.queue.timers, delayed{w.clock.Add(30 * time.Second), next.body})
		}
	}
	w.Fatal("timers without end")
}

func (w *world) handle(body []byte) error {
	w.Helper()
	wake := w.parse(body)
	return w.Fire(w.Context(), wake.Owner, *wake.Timer)
}

func (w *world) parse(body []byte) ledger.Wake {
	w.Helper()
	wake, err := ledger.ParseWake(platform.Ticks, body)
	if err != nil || wake.Timer == nil {
		w.Fatalf("%s: %v", body, err)
	}
	return wake
}

// fired lists the moments that were fired, in minutes since the start.
func (w *world) fired() []string {
	w.Helper()
	turns, err := w.Ledger.ListTurns(w.Context(), owner, "", 1000)
	if err != nil {
		w.Fatal(err)
	}
	slices.SortFunc(turns, func(a, b subagent.Turn) int { return cmp.Compare(a.AcceptedAt, b.AcceptedAt) })
	list := []string{}
	for _, turn := range turns {
		due, err := time.Parse(time.RFC3339, turn.Metadata["due"])
		if err != nil || turn.Kind != subagent.ScheduleTurn {
			w.Fatalf("%+v: %v", turn, err)
		}
		if w.queue.wakes[turn.ID] == 0 {
			w.Errorf("turn %s was never sent", turn.ID)
		}
		list = append(list, fmt.Sprint(due.Sub(start).Minutes()))
	}
	return list
}

func (w *world) wantFired(minutes ...string) {
	w.Helper()
	if diff := gocmp.Diff(append([]string{}, minutes...), w.fired()); diff != "" {
		w.Errorf("fired (-want +got)\n%s", diff)
	}
}

func minute(n float64) time.Time { return start.Add(time.Duration(n * float64(time.Minute))) }

func TestAScheduleFiresOnceForEachMoment(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	made := w.create("rate(2 minutes)")
	if made.NextAt != subagent.At(minute(2)) || made.Status() != "active" {
		t.Errorf("created %+v", made)
	}
	w.run(minute(7))
	w.wantFired("2", "4", "6")
	if len(w.queue.timers) != 1 {
		t.Errorf("%d timers are left", len(w.queue.timers))
	}
}

func TestAFarMomentIsReachedInHops(t *testing.T) {
	t.Parallel()
	for _, long := range []bool{false, true} {
		w := newWorld(t)
		w.LongTimers = long
		w.create("rate(2 hours)")
		if hop := w.queue.timers[0].at; hop.Equal(minute(15)) == long {
			t.Errorf("with long timers %v the first timer comes at %v", long, hop)
		}
		w.run(minute(300))
		w.wantFired("120", "240")
	}
}

func TestAMachineThatWasOffFiresOnceAndGoesOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create("rate(1 minute)")
	w.run(minute(2))
	w.clock = minute(60.5)
	w.run(minute(63))
	w.wantFired("1", "2", "3", "61", "62", "63")
}

func TestAnEndAndASingleMomentLeaveNoTimer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	once := w.create("at(2026-11-30T12:03:00)")
	ends := subagent.At(minute(4))
	if _, _, err := w.Create(t.Context(), owner, timetable.Change{Expression: text("rate(2 minutes)"), EndsAt: &ends, Trigger: text("nightly")}, ""); err != nil {
		t.Fatal(err)
	}
	w.run(minute(60))
	w.wantFired("2", "3", "4")
	got, err := w.Get(t.Context(), owner, once.ID)
	if err != nil || got.Status() != "ended" || got.NextAt != 0 || got.LastAt != subagent.At(minute(3)) {
		t.Errorf("%+v: %v", got, err)
	}
	if len(w.queue.timers) != 0 {
		t.Errorf("%d timers are left", len(w.queue.timers))
	}
}

func TestAChangeMakesOldTimersDieAndKeepsWhatIsOwed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	made := w.create("rate(10 minutes)")
	w.run(minute(5))
	if _, err := w.Update(t.Context(), owner, made.ID, timetable.Change{Expression: text("rate(3 minutes)")}); err != nil {
		t.Fatal(err)
	}
	w.run(minute(11))
	w.wantFired("8", "11")
	// Its timer is on its way when it is changed.
	w.clock = minute(14)
	if _, err := w.Update(t.Context(), owner, made.ID, timetable.Change{Prompt: text("another")}); err != nil {
		t.Fatal(err)
	}
	w.run(minute(18))
	w.wantFired("8", "11", "14", "17")
	off := false
	if s, err := w.Update(t.Context(), owner, made.ID, timetable.Change{Enabled: &off}); err != nil || s.NextAt != 0 || s.Status() != "disabled" {
		t.Fatalf("%+v: %v", s, err)
	}
	w.run(minute(60))
	w.wantFired("8", "11", "14", "17")
	if len(w.queue.timers) != 0 {
		t.Errorf("%d timers are left", len(w.queue.timers))
	}
}

func TestADeletedScheduleAndAClearedConversationFireNoMore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	made := w.create("rate(1 minute)")
	w.create("rate(1 minute)")
	if err := w.Delete(t.Context(), owner, made.ID); err != nil {
		t.Fatal(err)
	}
	if err := w.Delete(t.Context(), owner, made.ID); !errors.Is(err, timetable.ErrNoSchedule) {
		t.Errorf("deleted twice: %v", err)
	}
	w.run(minute(1))
	w.wantFired("1")
	if err := w.Ledger.Erase(t.Context(), owner); err != nil {
		t.Fatal(err)
	}
	w.run(minute(10))
	w.wantFired()
	if len(w.queue.timers) != 0 {
		t.Errorf("%d timers are left", len(w.queue.timers))
	}
}

func TestALostTimerIsSentAgainByWhoeverLooks(t *testing.T) {
	t.Parallel()
	for name, look := range map[string]func(*world, string) error{
		"list": func(w *world, _ string) error { _, err := w.List(w.Context(), owner); return err },
		"get":  func(w *world, id string) error { _, err := w.Get(w.Context(), owner, id); return err },
		"update": func(w *world, id string) error {
			_, err := w.Update(w.Context(), owner, id, timetable.Change{Prompt: text("p")})
			return err
		},
	} {
		w := newWorld(t)
		made := w.create("rate(10 minutes)")
		w.queue.timers = nil
		w.clock = minute(20)
		if _, err := w.List(t.Context(), owner); err != nil || len(w.queue.timers) != 0 {
			t.Fatalf("%s: a timer is sent that may only be late: %v", name, err)
		}
		w.clock = minute(26)
		if err := look(w, made.ID); err != nil {
			t.Fatal(err)
		}
		w.run(minute(31))
		w.wantFired("10", "30")
	}
}

func TestAnAgentThatTakesNoNewWorkMissesTheFiring(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.DefaultChat = "chat"
	w.create("rate(1 minute)")
	w.run(minute(1))
	if _, err := w.Controls.Set(t.Context(), "chat", subagent.Control{Disabled: true}); err != nil {
		t.Fatal(err)
	}
	w.run(minute(3))
	if _, err := w.Controls.Set(t.Context(), "chat", subagent.Control{}); err != nil {
		t.Fatal(err)
	}
	w.run(minute(5))
	w.wantFired("1", "4", "5")
	events, err := w.Ledger.Events(t.Context(), owner, 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	skipped := 0
	for _, e := range events {
		if e.Type == "schedule.skipped" && strings.Contains(string(e.Data), "disabled") {
			skipped++
		}
	}
	if skipped != 2 {
		t.Errorf("the log tells of %d skipped firings, want 2", skipped)
	}
}

func TestWhatAFiringSays(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change       timetable.Change
		text, source string
	}{
		"a prompt":                  {timetable.Change{Prompt: text("  do it ")}, "do it", "schedule"},
		"a message":                 {timetable.Change{Message: text("hello")}, "hello", ""},
		"a trigger":                 {timetable.Change{Trigger: text("nightly")}, `The trigger "nightly" has fired by its schedule. Handle it now.`, "trigger:nightly"},
		"a trigger with a prompt":   {timetable.Change{Trigger: text("nightly"), Prompt: text("count")}, "count", "trigger:nightly"},
		"a trigger with a message":  {timetable.Change{Trigger: text("nightly"), Message: text("count")}, "count", "trigger:nightly"},
		"a prompt longer than rows": {timetable.Change{Prompt: text(strings.Repeat("x", 1000))}, strings.Repeat("x", 1000), "schedule"},
	} {
		w := newWorld(t)
		c.change.Expression = text("rate(1 minute)")
		made, _, err := w.Create(t.Context(), owner, c.change, "")
		if err != nil {
			t.Fatal(err)
		}
		if shown := cmp.Or(made.PromptText, made.MessageText); shown != c.text {
			t.Errorf("%s: shown as %q", name, shown)
		}
		w.run(minute(1))
		turns, err := w.Ledger.ListTurns(t.Context(), owner, "", 10)
		if err != nil || len(turns) != 1 {
			t.Fatal(turns, err)
		}
		said, err := w.Ledger.LoadValue(t.Context(), owner, turns[0].Message)
		if err != nil || said != c.text || turns[0].Source != c.source {
			t.Errorf("%s: said %q in the name of %q: %v", name, said, turns[0].Source, err)
		}
	}
}

func TestARefusedScheduleLeavesNothing(t *testing.T) {
	t.Parallel()
	past := subagent.At(minute(-1))
	long := text(strings.Repeat("x", timetable.MaxText+1))
	rate := text("rate(1 minute)")
	for name, c := range map[string]struct {
		change timetable.Change
		want   error
	}{
		"nothing to do":          {timetable.Change{Expression: rate}, timetable.ErrNothingToDo},
		"blank texts":            {timetable.Change{Expression: rate, Prompt: text(" \n")}, timetable.ErrNothingToDo},
		"two texts":              {timetable.Change{Expression: rate, Prompt: text("a"), Message: text("b")}, timetable.ErrTwoTexts},
		"a text without end":     {timetable.Change{Expression: rate, Prompt: long}, timetable.ErrTooLarge},
		"a trigger that is none": {timetable.Change{Expression: rate, Trigger: text("a b")}, subagent.ErrInvalidID},
		"no expression":          {timetable.Change{Prompt: text("a")}, schedule.ErrExpression},
		"a zone that is none":    {timetable.Change{Expression: rate, Zone: text("Mars"), Prompt: text("a")}, schedule.ErrZone},
		"a moment in the past":   {timetable.Change{Expression: text("at(2026-11-30T12:00:00)"), Prompt: text("a")}, timetable.ErrNever},
		"a day that never comes": {timetable.Change{Expression: text("cron(0 0 30 2 ? *)"), Prompt: text("a")}, timetable.ErrNever},
		"an end in the past":     {timetable.Change{Expression: rate, EndsAt: &past, Prompt: text("a")}, timetable.ErrNever},
	} {
		w := newWorld(t)
		if _, _, err := w.Create(t.Context(), owner, c.change, ""); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		items, err := w.queue.List(t.Context(), platform.Query{Partition: "t/c"})
		if err != nil || len(items) > 0 || len(w.queue.timers) > 0 {
			t.Errorf("%s leaves %v and %d timers: %v", name, items, len(w.queue.timers), err)
		}
		if c.change.Expression == nil {
			continue // an update keeps the one that is there
		}
		made := w.create("rate(5 minutes)")
		if _, err := w.Update(t.Context(), owner, made.ID, timetable.Change{Expression: c.change.Expression, Zone: c.change.Zone, EndsAt: c.change.EndsAt,
			Prompt: cmp.Or(c.change.Prompt, text("")), Message: c.change.Message, Trigger: c.change.Trigger}); !errors.Is(err, c.want) {
			t.Errorf("%s in an update: %v, want %v", name, err, c.want)
		}
		if got, err := w.Get(t.Context(), owner, made.ID); err != nil || got != made {
			t.Errorf("%s changed the schedule: %v", name, err)
		}
	}
}

func TestAFrozenTimetableStillListsDeletesAndFires(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	made := w.create("rate(1 minute)")
	w.Frozen = true
	if _, _, err := w.Create(t.Context(), owner, timetable.Change{Expression: text("rate(1 minute)"), Prompt: text("p")}, ""); !errors.Is(err, timetable.ErrFrozen) {
		t.Errorf("created: %v", err)
	}
	if _, err := w.Update(t.Context(), owner, made.ID, timetable.Change{Prompt: text("p")}); !errors.Is(err, timetable.ErrFrozen) {
		t.Errorf("updated: %v", err)
	}
	w.run(minute(2))
	w.wantFired("1", "2")
	if list, err := w.List(t.Context(), owner); err != nil || len(list) != 1 {
		t.Errorf("%v %v", list, err)
	}
	if err := w.Delete(t.Context(), owner, made.ID); err != nil {
		t.Error(err)
	}
}

// A client that got no answer asks again, perhaps late.
func TestARequestIsAnsweredAgainWhateverHasBecomeOfItsSchedule(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	change := timetable.Change{Expression: text("at(2026-11-30T12:02:00)"), Prompt: text("p")}
	made, _, err := w.Create(t.Context(), owner, change, "k")
	if err != nil {
		t.Fatal(err)
	}
	w.run(minute(3))
	for _, w.Frozen = range []bool{false, true} {
		again, known, err := w.Create(t.Context(), owner, change, "k")
		if err != nil || !known || again.ID != made.ID || again.Status() != "ended" {
			t.Errorf("asked for again: %+v, known %v: %v", again, known, err)
		}
	}
	w.run(minute(9))
	w.wantFired("2")
}

func TestTheNumberOfSchedulesIsBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	change := timetable.Change{Expression: text("rate(1 day)"), Prompt: text("p")}
	for i := range schedule.MaxPerConversation {
		if _, _, err := w.Create(t.Context(), owner, change, fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := w.Create(t.Context(), owner, change, "more"); !errors.Is(err, timetable.ErrTooMany) {
		t.Errorf("one too many: %v", err)
	}
	if _, known, err := w.Create(t.Context(), owner, change, "7"); err != nil || !known {
		t.Errorf("the same again: %v %v", known, err)
	}
	change.Prompt = text("q")
	if _, _, err := w.Create(t.Context(), owner, change, "7"); !errors.Is(err, timetable.ErrKeyReused) {
		t.Errorf("another under its key: %v", err)
	}
}
