package timetable_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/errand-dev/errand/shared/conformance"
	"github.com/errand-dev/errand/shared/platform"
	"github.com/errand-dev/errand/shared/subagent"
	"github.com/errand-dev/errand/shared/timetable"
)

// life is what the test does with one schedule: it is created at 0, fires each minute,
// is changed on the way and read at the end.
func life(w *world) (string, error) {
	expression := "rate(1 minute)"
	made, _, err := w.Create(w.Context(), owner, timetable.Change{Expression: &expression, Prompt: text("p")}, "key")
	if err != nil {
		return "", err
	}
	w.run(minute(2.9))
	_, err = w.Update(w.Context(), owner, made.ID, timetable.Change{Prompt: text("q")})
	if err == nil {
		w.run(minute(4.8))
	}
	return made.ID, err
}

// A process that dies before or after any of its operations loses no firing and doubles
// none: the queue hands its timer out again, and a caller who got no answer asks again.
func TestACrashAfterAnyStepLosesNoFiringAndDoublesNone(t *testing.T) {
	t.Parallel()
	clean := newWorld(t)
	steps := 0
	clean.fail = func(conformance.Op) conformance.Fault { steps++; return conformance.None }
	if _, err := life(clean); err != nil {
		t.Fatal(err)
	}
	clean.wantFired("1", "2", "3", "4")
	if steps < 40 {
		t.Fatalf("only %d steps", steps)
	}
	for _, fault := range []conformance.Fault{conformance.NotApplied, conformance.Applied} {
		for dies := 1; dies <= steps; dies++ {
			t.Run(fmt.Sprintf("fault %d at step %d", fault, dies), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				step, dead := 0, false
				w.fail = func(op conformance.Op) conformance.Fault {
					step++
					switch {
					case dead:
						return conformance.NotApplied
					case step == dies:
						dead = true
						return fault
					}
					return conformance.None
				}
				survive(w, &dead)
				w.fail = nil
				w.wantFired("1", "2", "3", "4")
				w.checkArmed()
				// What comes by the redelivered timer is late by its pause; a lost one would be found later.
				if late := w.latest(); late > 31*time.Second {
					t.Errorf("a firing was late by %v", late)
				}
			})
		}
	}
}

// survive lives the life; whoever is hit by the death is begun again by the next process.
func survive(w *world, dead *bool) {
	w.Helper()
	w.revive = func() { *dead = false }
	for range 3 {
		id, err := life(w)
		if err == nil {
			return
		}
		var fault *conformance.FaultError
		if !errors.As(err, &fault) {
			w.Fatalf("%s: %v", id, err)
		}
		*dead = false
	}
	w.Fatal("it never succeeds")
}

// checkArmed checks that each row that waits for something has a timer for that.
func (w *world) checkArmed() {
	w.Helper()
	list, err := w.Ledger.Schedules(w.Context(), owner)
	if err != nil || len(list) != 1 {
		w.Fatal(list, err)
	}
	want := list[0].Timer()
	for _, waiting := range w.queue.timers {
		if got := *w.parse(waiting.body).Timer; got == want {
			return
		}
	}
	w.Errorf("no timer is there for %+v", want)
}

// latest is how late the latest firing was.
func (w *world) latest() (late time.Duration) {
	w.Helper()
	turns, err := w.Ledger.ListTurns(w.Context(), owner, "", 1000)
	if err != nil {
		w.Fatal(err)
	}
	for _, turn := range turns {
		due, err := time.Parse(time.RFC3339, turn.Metadata["due"])
		if err != nil {
			w.Fatal(err)
		}
		late = max(late, turn.AcceptedAt.Time().Sub(due))
	}
	return late
}

