package apiclient

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/errand-dev/errand/shared/api"
)

const (
	// reconnectAfter is the pause before a broken connection is made anew, reconnects
	// how often in a row without hearing anything.
	reconnectAfter = time.Second
	reconnects     = 30
)

// Follow calls fn for each event after q.After, as they come, until fn returns an error,
// which is returned, or ctx ends. From a server that can stream, ephemeral events come
// too; they have no number. After a broken connection it goes on from the last event.
func (c *Client) Follow(ctx context.Context, q EventQuery, fn func(api.Event) error) error {
	f := follower{Client: c, query: q, fn: fn}
	for failures := 0; ; {
		known := f.query.After
		err := f.once(ctx)
		var lost *UnreachableError
		switch {
		case err == nil || f.query.After > known:
			failures = 0
		case errors.As(err, &lost):
			failures++
		}
		if err != nil && (!errors.As(err, &lost) || failures >= reconnects || !f.connected) {
			return err
		}
		if err == nil {
			continue
		}
		if err := pause(ctx, reconnectAfter); err != nil {
			return err
		}
	}
}

// follower is one Follow under way.
type follower struct {
	*Client
	query EventQuery
	fn    func(api.Event) error
	// connected: the server has answered once.
	connected bool
}

// once makes one connection and reads what comes over it: a stream, or a page.
func (f *follower) once(ctx context.Context) error {
	f.query.Wait = api.MaxWait
	r := f.query.request()
	r.accept = "text/event-stream, application/json;q=0.5"
	response, err := f.send(ctx, r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	f.connected = true
	if kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type")); kind == "text/event-stream" {
		return f.stream(ctx, response)
	}
	var page api.EventPage
	if err := json.NewDecoder(response.Body).Decode(&page); err != nil {
		return f.unreachable(ctx, err)
	}
	for _, e := range page.Events {
		if err := f.event(e); err != nil {
			return err
		}
	}
	f.query.After = max(f.query.After, page.Next)
	return nil
}

// stream reads server-sent events. Their data has everything; lines of other fields are
// passed over.
func (f *follower) stream(ctx context.Context, response *http.Response) error {
	lines := bufio.NewReader(response.Body)
	var data strings.Builder
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return f.unreachable(ctx, fmt.Errorf("the stream broke off: %w", err))
		}
		line = strings.TrimRight(line, "\r\n")
		if text, ok := strings.CutPrefix(line, "data:"); ok {
			data.WriteString(text)
		}
		if line != "" || data.Len() == 0 {
			continue
		}
		var e api.Event
		if err := json.Unmarshal([]byte(data.String()), &e); err != nil {
			return fmt.Errorf("decoding an event: %w", err)
		}
		data.Reset()
		if err := f.event(e); err != nil {
			return err
		}
	}
}

func (f *follower) event(e api.Event) error {
	if err := f.fn(e); err != nil {
		return err
	}
	f.query.After = max(f.query.After, e.Seq)
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
