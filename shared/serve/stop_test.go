package serve_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/dispatch"
	"github.com/errand-dev/errand/shared/serve"
	"github.com/errand-dev/errand/shared/subagent"
)

func TestATaskThatIgnoresTheStopDelaysItOnlyForAWhileAndIsTakenOver(t *testing.T) {
	dir := t.TempDir()
	begun, released := make(chan int64, 2), make(chan struct{})
	agents := agent.NewRegistry()
	err := agents.AddTask("deaf", func(_ context.Context, r *agent.Run) (any, error) {
		begun <- r.Attempt
		if r.Attempt == 1 {
			<-released
		}
		return "done", nil
	})
	if err != nil {
		t.Fatal(err)
	}
	process := func() (s *serve.Stack, stop func()) {
		s, err := serve.Open(t.Context(), serve.Options{Dir: dir, Agents: agents, Patience: 50 * time.Millisecond,
			Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() { defer close(done); s.Run(ctx) }()
		return s, func() {
			cancel()
			select {
			case <-done:
			case <-time.After(10 * time.Second):
				t.Error("it does not stop")
				close(released)
				<-done
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	s, stop := process()
	_, _, err = s.Service.Dispatcher.Start(t.Context(), dispatch.Request{Owner: owner, Run: "r", Agent: "deaf", Notice: subagent.Notice{Message: true}})
	if err != nil {
		t.Fatal(err)
	}
	<-begun
	stop()
	if t.Failed() {
		return
	}
	s, stop = process()
	defer stop()
	if n := <-begun; n != 2 {
		t.Errorf("it began as attempt %d", n)
	}
	close(released)
	if m := transcript(t, s, 1); m[0].ID != "detached-finish:r:completed" {
		t.Errorf("it was delivered as %+v", m)
	}
}
