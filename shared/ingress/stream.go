package ingress

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/errand-dev/errand/shared/api"
	"github.com/errand-dev/errand/shared/ledger"
	"github.com/errand-dev/errand/shared/subagent"
)

const (
	// aliveEvery is how often a quiet stream says that it is alive.
	aliveEvery = 15 * time.Second
	// writeWithin is how long a client may take to accept what is written.
	writeWithin = 10 * time.Second
)

// errStreamOver ends a stream whose client is gone or too slow.
var errStreamOver = errors.New("the stream is over")

// stream sends a conversation's events as server-sent events: the durable ones with
// their number as id, ephemeral ones without.
type stream struct {
	*handler
	w     http.ResponseWriter
	conn  *http.ResponseController
	query EventQuery
}

// serveStream streams until the client goes. An error comes before the first byte.
func (h *handler) serveStream(c *call, q EventQuery) error {
	ctx := c.r.Context()
	if err := h.watchable(ctx, q); err != nil {
		return err
	}
	s := &stream{handler: h, w: c.w, conn: http.NewResponseController(c.w), query: q}
	// Subscribed before the log is read, so that no frame is missed in between.
	ephemeral := h.Hub.Subscribe(q.Owner)
	defer ephemeral.Close()
	c.w.Header().Set("Content-Type", "text/event-stream")
	c.w.Header().Set("Cache-Control", "no-store")
	c.w.Header().Set("X-Accel-Buffering", "no")
	c.w.WriteHeader(http.StatusOK)
	err := s.frame("retry: 1000\n\n")
	for err == nil {
		changed, stop := h.changed(q.Owner)
		var more bool
		if more, err = s.durable(ctx); err == nil && !more {
			err = s.wait(ctx, changed, ephemeral)
		}
		stop()
	}
	if !errors.Is(err, errStreamOver) && ctx.Err() == nil {
		h.Log.ErrorContext(ctx, "stream ended", "conversation", q.Owner.Conversation, "error", err)
	}
	return nil
}

// durable sends what is new in the log, and reports whether there may be more.
func (s *stream) durable(ctx context.Context) (more bool, err error) {
	page, more, err := s.scan(ctx, s.query)
	if err != nil {
		return false, err
	}
	for _, e := range page.Events {
		if err := s.event(e); err != nil {
			return false, err
		}
	}
	s.query.After = page.Next
	return more, nil
}

// wait sends ephemeral events until the log has changed.
func (s *stream) wait(ctx context.Context, changed <-chan struct{}, ephemeral *Subscription) error {
	alive := time.NewTicker(aliveEvery)
	defer alive.Stop()
	for {
		select {
		case <-changed:
			return nil
		case <-ctx.Done():
			return errStreamOver
		case e, ok := <-ephemeral.C:
			if !ok {
				return errStreamOver
			}
			if err := s.show(e); err != nil {
				return err
			}
		case <-alive.C:
			if err := s.frame(": alive\n\n"); err != nil {
				return err
			}
		}
	}
}

func (s *stream) show(e ledger.Event) error {
	if !s.query.wants(e) {
		return nil
	}
	e.Seq = 0
	return s.event(viewEvent(e))
}

func (s *stream) event(e api.Event) error {
	body, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("encoding event %d: %w", e.Seq, err)
	}
	id := ""
	if e.Seq > 0 {
		id = "id: " + strconv.FormatInt(e.Seq, 10) + "\n"
	}
	// JSON has no line breaks, so one data line carries it.
	return s.frame(id + "event: " + oneLine(e.Type) + "\ndata: " + string(body) + "\n\n")
}

// oneLine keeps an agent's own event type from ending its line.
func oneLine(text string) string {
	if subagent.CheckID(text) != nil {
		return "message"
	}
	return text
}

// frame writes and flushes. A client that does not accept it in time is dropped.
func (s *stream) frame(text string) error {
	// Not every writer has deadlines; then its server has them.
	_ = s.conn.SetWriteDeadline(time.Now().Add(writeWithin))
	if _, err := s.w.Write([]byte(text)); err != nil {
		return errStreamOver
	}
	if err := s.conn.Flush(); err != nil {
		return errStreamOver
	}
	return nil
}
