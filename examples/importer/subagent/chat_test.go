package importagent_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/errand-dev/errand/examples/importer"
	importagent "github.com/errand-dev/errand/examples/importer/subagent"
	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/ledger"
	"github.com/errand-dev/errand/shared/serve"
	"github.com/errand-dev/errand/shared/subagent"
)

// gated is a stack whose importer knows the columns when release is closed.
func gated(t *testing.T, chat importagent.Chat) (s *stack, release chan struct{}) {
	t.Helper()
	agents, release := agent.NewRegistry(), make(chan struct{})
	task := func(ctx context.Context, run *agent.Run) (any, error) {
		select {
		case <-release:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		columns := []importer.Column{{Name: "a", Type: importer.Text}}
		return "done", run.Milestone(ctx, importagent.SchemaReady, importagent.Schema{Source: "x.csv", Columns: columns, Count: 1})
	}
	if err := errors.Join(agents.AddTask(importagent.Name, task), agents.AddChat(importagent.ChatName, chat.Answer)); err != nil {
		t.Fatal(err)
	}
	// A tick ends the wait of a turn.
	return startWith(t, t.TempDir(), serve.Options{Agents: agents, Cadence: subagent.Cadence{20 * time.Millisecond}, Log: slog.New(slog.NewTextHandler(t.Output(), nil))}), release
}

func TestAnAnswerDoesNotWaitLongForTheColumns(t *testing.T) {
	s, release := gated(t, importagent.Chat{Patience: time.Millisecond})
	reply := s.ask("import x.csv")
	if !strings.HasPrefix(reply, "I have sent the importer off with x.csv") || !strings.HasSuffix(reply, "). Ask me anything meanwhile.") {
		t.Errorf("the reply is %q", reply)
	}
	if status := s.run().Status; !status.Live() {
		t.Errorf("the import is %s when its user is answered", status)
	}
	close(release)
	// Whoever wants the columns that came too late asks for them.
	if messages := s.told(1); len(messages) != 4 {
		t.Errorf("there are %d messages", len(messages))
	}
}

func TestTheTurnThatWaitsForTheColumnsHoldsNoProcessMeanwhile(t *testing.T) {
	s, release := gated(t, importagent.Chat{Patience: time.Hour})
	turn := s.say("import x.csv")
	steps := func() string {
		events, err := s.Ledger.Events(t.Context(), owner, 0, 1000)
		if err != nil {
			t.Fatal(err)
		}
		var of []string
		for _, e := range events {
			if e.Turn == turn.ID && strings.HasPrefix(e.Type, "turn.") && e.Type != "turn.accepted" {
				of = append(of, e.Type)
			}
		}
		return strings.Join(of, " ")
	}
	s.until("a turn that waits", func([]ledger.Message) bool { return strings.HasSuffix(steps(), "turn.waiting") })
	close(release)
	messages := s.told(1)
	if got := steps(); got != "turn.started turn.waiting turn.started turn.completed" {
		t.Errorf("the turn went: %s", got)
	}
	if got := s.text(messages[1]); !strings.HasSuffix(got, "It has 1 column: a TEXT; I go on importing. Ask me anything meanwhile.") {
		t.Errorf("the answer is %q", got)
	}
	s.run() // it has dispatched one, although it was executed twice
}
