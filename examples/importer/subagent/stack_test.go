package importagent_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"github.com/errand-dev/errand/examples/importer"
	importagent "github.com/errand-dev/errand/examples/importer/subagent"
	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/dispatch"
	"github.com/errand-dev/errand/shared/ingress"
	"github.com/errand-dev/errand/shared/ledger"
	"github.com/errand-dev/errand/shared/serve"
	"github.com/errand-dev/errand/shared/subagent"
)

var owner = subagent.Owner{Tenant: "default", Conversation: "c1"}

// stack is a whole Errand over one data folder, with the importer.
type stack struct {
	*serve.Stack
	t    *testing.T
	stop func()
}

// start opens the stack. show sees every progress report; it may hold an import up.
func start(t *testing.T, dir string, o importagent.Options, show func(subagent.Owner, ledger.Event)) *stack {
	t.Helper()
	agents := agent.NewRegistry()
	if err := importagent.Register(agents, o, importagent.Chat{}); err != nil {
		t.Fatal(err)
	}
	agents.FormatCompletion = importagent.FormatCompletion
	return startWith(t, dir, serve.Options{Agents: agents, Show: show, Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
}

// startWith opens a stack over the folder.
func startWith(t *testing.T, dir string, o serve.Options) *stack {
	t.Helper()
	s := &stack{t: t}
	o.Dir = dir
	var err error
	if s.Stack, err = serve.Open(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); s.Run(ctx) }()
	closed := false
	s.stop = func() {
		if closed {
			return
		}
		closed = true
		cancel()
		<-done
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(s.stop)
	return s
}

// say sends a user's message and returns its turn.
func (s *stack) say(message string) subagent.Turn {
	s.t.Helper()
	turn, _, err := s.Service.Accept(s.t.Context(), ingress.TurnRequest{Owner: owner, Message: message})
	if err != nil {
		s.t.Fatal(err)
	}
	return turn
}

// ask sends a user's message and returns the answer.
func (s *stack) ask(message string) string {
	s.t.Helper()
	turn := s.say(message)
	reply := ""
	s.until("an answer to "+message, func(all []ledger.Message) bool {
		for _, m := range all {
			if m.ID == turn.ID+":reply" {
				reply = s.text(m)
				return true
			}
		}
		return false
	})
	return reply
}

func (s *stack) text(m ledger.Message) string {
	s.t.Helper()
	text, err := s.Ledger.LoadValue(s.t.Context(), owner, m.Text)
	if err != nil {
		s.t.Fatal(err)
	}
	return text
}

// until waits until the transcript is as wanted, and returns it.
func (s *stack) until(what string, ok func([]ledger.Message) bool) []ledger.Message {
	s.t.Helper()
	timeout := time.After(3 * time.Minute)
	for {
		changed, stop, _ := s.Ledger.WatchEvents(owner)
		messages, err := s.Ledger.Messages(s.t.Context(), owner, 0, 1000)
		if err != nil {
			s.t.Fatal(err)
		}
		if ok(messages) {
			stop()
			return messages
		}
		select {
		case <-changed:
		case <-timeout:
			for _, m := range messages {
				s.t.Log(m.Seq, m.Role, m.Source, s.text(m))
			}
			s.t.Fatal("after three minutes there is not: " + what)
		}
		stop()
	}
}

// told waits for the reaction to the end of n imports and returns the transcript.
func (s *stack) told(n int) []ledger.Message {
	s.t.Helper()
	return s.until("told the end", func(all []ledger.Message) bool {
		reactions := 0
		for i, m := range all {
			if m.Role == "assistant" && i > 0 && isEnd(all[i-1]) {
				reactions++
			}
		}
		return reactions >= n
	})
}

// isEnd reports whether m is an injected message that tells the end of a run.
func isEnd(m ledger.Message) bool { return m.Role == "user" && m.Run != "" }

// run returns the only run of the conversation.
func (s *stack) run() subagent.Run {
	s.t.Helper()
	runs, err := s.Ledger.ListRuns(s.t.Context(), owner, "", 10)
	if err != nil || len(runs) != 1 {
		s.t.Fatalf("there are %d runs, %v", len(runs), err)
	}
	return runs[0]
}

// customers writes a generated file of so many rows.
func customers(t *testing.T, rows int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "customers.csv")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := importer.Generate(file, rows, 1); err != nil {
		t.Fatal(err)
	}
	return path
}

// rowsIn counts the rows of a table.
func rowsIn(t *testing.T, database, table string) int {
	t.Helper()
	db, err := sql.Open("sqlite", database)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var n int
	if err := db.QueryRowContext(t.Context(), `SELECT count(*) FROM "`+table+`"`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// dispatch starts an import with this input, as the API would.
func (s *stack) dispatch(input string) {
	s.t.Helper()
	_, _, err := s.Service.Dispatcher.Start(s.t.Context(), dispatch.Request{Owner: owner, Run: "r1", Agent: importagent.Name,
		Input: json.RawMessage(input), Notice: subagent.Notice{Message: true}})
	if err != nil {
		s.t.Fatal(err)
	}
}
