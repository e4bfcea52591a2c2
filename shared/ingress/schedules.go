package ingress

import (
	"cmp"
	"context"
	"errors"
	"net/http"

	"github.com/errand-dev/errand/shared/api"
	"github.com/errand-dev/errand/shared/schedule"
	"github.com/errand-dev/errand/shared/subagent"
	"github.com/errand-dev/errand/shared/timetable"
)

const (
	schedulesPath = conversationPath + "/schedules"
	schedulePath  = schedulesPath + "/{schedule}"
)

func scheduleRoutes() []route {
	return []route{
		{method: "POST", path: schedulesPath, name: "createSchedule", summary: "Create a schedule, whose firings are turns", handle: postSchedule, headers: []string{keyHeader},
			request: api.ScheduleRequest{}, status: http.StatusCreated, answer: api.Schedule{}, location: true,
			problems: body(codeInvalidKey, codeKeyReused, codeInvalidSchedule, codeTooManySchedules, codeSwitchedOff)},
		{method: "GET", path: schedulesPath, name: "listSchedules", summary: "Every schedule of a conversation", handle: getSchedules,
			status: http.StatusOK, answer: api.ScheduleList{}, problems: []string{codeContended}},
		{method: "GET", path: schedulePath, name: "getSchedule", summary: "One schedule", handle: getSchedule,
			status: http.StatusOK, answer: api.Schedule{}, problems: []string{codeNotFound, codeContended}},
		{method: "PATCH", path: schedulePath, name: "updateSchedule", summary: "Change a schedule: what is absent stays, null removes", handle: patchSchedule,
			request: api.ScheduleChange{}, status: http.StatusOK, answer: api.Schedule{},
			problems: body(codeNotFound, codeInvalidSchedule, codeSwitchedOff)},
		{method: "DELETE", path: schedulePath, name: "deleteSchedule", summary: "Delete a schedule", handle: deleteSchedule,
			status: http.StatusNoContent, problems: []string{codeNotFound}},
	}
}

func postSchedule(h *handler, c *call) error {
	key, err := c.key()
	if err != nil {
		return err
	}
	var req api.ScheduleRequest
	if err := c.body(&req, false); err != nil {
		return err
	}
	change := timetable.Change{
		Expression: &req.Expression, Zone: &req.Timezone, Prompt: &req.Prompt, Message: &req.Message, Trigger: &req.Trigger,
		Enabled: req.Enabled,
	}
	if !req.EndsAt.IsZero() {
		ends := subagent.At(req.EndsAt.Time)
		change.EndsAt = &ends
	}
	made, known, err := h.Timetable.Create(c.r.Context(), c.owner, change, key)
	if err != nil {
		return scheduleFault(err)
	}
	c.w.Header().Set("Location", pathPrefix+c.owner.Conversation+"/schedules/"+made.ID)
	if known {
		c.w.Header().Set(replayHeader, "true")
	}
	h.ok(c, http.StatusCreated, viewSchedule(made))
	return nil
}

func getSchedules(h *handler, c *call) error {
	list, err := h.Timetable.List(c.r.Context(), c.owner)
	if err != nil {
		return err
	}
	views := make([]api.Schedule, len(list))
	for i, s := range list {
		views[i] = viewSchedule(s)
		views[i].Prompt, views[i].Message = beginning(views[i].Prompt), beginning(views[i].Message)
	}
	h.ok(c, http.StatusOK, api.ScheduleList{Schedules: views})
	return nil
}

// listedText is how many characters of a text a list shows: all of every schedule's may be more
// than Lambda answers with.
const listedText = 1000

func beginning(text string) string {
	if runes := []rune(text); len(runes) > listedText {
		return string(runes[:listedText]) + "…"
	}
	return text
}

func getSchedule(h *handler, c *call) error {
	id, err := c.pathID("schedule")
	if err != nil {
		return err
	}
	s, err := h.Timetable.Get(c.r.Context(), c.owner, id)
	if err != nil {
		return err
	}
	h.ok(c, http.StatusOK, viewSchedule(s))
	return nil
}

func patchSchedule(h *handler, c *call) error {
	id, err := c.pathID("schedule")
	if err != nil {
		return err
	}
	var req api.ScheduleChange
	if err := c.body(&req, false); err != nil {
		return err
	}
	change := timetable.Change{
		Expression: req.Expression.Get(), Zone: req.Timezone.Get(), Prompt: req.Prompt.Get(), Message: req.Message.Get(), Trigger: req.Trigger.Get(),
		Enabled: req.Enabled,
	}
	if ends := req.EndsAt.Get(); ends != nil {
		at := subagent.At(ends.Time)
		change.EndsAt = &at
	}
	s, err := h.Timetable.Update(c.r.Context(), c.owner, id, change)
	if err != nil {
		return scheduleFault(err)
	}
	h.ok(c, http.StatusOK, viewSchedule(s))
	return nil
}

func deleteSchedule(h *handler, c *call) error {
	id, err := c.pathID("schedule")
	if err != nil {
		return err
	}
	if err := h.Timetable.Delete(c.r.Context(), c.owner, id); err != nil {
		return err
	}
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}

// scheduleFault names the field that a refusal is about.
func scheduleFault(err error) error {
	for refusal, field := range map[error]string{
		schedule.ErrExpression: "expression", timetable.ErrNever: "expression", schedule.ErrZone: "timezone",
		timetable.ErrNothingToDo: "prompt", timetable.ErrTwoTexts: "message", timetable.ErrTooLarge: "prompt", subagent.ErrInvalidID: "trigger",
	} {
		if errors.Is(err, refusal) {
			return atFault(field, err)
		}
	}
	return err
}

func viewSchedule(s timetable.Schedule) api.Schedule {
	return api.Schedule{
		ID: s.ID, Conversation: s.Owner.Conversation, Expression: s.Expression, Timezone: cmp.Or(s.Zone, "UTC"),
		Prompt: s.PromptText, Message: s.MessageText, Trigger: s.Trigger, Enabled: s.Enabled, Status: s.Status(),
		EndsAt: timeOf(s.EndsAt), NextAt: timeOf(s.NextAt), LastAt: timeOf(s.LastAt), CreatedAt: timeOf(s.CreatedAt), UpdatedAt: timeOf(s.UpdatedAt),
	}
}

// hasRows returns ErrNotFound unless there is something of the conversation: itself, or
// schedules that have not fired yet.
func (s *Service) hasRows(ctx context.Context, o subagent.Owner) error {
	err := s.exists(ctx, o)
	if !errors.Is(err, ErrNotFound) {
		return err
	}
	waiting, listed := s.Ledger.Schedules(ctx, o)
	if listed != nil {
		return listed
	}
	if len(waiting) > 0 {
		return nil
	}
	return err
}
