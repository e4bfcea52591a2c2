// Package schedule holds the rules of dynamic schedules as pure functions over plain
// values: what an expression means (expression.go, cron.go), and how the row of a
// schedule and its timer move on (this file).
//
// A timer is one delayed message that names a schedule, the generation of its row and
// the moment that is due. These hold, whatever crashes, is late or comes twice:
//
//   - Armed implies a timer: while a row has a NextAt, a timer of its generation and that
//     moment is queued or being handled, unless the platform has lost it. A timer is sent
//     before the row that promises it is written, and acknowledged only after the row has
//     passed it.
//   - A timer that is judged before its row was written fences the row (Fence): whoever was
//     about to write it must begin again, with a new timer. An old timer does the same, which
//     costs a write and is right.
//   - One moment is one turn, by its id. So a timer may be handled any number of times.
//   - What a firing stands for ends where its turn was accepted: the next one is the first
//     after that (After). So being late by many periods is one turn, and every handler of
//     the same timer finds the same next moment.
package schedule

import (
	"fmt"
	"time"

	"github.com/errand-dev/errand/shared/subagent"
)

// Schedule is the row of one schedule.
type Schedule struct {
	Owner   subagent.Owner `json:"-"`
	ID      string         `json:"-"`
	Version int64          `json:"-"`
	// BodyHash tells a repeated request from another one under the same key.
	BodyHash string `json:"hash,omitempty"`

	Expression string `json:"expr"`
	// Zone is an IANA name, UTC if empty.
	Zone    string `json:"tz,omitempty"`
	Enabled bool   `json:"on"`
	// EndsAt is the last moment at which it may fire, zero if there is none.
	EndsAt subagent.Time `json:"end,omitempty"`

	// Prompt instructs the agent, Message is what the user is made to say: one of them at
	// most. Trigger names what the agent is to handle.
	Prompt  subagent.Value `json:"prompt,omitzero"`
	Message subagent.Value `json:"msg,omitzero"`
	Trigger string         `json:"trigger,omitempty"`

	// Anchor is what rates count from.
	Anchor subagent.Time `json:"t0"`
	// Generation is new with each arming, and empty before the first one.
	Generation string `json:"g,omitempty"`
	// NextAt is when it fires next; zero if it does not.
	NextAt    subagent.Time `json:"next,omitempty"`
	LastAt    subagent.Time `json:"last,omitempty"`
	CreatedAt subagent.Time `json:"c"`
	UpdatedAt subagent.Time `json:"u"`
}

// MaxPerConversation is how many schedules a conversation may have.
const MaxPerConversation = 20

// overdue is how late a timer may be before another one is sent: longer than one-time
// schedules and retries take. One too many costs a message.
const overdue = 15 * time.Minute

// Timer is what a delayed message says of a schedule.
type Timer struct {
	ID         string        `json:"id"`
	Generation string        `json:"g"`
	Due        subagent.Time `json:"due"`
}

// Timer returns the timer that the row promises.
func (s Schedule) Timer() Timer { return Timer{s.ID, s.Generation, s.NextAt} }

// Early reports whether the timer has come before its time: a far moment is reached in
// hops where messages cannot wait long enough.
func (t Timer) Early(now time.Time) bool { return subagent.At(now) < t.Due }

// Verdict says what a timer that is due means for a schedule.
type Verdict int

const (
	// Fire: the schedule's next moment has come.
	Fire Verdict = iota + 1
	// Over: that moment has passed the row already.
	Over
	// Foreign: it belongs to another generation, which is gone or not written yet.
	Foreign
)

// Judge judges a timer that is due. A timer ahead of the row is one whose sender has not
// written yet: it fires what the row waits for.
func (s Schedule) Judge(t Timer) Verdict {
	switch {
	case s.Generation != t.Generation:
		return Foreign
	case s.NextAt == 0 || s.NextAt > t.Due:
		return Over
	}
	return Fire
}

// After returns the first firing after both moments, zero if there is none: after a firing,
// due is its own moment and seen when its turn was accepted.
func (s Schedule) After(due, seen subagent.Time) (subagent.Time, error) {
	plan, err := Parse(s.Expression, s.Zone)
	if err != nil {
		return 0, fmt.Errorf("schedule %s: %w", s.ID, err)
	}
	next := subagent.At(plan.Next(max(due, seen).Time(), s.Anchor.Time()))
	if s.EndsAt != 0 && next > s.EndsAt {
		return 0, nil
	}
	return next, nil
}

// Planned returns what an arming at now promises: a firing that is due and has not
// passed the row is still owed, else the first one after now; for the first arming, after
// the schedule was created.
func (s Schedule) Planned(now time.Time) (subagent.Time, error) {
	switch {
	case !s.Enabled:
		return 0, nil
	case s.NextAt != 0 && s.NextAt <= subagent.At(now):
		return s.NextAt, nil
	case s.Unarmed():
		return s.After(0, s.CreatedAt)
	}
	return s.After(0, subagent.At(now))
}

// Arm writes an edited row with a new generation after its timer was sent. Stale: the row
// is not the one that was edited; begin again with the fresh one.
func (s Schedule) Arm(read, edited Schedule, generation string, next subagent.Time, now time.Time) (Schedule, subagent.Outcome) {
	if s.Version != read.Version {
		return s, subagent.Stale
	}
	edited.Version, edited.Generation, edited.NextAt, edited.UpdatedAt = s.Version, generation, next, subagent.At(now)
	return edited, subagent.Apply
}

// Fence makes the arming that sent a foreign timer begin again, if it has not written
// yet: it changes nothing but the version.
func (s Schedule) Fence(read Schedule) (Schedule, subagent.Outcome) {
	if s.Version != read.Version {
		return s, subagent.Stale
	}
	return s, subagent.Apply
}

// Fired moves the row from due to next, after the timer of next was sent.
func (s Schedule) Fired(t Timer, due, next subagent.Time) (Schedule, subagent.Outcome) {
	if s.Generation != t.Generation || s.NextAt != due {
		return s, subagent.Stale
	}
	s.LastAt, s.NextAt = due, next
	return s, subagent.Apply
}

// Lost reports whether the platform must have lost the timer.
func (s Schedule) Lost(now time.Time) bool {
	return s.NextAt != 0 && now.Sub(s.NextAt.Time()) > overdue
}

// Unarmed reports whether its creator died before it armed the schedule.
func (s Schedule) Unarmed() bool { return s.Enabled && s.Generation == "" }

// Status is active, disabled, or ended: it will not fire again.
func (s Schedule) Status() string {
	switch {
	case !s.Enabled:
		return "disabled"
	case s.NextAt == 0 && !s.Unarmed():
		return "ended"
	}
	return "active"
}
