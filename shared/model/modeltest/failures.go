package modeltest

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/errand-dev/errand/shared/model"
)

func (v Vendor) testCuts(t *testing.T) {
	for cut, want := range map[Cut]model.Kind{Torn: model.Broken, Short: model.Broken, Overloaded: model.Overloaded} {
		t.Run(string(cut), func(t *testing.T) {
			m, _ := v.playing(t, Answer{Text: []string{"The capital ", "is "}, Stop: model.StopEnd, Cut: cut})
			var heard strings.Builder
			res, err := v.ask(t, m, func(s string) { heard.WriteString(s) })
			if kindOf(err) != want || res.Text != "" {
				t.Errorf("got %+v, %v; want %s", res, err, want)
			}
			if heard.String() != "The capital is " {
				t.Errorf("heard %q before the cut", &heard)
			}
		})
	}
}

func (v Vendor) testKinds(t *testing.T) {
	retryable := map[model.Kind]bool{
		model.Overloaded: true, model.RateLimited: true, model.Timeout: true,
		model.Invalid: false, model.TooLong: false, model.Unauthorized: false, model.NotFound: false,
	}
	for kind, passes := range retryable {
		t.Run(string(kind), func(t *testing.T) {
			bothWays(t, func(t *testing.T, stream func(string), _ *strings.Builder) {
				server := Serve(t, func(w http.ResponseWriter, _ Request) { v.Refuse(w, kind) })
				_, err := v.ask(t, v.New(t, server.URL, time.Minute), stream)
				if kindOf(err) != kind {
					t.Errorf("got %v, want %s", err, kind)
				}
				if after, ok := model.Retryable(err); ok != passes || after != 0 {
					t.Errorf("retryable: %t, %v", ok, after)
				}
				if err != nil && strings.Contains(err.Error(), "capital of France") {
					t.Errorf("the error repeats the request: %v", err)
				}
			})
		})
	}
}

func (v Vendor) testRetryAfter(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"7":   7 * time.Second,
		"0.5": 500 * time.Millisecond,
		now.Add(90 * time.Second).Format(http.TimeFormat): 90 * time.Second,
		now.Add(-time.Hour).Format(http.TimeFormat):       0,
		"-1":   0,
		"soon": 0,
		"1e30": 24 * time.Hour,
	} {
		t.Run(value, func(t *testing.T) {
			server := Serve(t, func(w http.ResponseWriter, _ Request) {
				w.Header().Set("Date", now.Format(http.TimeFormat))
				w.Header().Set("Retry-After", value)
				v.Refuse(w, model.RateLimited)
			})
			_, err := v.ask(t, v.New(t, server.URL, time.Minute), nil)
			if after, ok := model.Retryable(err); !ok || after != want {
				t.Errorf("try again after %v (%t), want %v: %v", after, ok, want, err)
			}
		})
	}
}

func (v Vendor) testShouldRetry(t *testing.T) {
	for value, kind := range map[string]model.Kind{"false": model.RateLimited, "true": model.Invalid} {
		server := Serve(t, func(w http.ResponseWriter, _ Request) {
			w.Header().Set("X-Should-Retry", value)
			v.Refuse(w, kind)
		})
		_, err := v.ask(t, v.New(t, server.URL, time.Minute), nil)
		if _, ok := model.Retryable(err); ok != (value == "true") {
			t.Errorf("x-should-retry %s: got %v", value, err)
		}
	}
}

func (v Vendor) testEnded(t *testing.T) {
	check := func(t *testing.T, err, cause error) {
		t.Helper()
		if kindOf(err) != model.Ended || !errors.Is(err, cause) {
			t.Errorf("got %v, want the cause of the end", err)
		}
	}
	t.Run("before it begins", func(t *testing.T) {
		m, _ := v.playing(t, Answer{Text: []string{"late"}, Stop: model.StopEnd})
		ctx, cancel, cause := cancelled(t)
		cancel(cause)
		_, err := m.Generate(ctx, "key-1", question(), nil)
		check(t, err, cause)
	})
	t.Run("while it waits", func(t *testing.T) {
		ctx, cancel, cause := cancelled(t)
		server := v.hanging(t, func() { cancel(cause) })
		_, err := v.New(t, server.URL, time.Minute).Generate(ctx, "key-1", question(), nil)
		check(t, err, cause)
	})
	t.Run("while it streams", func(t *testing.T) {
		ctx, cancel, cause := cancelled(t)
		m, _ := v.playing(t, Answer{Text: []string{"The capital ", "is "}, Stop: model.StopEnd, Cut: Stalled})
		_, err := m.Generate(ctx, "key-1", question(), func(string) { cancel(cause) })
		check(t, err, cause)
	})
	t.Run("by its deadline", func(t *testing.T) {
		server := v.hanging(t, func() {})
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_, err := v.New(t, server.URL, time.Minute).Generate(ctx, "key-1", question(), nil)
		check(t, err, context.DeadlineExceeded)
	})
}

// hanging is a vendor that never answers. asked is called with each request.
func (v Vendor) hanging(t *testing.T, asked func()) *Server {
	done := make(chan struct{})
	server := Serve(t, func(http.ResponseWriter, Request) {
		asked()
		select {
		case <-done:
		case <-time.After(within):
			t.Error("the call was not given up")
		}
	})
	t.Cleanup(func() { close(done) }) // before the server is closed, which waits for its handlers
	return server
}

func (v Vendor) testTimeout(t *testing.T) {
	bothWays(t, func(t *testing.T, stream func(string), _ *strings.Builder) {
		server := v.hanging(t, func() {})
		_, err := v.ask(t, v.New(t, server.URL, 20*time.Millisecond), stream)
		if kindOf(err) != model.Timeout {
			t.Errorf("got %v", err)
		}
	})
}

func (v Vendor) testStall(t *testing.T) {
	a := Answer{Text: []string{"The capital ", "is "}, Stop: model.StopEnd, Cut: Stalled}
	server := Serve(t, func(w http.ResponseWriter, r Request) { v.Answer(w, r, a) })
	_, err := v.ask(t, v.New(t, server.URL, 50*time.Millisecond), func(string) {})
	if kindOf(err) != model.Timeout {
		t.Errorf("got %v", err)
	}
}

func (v Vendor) testRefusedConnection(t *testing.T) {
	server := Serve(t, func(w http.ResponseWriter, _ Request) { panic(http.ErrAbortHandler) })
	_, err := v.ask(t, v.New(t, server.URL, time.Minute), nil)
	if kindOf(err) != model.Broken {
		t.Errorf("got %v", err)
	}
}

func (v Vendor) testNoRetries(t *testing.T) {
	server := Serve(t, func(w http.ResponseWriter, _ Request) { v.Refuse(w, model.Overloaded) })
	if _, err := v.ask(t, v.New(t, server.URL, time.Minute), nil); kindOf(err) != model.Overloaded {
		t.Errorf("got %v", err)
	}
	if n := len(server.Asked()); n != 1 {
		t.Errorf("the SDK sent %d requests; the harness counts on one", n)
	}
}
