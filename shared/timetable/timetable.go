// Package timetable keeps the schedules of conversations: it creates, changes, lists and
// deletes them, and fires them. A firing accepts one turn of kind schedule under an id
// made of the schedule and the moment that was due: accepting twice is accepting once.
//
// The rules and what they promise are those of package schedule. The order of steps here
// is that of the backbone: send the timer, then write the row that promises it. A crash
// between any two of them loses nothing, because the timer that is being handled comes
// again, or a creator's caller was promised nothing yet.
//
// The use cases are in this file, what a change makes of a schedule in edit.go, how its timer
// is sent in arm.go and handled in fire.go.
package timetable

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/errand-dev/errand/shared/ledger"
	"github.com/errand-dev/errand/shared/operator"
	"github.com/errand-dev/errand/shared/schedule"
	"github.com/errand-dev/errand/shared/subagent"
)

// Timetable is the use cases of schedules.
type Timetable struct {
	Ledger *ledger.Ledger
	// Controls refuse the firings of agents that take no new work.
	Controls *operator.Controls
	// DefaultChat is the agent of a conversation that has none yet.
	DefaultChat string
	// Frozen: dynamic schedules are switched off. None is created or changed; those that
	// there are go on, and can be listed and deleted.
	Frozen bool
	// LongTimers: the platform's delays have no limit. Else a far moment is reached in hops
	// of platform.MaxDelay.
	LongTimers bool
	Log        *slog.Logger
}

// Refusals of a schedule. Nothing was written.
var (
	ErrFrozen      = errors.New("dynamic schedules are switched off in this deployment; they can be listed and deleted")
	ErrNothingToDo = errors.New("a schedule needs a prompt, a message or a trigger")
	ErrTwoTexts    = errors.New("a schedule has a prompt or a message, not both")
	ErrTooLarge    = errors.New("the text is too large")
	ErrNever       = errors.New("the schedule would never fire again")
	ErrTooMany     = fmt.Errorf("the conversation has %d schedules already, its limit; delete one", schedule.MaxPerConversation)
	ErrNoSchedule  = errors.New("no such schedule")
	ErrKeyReused   = errors.New("this key was used for another schedule")
)

// MaxText is the largest prompt or message, in bytes.
const MaxText = 256 << 10

// Change says what a schedule is to become. What is nil stays as it is.
type Change struct {
	Expression, Zone *string
	Enabled          *bool
	// EndsAt is the last moment at which it may fire; zero removes it.
	EndsAt *subagent.Time
	// An empty text removes it.
	Prompt, Message, Trigger *string
}

// Schedule is a row with its texts.
type Schedule struct {
	schedule.Schedule
	PromptText, MessageText string
}

// Create creates a schedule. key, if not empty, makes the request repeatable: known
// reports that the same was asked for before, and is the answer as it now stands.
//
// Errors: schedule.ErrExpression, schedule.ErrZone, subagent.ErrInvalidID and those above.
func (t *Timetable) Create(ctx context.Context, o subagent.Owner, c Change, key string) (made Schedule, known bool, err error) {
	hash, err := hashOf(c)
	if err != nil {
		return made, false, err
	}
	var row schedule.Schedule
	id := t.id(o, key)
	if key != "" {
		if row, err = t.Ledger.Schedule(ctx, o, id); err != nil {
			return made, false, err
		}
	}
	// What was asked for before is not judged again: its only moment may have passed.
	if known = row.Version != 0; !known {
		row, known, err = t.create(ctx, o, id, hash, c)
	}
	switch {
	case err != nil:
		return made, known, err
	case row.BodyHash != hash:
		return made, known, ErrKeyReused
	case !known || row.Unarmed():
		row, err = t.arm(ctx, row, asItIs)
	}
	if err != nil {
		return made, known, err
	}
	if !known {
		t.Log.InfoContext(ctx, "schedule created", "schedule_id", row.ID, "conversation", o.Conversation)
	}
	made, err = t.complete(ctx, row)
	return made, known, err
}

// create stores the row of a schedule, which is not armed yet.
func (t *Timetable) create(ctx context.Context, o subagent.Owner, id, hash string, c Change) (row schedule.Schedule, known bool, err error) {
	now := subagent.At(t.Ledger.Now())
	row = schedule.Schedule{Owner: o, ID: id, BodyHash: hash, Enabled: true, Anchor: now, CreatedAt: now, UpdatedAt: now}
	if err := t.room(ctx, o, id); err != nil {
		return row, false, err
	}
	if row, err = t.edit(ctx, row, c); err != nil {
		return row, false, err
	}
	return t.Ledger.CreateSchedule(ctx, row)
}

