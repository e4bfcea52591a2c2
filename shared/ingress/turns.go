package ingress

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/api"
	"github.com/errand-dev/errand/shared/subagent"
)

const (
	maxMetadata = 16 << 10
	// pathPrefix begins the Location of everything that is created.
	pathPrefix = "/v1/conversations/"
)

func postTurn(h *handler, c *call) error {
	key, err := c.key()
	if err != nil {
		return err
	}
	var req api.TurnRequest
	if err := c.body(&req, false); err != nil {
		return err
	}
	size := 0
	for name, value := range req.Metadata {
		size += len(name) + len(value)
	}
	if size > maxMetadata {
		return atFault("metadata", fmt.Errorf("%w: metadata has %d bytes, at most %d are allowed", errTooLarge, size, maxMetadata))
	}
	turn, replayed, err := h.Accept(c.r.Context(), TurnRequest{
		Owner: c.owner, Message: req.Message, Agent: req.Agent, Metadata: req.Metadata, Key: key})
	if err != nil {
		return turnFault(err)
	}
	// A turn that was accepted just now waits: nothing that is read could say more, and a
	// read that failed would hide that it was accepted.
	view := viewTurn(turn, subagent.Conversation{})
	if replayed {
		if view, err = h.showTurn(c.r.Context(), turn); err != nil {
			return err
		}
	}
	h.accepted(c, pathPrefix+c.owner.Conversation+"/turns/"+turn.ID, replayed, view)
	return nil
}

func (h *handler) accepted(c *call, location string, replayed bool, view any) {
	c.w.Header().Set("Location", location)
	if replayed {
		c.w.Header().Set(replayHeader, "true")
	}
	h.ok(c, http.StatusAccepted, view)
}

// turnFault names the field that a refusal is about.
func turnFault(err error) error {
	switch {
	case errors.Is(err, ErrEmptyMessage), errors.Is(err, ErrMessageTooLarge):
		return atFault("message", err)
	case errors.Is(err, agent.ErrUnknownAgent), errors.Is(err, ErrAgentFixed), errors.Is(err, agent.ErrAgentDisabled), errors.Is(err, agent.ErrInMaintenance):
		return atFault("agent", err)
	}
	return err
}

func getTurn(h *handler, c *call) error {
	id, err := c.pathID("turn")
	if err != nil {
		return err
	}
	view, err := h.Turn(c.r.Context(), c.owner, id)
	if err != nil {
		return err
	}
	h.ok(c, http.StatusOK, view)
	return nil
}

func getConversation(h *handler, c *call) error {
	view, err := h.Conversation(c.r.Context(), c.owner)
	if err != nil {
		return err
	}
	h.ok(c, http.StatusOK, view)
	return nil
}

func deleteConversation(h *handler, c *call) error {
	if err := h.hasRows(c.r.Context(), c.owner); err != nil {
		return err
	}
	if err := h.Control.Clear(c.r.Context(), c.owner); err != nil {
		return err
	}
	c.w.WriteHeader(http.StatusAccepted)
	return nil
}

func getMessages(h *handler, c *call) error {
	after, err := c.after()
	if err != nil {
		return err
	}
	limit, err := c.limit()
	if err != nil {
		return err
	}
	page, err := h.Messages(c.r.Context(), c.owner, after, limit)
	if err != nil {
		return err
	}
	h.ok(c, http.StatusOK, page)
	return nil
}

// getEvents serves the log of a conversation and, where the path names one, of a run.
func getEvents(h *handler, c *call) error {
	q, wait, err := c.eventQuery()
	if err != nil {
		return err
	}
	// What comes is late by design: a deadline of the server's must not cut it off.
	_ = http.NewResponseController(c.w).SetWriteDeadline(time.Now().Add(wait + writeWithin))
	switch wanted := accepts(c.r); {
	case wanted.stream && h.Hub != nil:
		return h.serveStream(c, q)
	case wanted.stream && !wanted.json:
		return errNotAcceptable
	}
	page, err := h.Events(c.r.Context(), q, wait)
	if err != nil {
		return err
	}
	h.ok(c, http.StatusOK, page)
	return nil
}

func (c *call) eventQuery() (q EventQuery, wait time.Duration, err error) {
	q.Owner = c.owner
	if c.r.PathValue("run") != "" {
		if q.Run, err = c.pathID("run"); err != nil {
			return q, 0, err
		}
	}
	if q.After, err = c.after(); err != nil {
		return q, 0, err
	}
	if q.Limit, err = c.limit(); err != nil {
		return q, 0, err
	}
	ms, err := c.number("wait_ms", 0, api.MaxWait.Milliseconds(), 0)
	if err != nil {
		return q, 0, err
	}
	if last := c.r.Header.Get(resumeHeader); last != "" {
		n, err := strconv.ParseInt(last, 10, 64)
		if err != nil || n < 0 || n > maxSeq {
			return q, 0, atFault(resumeHeader, fmt.Errorf("%w: it must be the id of an event", errInvalidParameter))
		}
		q.After = max(q.After, n)
	}
	return q, time.Duration(ms) * time.Millisecond, nil
}

type accepted struct{ stream, json bool }

// accepts tells which of the two forms of the log the client takes.
func accepts(r *http.Request) accepted {
	var a accepted
	for _, header := range r.Header.Values("Accept") {
		for kind := range strings.SplitSeq(header, ",") {
			kind, _, _ = strings.Cut(kind, ";")
			switch strings.ToLower(strings.TrimSpace(kind)) {
			case "text/event-stream":
				a.stream = true
			case "application/json", "application/*", "*/*":
				a.json = true
			}
		}
	}
	return a
}
