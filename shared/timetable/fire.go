package timetable

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/delivery"
	"github.com/errand-dev/errand/shared/ledger"
	"github.com/errand-dev/errand/shared/schedule"
	"github.com/errand-dev/errand/shared/subagent"
)

// Source is that of the messages of prompts, and TriggerSource begins that of triggers:
// by it a chat that is no model tells which one has fired.
const (
	Source        = "schedule"
	TriggerSource = "trigger:"
)

// Fire handles a timer. A nil error acknowledges it: its moment has passed the row, or
// the timer was sent again. After an error it must be delivered again.
func (t *Timetable) Fire(ctx context.Context, o subagent.Owner, timer schedule.Timer) error {
	now := t.Ledger.Now()
	if timer.Early(now) {
		return t.send(ctx, t.Ledger, o, timer, now)
	}
	row, err := t.Ledger.Schedule(ctx, o, timer.ID)
	if err != nil || row.Version == 0 {
		// Without a row the schedule was deleted, or its conversation cleared.
		return err
	}
	for range maxRounds {
		switch row.Judge(timer) {
		case schedule.Over:
			return nil
		case schedule.Foreign:
			fenced, outcome, err := t.Ledger.UpdateSchedule(ctx, row, func(s schedule.Schedule) (schedule.Schedule, subagent.Outcome) { return s.Fence(row) })
			if err != nil || outcome != subagent.Stale {
				return err
			}
			row = fenced
			continue
		}
		refusal, err := t.refusal(ctx, o)
		if err != nil {
			return err
		}
		return t.Ledger.Atomically(ctx, func(l *ledger.Ledger) error { return t.fire(ctx, l, row, timer, refusal) })
	}
	return fmt.Errorf("timer of schedule %s: %w", timer.ID, ledger.ErrContended)
}

// fire accepts the turn of the row's moment, sends the timer of the next, and moves on.
func (t *Timetable) fire(ctx context.Context, l *ledger.Ledger, row schedule.Schedule, timer schedule.Timer, refusal error) error {
	due := row.NextAt
	seen, err := t.accept(ctx, l, row, refusal)
	if err != nil {
		return err
	}
	next, err := row.After(due, seen)
	if err != nil {
		return err
	}
	if next != 0 {
		if err := t.send(ctx, l, row.Owner, schedule.Timer{ID: row.ID, Generation: row.Generation, Due: next}, l.Now()); err != nil {
			return err
		}
	}
	_, _, err = l.UpdateSchedule(ctx, row, func(s schedule.Schedule) (schedule.Schedule, subagent.Outcome) { return s.Fired(timer, due, next) })
	return err
}

// refusal returns why the conversation's agent takes no new work, if it does not.
func (t *Timetable) refusal(ctx context.Context, o subagent.Owner) (refusal, err error) {
	err = t.Controls.AdmitTurn(ctx, o, t.DefaultChat)
	if errors.Is(err, agent.ErrAgentDisabled) || errors.Is(err, agent.ErrInMaintenance) {
		return err, nil
	}
	return nil, err
}

// accept accepts the turn of the row's moment, and returns when that was: at first, if
// it was accepted before. An agent that takes no new work misses this firing.
func (t *Timetable) accept(ctx context.Context, l *ledger.Ledger, row schedule.Schedule, refusal error) (seen subagent.Time, err error) {
	turn := subagent.Turn{
		Owner: row.Owner, ID: turnID(row.ID, row.NextAt), Kind: subagent.ScheduleTurn, Status: subagent.Queued,
		Metadata:   map[string]string{"schedule": row.ID, "due": row.NextAt.Time().Format(time.RFC3339)},
		AcceptedAt: subagent.At(l.Now()),
	}
	if refusal != nil {
		stored, err := l.Turn(ctx, row.Owner, turn.ID)
		if err == nil && stored.Status == "" {
			t.emit(ctx, l, row, l.NewEvent("schedule.skipped", "", "", skipped{row.ID, refusal.Error()}))
			return turn.AcceptedAt, nil
		}
		return stored.AcceptedAt, err
	}
	if turn.Message, turn.Source, err = t.message(ctx, l, row); err != nil {
		return 0, err
	}
	stored, known, err := l.CreateTurn(ctx, turn)
	switch {
	case err != nil:
		return 0, err
	case known && stored.Done():
		return stored.AcceptedAt, nil
	case known:
		// Whoever accepted it may have died before it sent the wake.
		return stored.AcceptedAt, l.SendTurn(ctx, stored, l.Nonce())
	}
	t.Log.InfoContext(ctx, "schedule fired", "schedule_id", row.ID, "turn_id", turn.ID)
	if err := l.SendTurn(ctx, stored, ""); err != nil {
		return 0, err
	}
	t.emit(ctx, l, row, l.NewEvent("turn.accepted", "", turn.ID, delivery.TurnEvent{Kind: turn.Kind}))
	return stored.AcceptedAt, nil
}

// message is what the turn says, and in whose name.
func (t *Timetable) message(ctx context.Context, l *ledger.Ledger, row schedule.Schedule) (subagent.Value, string, error) {
	source := Source
	if row.Trigger != "" {
		source = TriggerSource + row.Trigger
	}
	switch {
	case row.Message.Size > 0 && row.Trigger == "":
		return row.Message, "", nil
	case row.Message.Size > 0:
		return row.Message, source, nil
	case row.Prompt.Size > 0:
		return row.Prompt, source, nil
	}
	text, err := l.StoreValue(ctx, row.Owner, defaultPrompt(row.Trigger))
	return text, source, err
}

// turnID names the turn of one moment of a schedule.
func turnID(id string, due subagent.Time) string { return fmt.Sprintf("schedule:%s:%d", id, due) }

type skipped struct {
	Schedule string `json:"schedule"`
	Reason   string `json:"reason"`
}

func (t *Timetable) emit(ctx context.Context, l *ledger.Ledger, row schedule.Schedule, events ...ledger.Event) {
	if err := l.Emit(ctx, row.Owner, events...); err != nil {
		t.Log.WarnContext(ctx, "events lost", "schedule_id", row.ID, "error", err)
	}
}
