package modeltest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/errand-dev/errand/shared/model"
)

// Server answers an adapter and remembers what it was asked.
type Server struct {
	URL string

	mu    sync.Mutex
	asked []Request
}

// Serve plays one handler for every request until the test ends.
func Serve(t *testing.T, answer func(w http.ResponseWriter, r Request)) *Server {
	t.Helper()
	s := &Server{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Errorf("reading the request: %v", err)
		}
		asked := Request{Header: r.Header, Path: r.Method + " " + r.URL.Path, Body: body, gone: r.Context().Done()}
		s.mu.Lock()
		s.asked = append(s.asked, asked)
		s.mu.Unlock()
		answer(w, asked)
	}))
	t.Cleanup(server.Close)
	s.URL = server.URL
	return s
}

// Asked returns the requests so far.
func (s *Server) Asked() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.asked...)
}

// Tear breaks the connection of a response that has begun.
func Tear(w http.ResponseWriter) {
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler) // net/http's way of saying it
}

// Stall leaves a response that has begun without its rest until the caller hangs up.
func Stall(w http.ResponseWriter, r Request) {
	_ = http.NewResponseController(w).Flush()
	select {
	case <-r.gone:
	case <-time.After(within):
	}
}

// ask calls the adapter with a short question.
func (v Vendor) ask(t *testing.T, m model.Model, stream func(string)) (model.Response, error) {
	t.Helper()
	return m.Generate(t.Context(), "key-1", question(), stream)
}

func question() model.Request {
	return model.Request{Messages: []model.Message{{Role: model.User, Text: "What is the capital of France?"}}}
}

// playing returns an adapter whose vendor always answers a.
func (v Vendor) playing(t *testing.T, a Answer) (model.Model, *Server) {
	t.Helper()
	if a.Model == "" {
		a.Model = "m-1-2026"
	}
	server := Serve(t, func(w http.ResponseWriter, r Request) { v.Answer(w, r, a) })
	return v.New(t, server.URL, time.Minute), server
}

// bothWays runs a test without and with somebody who listens to the text.
func bothWays(t *testing.T, test func(t *testing.T, stream func(string), heard *strings.Builder)) {
	t.Helper()
	t.Run("whole", func(t *testing.T) { test(t, nil, &strings.Builder{}) })
	t.Run("streamed", func(t *testing.T) {
		var heard strings.Builder
		test(t, func(s string) { heard.WriteString(s) }, &heard)
	})
}

func kindOf(err error) model.Kind {
	if failed, ok := errors.AsType[*model.Error](err); ok {
		return failed.Kind
	}
	return ""
}

// cancelled is a context that has ended for a reason of its own.
func cancelled(t *testing.T) (context.Context, context.CancelCauseFunc, error) {
	ctx, cancel := context.WithCancelCause(t.Context())
	return ctx, cancel, errors.New("the run was cancelled")
}
