package timetable

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/errand-dev/errand/shared/schedule"
	"github.com/errand-dev/errand/shared/subagent"
)

// edit applies the change. A refusal comes before anything is stored.
func (t *Timetable) edit(ctx context.Context, s schedule.Schedule, c Change) (schedule.Schedule, error) {
	if t.Frozen {
		return s, ErrFrozen
	}
	if c.Expression != nil && *c.Expression != s.Expression || c.Enabled != nil && *c.Enabled && !s.Enabled {
		s.Anchor = subagent.At(t.Ledger.Now())
	}
	s.Expression, s.Zone = pick(c.Expression, s.Expression), pick(c.Zone, s.Zone)
	s.Enabled, s.EndsAt, s.Trigger = pick(c.Enabled, s.Enabled), pick(c.EndsAt, s.EndsAt), pick(c.Trigger, s.Trigger)
	if err := checkTexts(s, c); err != nil {
		return s, err
	}
	next, err := s.Planned(t.Ledger.Now())
	if err == nil && s.Enabled && next == 0 {
		err = fmt.Errorf("%w: %s in %s", ErrNever, s.Expression, cmp.Or(s.Zone, "UTC"))
	}
	if err == nil && !s.Enabled {
		_, err = schedule.Parse(s.Expression, s.Zone)
	}
	if err != nil {
		return s, err
	}
	if s.Prompt, err = t.store(ctx, s.Owner, c.Prompt, s.Prompt); err != nil {
		return s, err
	}
	s.Message, err = t.store(ctx, s.Owner, c.Message, s.Message)
	return s, err
}

// checkTexts checks what the schedule would say after the change.
func checkTexts(s schedule.Schedule, c Change) error {
	for _, text := range []*string{c.Prompt, c.Message} {
		if text != nil && len(*text) > MaxText {
			return fmt.Errorf("%w: %d bytes, at most %d are allowed", ErrTooLarge, len(*text), MaxText)
		}
	}
	there := func(text *string, old subagent.Value) bool {
		return text == nil && old.Size > 0 || text != nil && strings.TrimSpace(*text) != ""
	}
	prompt, message := there(c.Prompt, s.Prompt), there(c.Message, s.Message)
	switch {
	case prompt && message:
		return ErrTwoTexts
	case !prompt && !message && s.Trigger == "":
		return ErrNothingToDo
	case s.Trigger == "":
		return nil
	}
	return subagent.CheckID(s.Trigger)
}

// store keeps a new text; without one the old value stays.
func (t *Timetable) store(ctx context.Context, o subagent.Owner, text *string, old subagent.Value) (subagent.Value, error) {
	if text == nil {
		return old, nil
	}
	return t.Ledger.StoreValue(ctx, o, strings.TrimSpace(*text))
}

// pick returns what the pointer points to, or the other.
func pick[T any](to *T, otherwise T) T {
	if to == nil {
		return otherwise
	}
	return *to
}
