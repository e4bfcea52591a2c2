package serve_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/dispatch"
	"github.com/errand-dev/errand/shared/ingress"
	"github.com/errand-dev/errand/shared/serve"
	"github.com/errand-dev/errand/shared/subagent"
)

// lockedLog collects what every goroutine logs.
type lockedLog struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lockedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// TestNothingOfWhatIsSaidOrDoneIsLogged lets one text through every place that has contents: a
// turn, its reply, a run's input, step, progress, milestone and output, a follow-up, a cancel.
func TestNothingOfWhatIsSaidOrDoneIsLogged(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const secret = "the-contents"
	synctest.Test(t, func(t *testing.T) {
		agents := agent.NewRegistry()
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		must(agents.AddTask("busy", func(ctx context.Context, r *agent.Run) (any, error) {
			_, stepped := agent.Step(ctx, r, "step", func(context.Context) (string, error) { return secret, nil })
			reported := r.Progress(ctx, agent.Progress{Message: secret, Phase: secret})
			reached := r.Milestone(ctx, "half", map[string]string{"text": secret})
			time.Sleep(time.Second)
			return secret, errors.Join(stepped, reported, reached)
		}))
		must(agents.AddTask("idle", func(ctx context.Context, _ *agent.Run) (any, error) { <-ctx.Done(); return secret, context.Cause(ctx) }))
		must(agents.AddChat("chat", func(_ context.Context, turn *agent.Turn) (string, error) { return "I heard " + turn.Message, nil }))
		log := &lockedLog{}
		s, err := serve.Open(t.Context(), serve.Options{Dir: dir, Agents: agents, Log: slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
		must(err)
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() { defer close(done); s.Run(ctx) }()

		owner := subagent.Owner{Tenant: "default", Conversation: "c"}
		_, _, err = s.Service.Accept(t.Context(), ingress.TurnRequest{Owner: owner, Message: secret, Metadata: map[string]string{"note": secret}})
		must(err)
		for run, task := range map[string]string{"r1": "busy", "r2": "idle"} {
			_, _, err := s.Service.Dispatcher.Start(t.Context(), dispatch.Request{
				Owner: owner, Run: run, Agent: task, Input: json.RawMessage(`{"text":"` + secret + `"}`),
				Notice: subagent.Notice{Message: true, Milestones: []string{"half"}, React: true}})
			must(err)
		}
		must(s.Service.Control.FollowUp(t.Context(), owner, "r2", secret))
		time.Sleep(10 * time.Second)
		_, err = s.Service.Control.Cancel(t.Context(), owner, "r2", secret)
		must(err)
		time.Sleep(time.Minute)
		cancel()
		<-done
		must(s.Close())

		said := log.text.String()
		for _, want := range []string{`"run_id":"r1"`, `"run_id":"r2"`, "accepted turn", "run cancelled"} {
			if !strings.Contains(said, want) {
				t.Errorf("the log has no %s, so this shows nothing", want)
			}
		}
		for line := range strings.Lines(said) {
			if strings.Contains(line, secret) {
				t.Errorf("logged: %s", line)
			}
		}
	})
}
