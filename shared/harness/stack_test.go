package harness_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/dispatch"
	"github.com/errand-dev/errand/shared/harness"
	"github.com/errand-dev/errand/shared/ingress"
	"github.com/errand-dev/errand/shared/serve"
	"github.com/errand-dev/errand/shared/subagent"
)

var owner = subagent.Owner{Tenant: "default", Conversation: "c1"}

// stack is the whole of Errand over one folder.
type stack struct {
	*serve.Stack
	t    *testing.T
	stop func()
}

func start(t *testing.T, dir string, agents ...harness.Agent) *stack {
	t.Helper()
	r := agent.NewRegistry()
	if err := harness.Register(r, agents...); err != nil {
		t.Fatal(err)
	}
	s, err := serve.Open(t.Context(), serve.Options{Dir: dir, Agents: r, Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); s.Run(ctx) }()
	var stopped atomic.Bool
	stop := func() {
		if stopped.Swap(true) {
			return
		}
		cancel()
		<-done
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(stop)
	return &stack{s, t, stop}
}

func (s *stack) say(text string) {
	s.t.Helper()
	if _, _, err := s.Service.Accept(s.t.Context(), ingress.TurnRequest{Owner: owner, Message: text, Key: text}); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stack) dispatch(run, name, input string) {
	s.t.Helper()
	_, _, err := s.Service.Dispatcher.Start(s.t.Context(), dispatch.Request{Owner: owner, Run: run, Agent: name, Input: json.RawMessage(input)})
	if err != nil {
		s.t.Fatal(err)
	}
}

// until waits until the conversation's log has grown to where ready is true.
func (s *stack) until(what string, ready func() bool) {
	s.t.Helper()
	deadline := time.After(time.Minute)
	for {
		changed, stop, _ := s.Ledger.WatchEvents(owner)
		if ready() {
			stop()
			return
		}
		select {
		case <-changed:
		case <-deadline:
			s.t.Fatalf("waited a minute for %s", what)
		}
		stop()
	}
}

func (s *stack) ended(run string) subagent.Run {
	s.t.Helper()
	var row subagent.Run
	s.until("the end of run "+run, func() bool {
		var err error
		if row, err = s.Ledger.Run(s.t.Context(), owner, run); err != nil {
			s.t.Fatal(err)
		}
		return row.Status.Hard()
	})
	return row
}

// transcript waits for n messages and returns who said what.
func (s *stack) transcript(n int) []string {
	s.t.Helper()
	var said []string
	s.until("the transcript", func() bool {
		messages, err := s.Ledger.Messages(s.t.Context(), owner, 0, 100)
		if err != nil {
			s.t.Fatal(err)
		}
		said = nil
		for _, m := range messages {
			text, err := s.Ledger.LoadValue(s.t.Context(), owner, m.Text)
			if err != nil {
				s.t.Fatal(err)
			}
			said = append(said, m.Role+": "+text)
		}
		return len(said) >= n
	})
	return said
}

func TestAConversationSendsWorkOffHearsOfItsEndAndRemembers(t *testing.T) {
	talk := script(t, `when what did I
You asked for research.
when has completed: (.*)
The researcher says: {{1}}
when research
> call background_researcher {"task":"rivers"}
---
On its way.`)
	work := script(t, "when rivers\nRivers are long.")
	s := start(t, t.TempDir(),
		harness.Agent{Name: "assistant", Model: talk, Subagents: []harness.Subagent{{Name: "researcher"}}},
		harness.Agent{Name: "researcher", Model: work})
	s.say("Please research rivers.")
	got := s.transcript(4)
	got[2], _, _ = strings.Cut(got[2], " (run")
	want := []string{"user: Please research rivers.", "assistant: On its way.", `user: The background task "researcher"`, "assistant: The researcher says: Rivers are long."}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	s.say("What did I ask for?")
	if got := s.transcript(6)[5]; got != "assistant: You asked for research." {
		t.Error(got)
	}
	contains(t, "the model read", words(talk.last()), "assistant: The researcher says: Rivers are long.\nuser: What did I ask for?")
	contains(t, "the model read", words(talk.last()), "[Not from the user, but from detached-agent-tool] The background task")
}

func TestAResultTooLongForAMessageIsReadWhole(t *testing.T) {
	long := strings.Repeat("Rivers are long. ", 30)
	talk := script(t, `when \(run (\w+)\) has completed
> call manage_work {"action":"inspect","id":"{{1}}"}
---
{{result}}`)
	s := start(t, t.TempDir(), harness.Agent{Name: "assistant", Model: talk}, harness.Agent{Name: "researcher", Model: script(t, "when\n"+long)})
	_, _, err := s.Service.Dispatcher.Start(t.Context(), dispatch.Request{Owner: owner, Run: "r1", Agent: "researcher",
		Input: json.RawMessage(`"rivers"`), Notice: subagent.Notice{Message: true}})
	if err != nil {
		t.Fatal(err)
	}
	got := s.transcript(2)
	if strings.Contains(got[0], strings.TrimSpace(long)) {
		t.Error("the message has it all: this test shows nothing")
	}
	contains(t, "the model was shown", got[1], strings.TrimSpace(long))
}

func TestWhatASubagentHasDoneIsReadEventByEvent(t *testing.T) {
	talk := script(t, `when \(run (\w+)\) has completed
> call read_subagent {"id":"{{1}}"}
> call read_subagent {"id":"{{1}}","cursor":1000000}
> call read_subagent {"id":"r9"}
---
Read.`)
	s := start(t, t.TempDir(), harness.Agent{Name: "assistant", Model: talk}, harness.Agent{Name: "researcher", Model: script(t, "when\nDone.")})
	_, _, err := s.Service.Dispatcher.Start(t.Context(), dispatch.Request{Owner: owner, Run: "r1", Agent: "researcher",
		Input: json.RawMessage(`"rivers"`), Notice: subagent.Notice{Message: true}})
	if err != nil {
		t.Fatal(err)
	}
	s.transcript(2)
	results := talk.lastResults()
	contains(t, "events", results[0].Text, `"type":"run.started"`)
	contains(t, "events", results[0].Text, `"type":"run.ended"`)
	if results[1].Text != `{"events":[],"cursor":1000000,"more":false}` {
		t.Errorf("behind the end: %s", results[1].Text)
	}
	if !results[2].Failed || results[2].Text != "no such run: r9" {
		t.Errorf("unknown run: %+v", results[2])
	}
}

func TestALeadWaitsForItsHelpersWithoutAProcess(t *testing.T) {
	lead := script(t, "when write\n> call ask_helper {\"task\":\"red\"}\n> call ask_helper {\"task\":\"blue\"}\n---\nBoth: {{result}}")
	helper := script(t, "when (red|blue)\n{{1}} is a colour.")
	s := start(t, t.TempDir(),
		harness.Agent{Name: "lead", Model: lead, Subagents: []harness.Subagent{{Name: "helper"}}},
		harness.Agent{Name: "helper", Model: helper})
	s.dispatch("r1", "lead", `"write"`)
	if row := s.ended("r1"); row.Summary != "Both: red is a colour.\nblue is a colour." {
		t.Errorf("run: %s %q %s", row.Status, row.Summary, row.Problem)
	}
	if len(lead.requests) != 2 || len(helper.requests) != 2 {
		t.Errorf("%d and %d model calls, want 2 and 2", len(lead.requests), len(helper.requests))
	}
}

func TestAFollowUpReachesARunThatWorks(t *testing.T) {
	var s *stack
	tool := harness.NewTool("look", "", func(ctx context.Context, _ struct{}) (string, error) {
		return "seen", s.Service.Control.FollowUp(ctx, owner, "r1", "Look left too.")
	})
	m := script(t, "when left\nI looked left.\nwhen look\n> call look\n---\nI looked.")
	s = start(t, t.TempDir(), harness.Agent{Name: "looker", Model: m, Tools: []harness.Tool{tool}})
	s.dispatch("r1", "looker", `"look"`)
	if row := s.ended("r1"); row.Summary != "I looked left." {
		t.Errorf("run: %s %q %s", row.Status, row.Summary, row.Problem)
	}
}

func TestAfterACancelNoFurtherCallIsMade(t *testing.T) {
	var s *stack
	var stopped atomic.Bool
	tool := harness.NewTool("work", "", func(ctx context.Context, _ struct{}) (string, error) {
		if _, err := s.Service.Control.Cancel(t.Context(), owner, "r1", "enough"); err != nil {
			return "", err
		}
		<-ctx.Done()
		stopped.Store(true)
		return "worked", nil
	})
	m := script(t, "when\n> call work\n---\nnever said")
	s = start(t, t.TempDir(), harness.Agent{Name: "worker", Model: m, Tools: []harness.Tool{tool}})
	s.dispatch("r1", "worker", `"go"`)
	row := s.ended("r1")
	s.stop() // waits for what is under execution
	if row.Status != subagent.Aborted || !stopped.Load() || len(m.requests) != 1 {
		t.Errorf("run is %s, tool stopped: %v, %d model calls", row.Status, stopped.Load(), len(m.requests))
	}
}

func TestACallThatEndsWhileTheProcessStopsIsNotPaidForTwice(t *testing.T) {
	dir := t.TempDir()
	var calls atomic.Int64
	entered, stopping := make(chan struct{}), make(chan struct{})
	tool := harness.NewTool("buy", "", func(ctx context.Context, _ struct{}) (string, error) {
		if calls.Add(1) == 1 {
			close(entered)
			<-ctx.Done() // the process stops; the purchase has been made
		}
		return "bought", nil
	})
	m := script(t, "when\n> call buy\n---\n{{result}}")
	buyer := harness.Agent{Name: "buyer", Model: m, Tools: []harness.Tool{tool}}
	s := start(t, dir, buyer)
	s.dispatch("r1", "buyer", `"go"`)
	<-entered
	go func() { defer close(stopping); s.stop() }()
	<-stopping
	if row := start(t, dir, buyer).ended("r1"); row.Summary != "bought" || row.Exec.Epoch != 2 {
		t.Errorf("run: %s %q %s, attempt %d", row.Status, row.Summary, row.Problem, row.Exec.Epoch)
	}
	if calls.Load() != 1 || len(m.requests) != 2 {
		t.Errorf("bought %d times, %d model calls", calls.Load(), len(m.requests))
	}
}
