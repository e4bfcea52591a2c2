package serve_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"testing"
	"time"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/dispatch"
	"github.com/errand-dev/errand/shared/ingress"
	"github.com/errand-dev/errand/shared/lab"
	"github.com/errand-dev/errand/shared/ledger"
	"github.com/errand-dev/errand/shared/serve"
	"github.com/errand-dev/errand/shared/subagent"
)

var owner = subagent.Owner{Tenant: "default", Conversation: "c1"}

func start(t *testing.T, dir string) *serve.Stack {
	t.Helper()
	agents := agent.NewRegistry()
	if err := lab.Register(agents); err != nil {
		t.Fatal(err)
	}
	s, err := serve.Open(t.Context(), serve.Options{Dir: dir, Agents: agents, Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-done
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// transcript waits until the conversation has n messages.
func transcript(t *testing.T, s *serve.Stack, n int) []ledger.Message {
	t.Helper()
	for {
		changed, stop, _ := s.Ledger.WatchEvents(owner)
		messages, err := s.Ledger.Messages(t.Context(), owner, 0, 100)
		if err != nil {
			t.Fatal(err)
		}
		if len(messages) >= n {
			stop()
			return messages
		}
		select {
		case <-changed:
		case <-time.After(20 * time.Second):
			t.Fatalf("there are %d messages after 20 s, want %d", len(messages), n)
		}
		stop()
	}
}

func TestADetachedRunComesBackAsOneNewTurn(t *testing.T) {
	s := start(t, t.TempDir())
	_, _, err := s.Service.Accept(t.Context(), ingress.TurnRequest{Owner: owner, Message: `dispatch lab-sleep {"ms":50,"output":"done"}`})
	if err != nil {
		t.Fatal(err)
	}
	messages := transcript(t, s, 4)
	for _, m := range messages {
		t.Log(m.Seq, m.Role, m.Source, m.Text.Inline)
	}
	if got := messages[2].Source; got != "detached-agent-tool" {
		t.Errorf("third message comes from %q", got)
	}
	b, err := s.Ledger.Backbone(t.Context(), owner)
	if err != nil || b.Armed || len(b.Open) != 0 {
		t.Errorf("backbone after the end: %+v, %v", b, err)
	}
}

func TestADispatchedRunIsDelivered(t *testing.T) {
	s := start(t, t.TempDir())
	run, known, err := s.Service.Dispatcher.Start(t.Context(), dispatch.Request{Owner: owner, Run: "r1", Agent: "lab-echo",
		Input: json.RawMessage(`{"text":"hi"}`), Notice: subagent.Notice{Message: true}})
	if err != nil || known {
		t.Fatal(run, known, err)
	}
	transcript(t, s, 2)
	got, err := s.Ledger.Run(t.Context(), owner, "r1")
	if err != nil || got.Status != subagent.Completed || got.Finish.State != subagent.Delivered {
		t.Errorf("run: %+v %v", got, err)
	}
}

func TestOpenRefusesWhatCannotWork(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]serve.Options{
		"a pause longer than a message can wait": {Cadence: subagent.Cadence{time.Second, time.Hour}},
		"a cadence that stands still":            {Cadence: subagent.Cadence{0}},
		"a lease too short to renew":             {Lease: time.Millisecond},
		"a cap over what a backbone holds":       {MaxConcurrentRuns: subagent.MaxOpen + 1},
	} {
		o.Dir = t.TempDir()
		if s, err := serve.Open(t.Context(), o); err == nil {
			t.Errorf("%s was accepted", name)
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}