// A timer may come while its sender has not written yet, however slow that is: before the
// first arming, or a firing. Nothing is lost, and what was sent too early dies.
func TestATimerThatOvertakesItsSender(t *testing.T) {
	t.Parallel()
	for write, want := range map[int][]string{
		2: {"1", "4", "5"}, // the one that arms: nothing is promised before
		3: {"1", "2", "3", "4", "5"},
		4: {"1", "2", "3", "4", "5"},
	} {
		w := newWorld(t)
		slow := true
		w.fail = func(op conformance.Op) conformance.Fault {
			if slow && op.Kind == conformance.Put && strings.HasPrefix(op.Key.Sort, "SCHEDULE#") && op.N == write {
				slow = false
				w.run(w.clock.Add(2 * time.Minute)) // before the write takes place
				if write == 2 {
					w.run(minute(3))
				}
			}
			return conformance.None
		}
		w.create("rate(1 minute)")
		w.run(minute(5))
		w.wantFired(want...)
		w.checkArmed()
		if slow {
			t.Errorf("write %d never came", write)
		}
	}
}

// The same for a change: its timer comes before it is written, however slow that is.
func TestATimerThatOvertakesTheChangeThatSentIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	made := w.create("rate(10 minutes)")
	w.clock = minute(1)
	slow := true
	w.fail = func(op conformance.Op) conformance.Fault {
		if slow && op.Kind == conformance.Put && strings.HasPrefix(op.Key.Sort, "SCHEDULE#") {
			slow = false
			w.run(minute(3))
		}
		return conformance.None
	}
	if _, err := w.Update(t.Context(), owner, made.ID, timetable.Change{Expression: text("rate(1 minute)")}); err != nil {
		t.Fatal(err)
	}
	w.run(minute(6))
	w.wantFired("4", "5", "6")
	w.checkArmed()
}

// Two handlers of the same timer, and a timer that comes again long after.
func TestATimerThatComesTwiceFiresOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create("rate(1 minute)")
	again := w.queue.timers[0].body
	racing := true
	w.fail = func(op conformance.Op) conformance.Fault {
		if racing && op.Kind == conformance.Send && op.Queue == platform.Ticks {
			racing = false
			if err := w.handle(again); err != nil {
				t.Error(err)
			}
		}
		return conformance.None
	}
	w.run(minute(3.5))
	if err := w.handle(again); err != nil {
		t.Fatal(err)
	}
	w.run(minute(4))
	w.wantFired("1", "2", "3", "4")
	w.checkArmed()
}

// Many processes may be handed the same timer at the same time.
func TestManyHandlersOfOneTimerFireOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create("rate(1 minute)")
	timer := *w.parse(w.queue.timers[0].body).Timer
	w.queue.timers, w.clock = nil, minute(1)
	var handlers sync.WaitGroup
	for range 16 {
		handlers.Go(func() {
			if err := w.Fire(t.Context(), owner, timer); err != nil {
				t.Error(err)
			}
		})
	}
	handlers.Wait()
	w.wantFired("1")
	w.run(minute(3))
	w.wantFired("1", "2", "3")
	w.checkArmed()
	if len(w.queue.timers) != 1 {
		t.Errorf("%d timers are left: they do not converge", len(w.queue.timers))
	}
}

// The creator died before it armed, and nobody asks again: whoever looks finds it.
func TestAScheduleThatWasCreatedAndNotArmedIsArmedByWhoeverLooks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fail = func(op conformance.Op) conformance.Fault {
		if op.Kind == conformance.Send {
			return conformance.NotApplied
		}
		return conformance.None
	}
	if _, _, err := w.Create(t.Context(), owner, timetable.Change{Expression: text("at(2026-11-30T12:02:00)"), Prompt: text("p")}, ""); err == nil {
		t.Fatal("created without a timer")
	}
	w.fail = nil
	w.clock = start.Add(time.Hour)
	list, err := w.List(t.Context(), owner)
	if err != nil || len(list) != 1 || list[0].NextAt != subagent.At(minute(2)) {
		t.Fatalf("%+v: %v", list, err)
	}
	w.run(start.Add(2 * time.Hour))
	w.wantFired("2")
}
