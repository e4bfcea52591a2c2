package ingress

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/api"
	"github.com/errand-dev/errand/shared/dispatch"
	"github.com/errand-dev/errand/shared/subagent"
)

func postRun(h *handler, c *call) error {
	req, err := c.runRequest()
	if err != nil {
		return err
	}
	row, known, err := h.Dispatch(c.r.Context(), req)
	if err != nil {
		return runFault(err)
	}
	view, err := h.show(c.r.Context(), row)
	if err != nil {
		return err
	}
	h.accepted(c, pathPrefix+c.owner.Conversation+"/runs/"+row.ID, known, view)
	return nil
}

func (c *call) runRequest() (RunRequest, error) {
	req := RunRequest{Owner: c.owner}
	var err error
	if req.Key, err = c.key(); err != nil {
		return req, err
	}
	var body api.DispatchRequest
	if err := c.body(&body, false); err != nil {
		return req, err
	}
	req.Agent, req.Input, req.Run = body.Agent, body.Input, body.RunID
	if req.Agent == "" {
		return req, atFault("agent", fmt.Errorf("%w: the agent is missing", errInvalidBody))
	}
	if req.Run != "" {
		if err := checkID(req.Run); err != nil {
			return req, atFault("run_id", err)
		}
	}
	var detached json.RawMessage
	if body.Detached != nil {
		if detached, err = json.Marshal(body.Detached); err != nil {
			return req, fmt.Errorf("encoding the detached options: %w", err)
		}
	}
	if req.Notice, req.Budget, err = agent.ParseDetached(detached); err != nil {
		return req, atFault("detached", err)
	}
	return req, nil
}

// runFault names the field that a refusal is about.
func runFault(err error) error {
	switch {
	case errors.Is(err, agent.ErrUnknownAgent), errors.Is(err, agent.ErrAgentDisabled), errors.Is(err, agent.ErrInMaintenance):
		return atFault("agent", err)
	case errors.Is(err, agent.ErrUnknownHandler):
		return atFault("detached.on_finish", err)
	case errors.Is(err, dispatch.ErrInputTooLarge):
		return atFault("input", err)
	case errors.Is(err, subagent.ErrInvalidBudget):
		return atFault("detached", err)
	}
	return err
}

func getRuns(h *handler, c *call) error {
	limit, err := c.limit()
	if err != nil {
		return err
	}
	list := h.AllRuns
	switch c.query.Get("status") {
	case "all":
	case "active":
		list = h.ActiveRuns
	default:
		if c.query.Has("status") {
			return atFault("status", fmt.Errorf("%w: status is active or all", errInvalidParameter))
		}
	}
	page, err := list(c.r.Context(), c.owner, c.query.Get("after"), limit)
	if err == nil && len(page.Runs) == 0 {
		err = h.exists(c.r.Context(), c.owner)
	}
	if err != nil {
		return err
	}
	h.ok(c, http.StatusOK, page)
	return nil
}

func getRun(h *handler, c *call) error {
	id, err := c.pathID("run")
	if err != nil {
		return err
	}
	view, err := h.Run(c.r.Context(), c.owner, id)
	if err != nil {
		return err
	}
	h.ok(c, http.StatusOK, view)
	return nil
}

func postCancel(h *handler, c *call) error {
	id, err := c.pathID("run")
	if err != nil {
		return err
	}
	var req api.CancelRequest
	if err := c.body(&req, true); err != nil {
		return err
	}
	row, err := h.Control.Cancel(c.r.Context(), c.owner, id, req.Reason)
	if err != nil {
		return err
	}
	view, err := h.show(c.r.Context(), row)
	if err != nil {
		return err
	}
	h.ok(c, http.StatusOK, view)
	return nil
}

func postFollowUp(h *handler, c *call) error {
	id, err := c.pathID("run")
	if err != nil {
		return err
	}
	var req api.FollowUpRequest
	if err := c.body(&req, false); err != nil {
		return err
	}
	switch {
	case strings.TrimSpace(req.Text) == "":
		return atFault("text", ErrEmptyMessage)
	case len(req.Text) > MaxMessage:
		return atFault("text", fmt.Errorf("%w: %d bytes, at most %d are allowed", ErrMessageTooLarge, len(req.Text), MaxMessage))
	}
	if err := h.Control.FollowUp(c.r.Context(), c.owner, id, req.Text); err != nil {
		return err
	}
	c.w.WriteHeader(http.StatusAccepted)
	return nil
}

func postRedrive(h *handler, c *call) error {
	id, err := c.pathID("run")
	if err != nil {
		return err
	}
	var req api.RedriveRequest
	if err := c.body(&req, true); err != nil {
		return err
	}
	slot := subagent.Slot(req.Slot)
	if slot != "" && slot != subagent.Finish && slot != subagent.GiveUp {
		return atFault("slot", fmt.Errorf("%w: slot is finish or give_up", errInvalidBody))
	}
	row, err := h.Control.Redrive(c.r.Context(), c.owner, id, slot)
	if err != nil {
		return err
	}
	view, err := h.show(c.r.Context(), row)
	if err != nil {
		return err
	}
	h.ok(c, http.StatusAccepted, view)
	return nil
}

func postReplay(h *handler, c *call) error {
	id, err := c.pathID("run")
	if err != nil {
		return err
	}
	key, err := c.key()
	if err != nil {
		return err
	}
	row, known, err := h.Replay(c.r.Context(), c.owner, id, key)
	if err != nil {
		return err
	}
	view, err := h.show(c.r.Context(), row)
	if err != nil {
		return err
	}
	h.accepted(c, pathPrefix+c.owner.Conversation+"/runs/"+row.ID, known, view)
	return nil
}

func getWhy(h *handler, c *call) error {
	id, err := c.pathID("run")
	if err != nil {
		return err
	}
	why, err := h.Why(c.r.Context(), c.owner, id)
	if err != nil {
		return err
	}
	h.ok(c, http.StatusOK, why)
	return nil
}
