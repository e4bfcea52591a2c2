package ingress_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/errand-dev/errand/shared/api"
	"github.com/errand-dev/errand/shared/ingress"
)

// stopping is a server whose requests find their context ended, as they do when the
// process is told to stop.
func stopping(t *testing.T) *site {
	return open(t, options{idle: true, handler: func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Stopping") != "" {
				ctx, cancel := context.WithCancel(r.Context())
				cancel()
				r = r.WithContext(ctx)
			}
			h.ServeHTTP(w, r)
		})
	}})
}

func TestATurnIsAcceptedForGoodWhileTheServerStops(t *testing.T) {
	s := stopping(t)
	turn := get[api.Turn](s, s.call("POST", "/v1/conversations/c/turns", `{"message":"a"}`, "Stopping", "yes"), 202)
	if turn.ID == "" {
		t.Error("the answer has no turn")
	}
}

func TestAReadThatTheServersStopBreaksOffIsNoSuccess(t *testing.T) {
	s := stopping(t)
	get[api.Turn](s, s.call("POST", "/v1/conversations/c/turns", `{"message":"a"}`), 202)
	a := s.call("GET", "/v1/conversations/c/messages", "", "Stopping", "yes")
	if a.status != 503 || a.header.Get("Retry-After") == "" {
		t.Errorf("answered %d %q, want 503", a.status, a.body)
	}
}

func TestALongPollEndsWithAPageWhenTheServerStops(t *testing.T) {
	s := open(t, options{idle: true})
	get[api.Turn](s, s.call("POST", "/v1/conversations/c/turns", `{"message":"a"}`), 202)
	last := s.last("c")
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	page, err := s.Service.Events(ctx, ingress.EventQuery{Owner: owner("c"), After: last, Limit: 10}, 25*time.Second)
	if err != nil || page.Next != last || page.Events == nil {
		t.Errorf("got %+v, %v", page, err)
	}
}