// Update changes a schedule. What was due already and has not fired still fires, unless
// the change disables the schedule. Errors: as for Create, and ErrNoSchedule.
func (t *Timetable) Update(ctx context.Context, o subagent.Owner, id string, c Change) (Schedule, error) {
	row, err := t.row(ctx, o, id)
	if err != nil {
		return Schedule{}, err
	}
	row, err = t.arm(ctx, row, func(s schedule.Schedule) (schedule.Schedule, error) { return t.edit(ctx, s, c) })
	if err != nil {
		return Schedule{}, err
	}
	return t.complete(ctx, row)
}

// Get returns one schedule, and List those of a conversation in the order of their ids.
// Both send the timer again of one that has lost it. Errors: ErrNoSchedule.
func (t *Timetable) Get(ctx context.Context, o subagent.Owner, id string) (Schedule, error) {
	row, err := t.row(ctx, o, id)
	if err != nil {
		return Schedule{}, err
	}
	if row, err = t.repair(ctx, row); err != nil {
		return Schedule{}, err
	}
	return t.complete(ctx, row)
}

// List: see Get.
func (t *Timetable) List(ctx context.Context, o subagent.Owner) ([]Schedule, error) {
	rows, err := t.Ledger.Schedules(ctx, o)
	if err != nil {
		return nil, err
	}
	list := make([]Schedule, 0, len(rows))
	for _, row := range rows {
		if row, err = t.repair(ctx, row); err != nil {
			return nil, err
		}
		complete, err := t.complete(ctx, row)
		if err != nil {
			return nil, err
		}
		list = append(list, complete)
	}
	return list, nil
}

// Delete deletes a schedule; its timer then finds no row. Errors: ErrNoSchedule.
func (t *Timetable) Delete(ctx context.Context, o subagent.Owner, id string) error {
	if _, err := t.row(ctx, o, id); err != nil {
		return err
	}
	return t.Ledger.DeleteSchedule(ctx, o, id)
}

func (t *Timetable) row(ctx context.Context, o subagent.Owner, id string) (schedule.Schedule, error) {
	if err := subagent.CheckID(id); err != nil {
		return schedule.Schedule{}, fmt.Errorf("%w: %w", ErrNoSchedule, err)
	}
	row, err := t.Ledger.Schedule(ctx, o, id)
	if err == nil && row.Version == 0 {
		err = fmt.Errorf("%w: %s", ErrNoSchedule, id)
	}
	return row, err
}

// id is derived from the conversation and key, or fresh without a key.
func (t *Timetable) id(o subagent.Owner, key string) string {
	if key == "" {
		return "s-" + t.Ledger.Nonce()
	}
	return "s-" + ledger.Digest(o.Tenant + "/" + o.Conversation + "/schedule/" + key)[:26]
}

// room refuses one schedule too many. Creations at the same time may pass the limit by as
// many: it bounds what a conversation costs, and decides nothing.
func (t *Timetable) room(ctx context.Context, o subagent.Owner, id string) error {
	rows, err := t.Ledger.Schedules(ctx, o)
	if err != nil || len(rows) < schedule.MaxPerConversation {
		return err
	}
	if slices.ContainsFunc(rows, func(s schedule.Schedule) bool { return s.ID == id }) {
		return nil
	}
	return ErrTooMany
}

func hashOf(c Change) (string, error) {
	body, err := json.Marshal(c)
	if err != nil {
		return "", fmt.Errorf("encoding the request: %w", err)
	}
	return ledger.Digest(string(body))[:32], nil
}

// complete loads the texts. A trigger's own prompt is shown like any other.
func (t *Timetable) complete(ctx context.Context, row schedule.Schedule) (s Schedule, err error) {
	s.Schedule = row
	if s.PromptText, err = t.Ledger.LoadValue(ctx, row.Owner, row.Prompt); err != nil {
		return s, err
	}
	s.MessageText, err = t.Ledger.LoadValue(ctx, row.Owner, row.Message)
	if s.PromptText == "" && s.MessageText == "" {
		s.PromptText = defaultPrompt(row.Trigger)
	}
	return s, err
}

func defaultPrompt(trigger string) string {
	return fmt.Sprintf("The trigger %q has fired by its schedule. Handle it now.", trigger)
}
