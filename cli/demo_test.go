package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/ingress"
	"github.com/errand-dev/errand/shared/serve"
	"github.com/errand-dev/errand/shared/subagent"
)

// demoWorker makes a child of this test binary, which runs TestDemoWorker.
func demoWorker(ctx context.Context, args []string) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	child := exec.CommandContext(ctx, self, append([]string{"-test.run=^TestDemoWorker$", "--"}, args[1:]...)...)
	child.Env = append(os.Environ(), workerEnv+"=1")
	return child, nil
}

const workerEnv = "ERRAND_TEST_DEMO_WORKER"

// TestDemoWorker is no test: it is the worker process that another test kills.
func TestDemoWorker(t *testing.T) {
	if os.Getenv(workerEnv) == "" {
		t.Skip("this is the worker of another test")
	}
	for i, arg := range os.Args {
		if arg == "--" {
			if err := demo(t.Context(), os.Stdout, os.Args[i+1:]...); err != nil {
				os.Stderr.WriteString(err.Error())
				os.Exit(exitFailed)
			}
			os.Exit(exitOK)
		}
	}
}

func demo(ctx context.Context, out io.Writer, args ...string) error {
	cmd := newDemoOf(demoWorker)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetFlagErrorFunc(newRoot("test").FlagErrorFunc())
	cmd.SetArgs(args)
	cmd.SetOut(out)
	cmd.SetErr(io.Discard)
	return cmd.ExecuteContext(ctx)
}

// decoded reads the lines of --json.
func decoded(t *testing.T, out []byte) []demoEvent {
	t.Helper()
	var events []demoEvent
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var e demoEvent
		if err := d.Decode(&e); errors.Is(err, io.EOF) {
			return events
		} else if err != nil {
			t.Fatalf("the output is no JSON: %v\n%s", err, out)
		}
		events = append(events, e)
	}
}

// reportOf returns the report, which is the last event, and checks that the transcript
// was told in order and without repetition.
func reportOf(t *testing.T, events []demoEvent) *demoReport {
	t.Helper()
	var seq int64
	for _, e := range events {
		if e.Message == nil {
			continue
		}
		if e.Message.Seq != seq+1 {
			t.Errorf("message %d is told after message %d", e.Message.Seq, seq)
		}
		seq = e.Message.Seq
	}
	last := events[len(events)-1]
	if last.Report == nil {
		t.Fatalf("the last event is %+v", last)
	}
	return last.Report
}

func TestTheDemoShowsTheWholeConversationAsText(t *testing.T) {
	var out bytes.Buffer
	if err := demo(t.Context(), &out, "--plain", "--rows", "20000", "--data", t.TempDir()); err != nil {
		t.Fatal(err)
	}
	rest := out.String()
	if strings.Contains(rest, "\x1b") {
		t.Error("there are escape sequences in plain output")
	}
	for _, want := range []string{
		`^Data folder: \S+\n`,
		`\d+\.\d s  you         import customers\.csv\n`,
		`\d+\.\d s  agent       I have sent the importer off with customers\.csv \(run \w+\)\. It has 11 columns: id INTEGER, code TEXT, .*; I go on importing\. .*\[\d+ ms\]\n`,
		`you         (how is it going\?|import airports\.csv)\n`, // whatever a busy machine leaves time for
		`What happened\n  The importer was sent off and its user answered in \d+ ms(; for \d+ ms of that the turn waited for the columns and held no process)?\.\n`,
		`The import of customers\.csv was done after [\d.]+ s; the conversation was told \d+ ms later, once\.\n`,
		`The import of airports\.csv was done after [\d.]+ s; the conversation was told \d+ ms later, once\.\n`,
		`The first of 20,000 rows of customers\n  id  code   name .*\n  1 +02367 .*\n  2 .*\n  3 .*\n\n`,
		`The first of 3,376 rows of airports\n  iata  name .*\n  00M   Thigpen +Bay Springs +MS `,
		`Try next\n(.*\n)*  curl http://127\.0\.0\.1:8080/v1/conversations/demo/messages\n$`,
	} {
		at := regexp.MustCompile(want).FindStringIndex(rest)
		if at == nil {
			t.Fatalf("there is no %s in the rest of the output:\n%s", want, out.String())
		}
		rest = rest[at[1]:]
	}
	for _, want := range []string{
		`agent       I have sent the importer off with customers.csv .* It has 11 columns: `,
		`RESULT      Imported 20,000 rows into the table customers of `,
		`RESULT      Imported 3,376 rows into the table airports of `,
	} {
		if n := len(regexp.MustCompile(want).FindAllString(out.String(), -1)); n != 1 {
			t.Errorf("%s is there %d times", want, n)
		}
	}
}

func TestTheDemoTellsEventsAsJSON(t *testing.T) {
	var out bytes.Buffer
	if err := demo(t.Context(), &out, "--json", "--rows", strconv.Itoa(rows(30_000)), "--data", t.TempDir()); err != nil {
		t.Fatal(err)
	}
	events := decoded(t, out.Bytes())
	report := reportOf(t, events)
	if events[0].Type != eventStarted || len(report.Imports) != 2 {
		t.Fatalf("begins with %+v, ends with %+v", events[0], report)
	}
	main := report.Imports[0]
	if main.Rows != int64(rows(30_000)) || main.Status != subagent.Completed || main.Told != 1 || main.Executions != 1 || len(main.Sample) != 4 {
		t.Errorf("the import of customers is told as %+v", main)
	}
	if report.WaitedMS < 0 || report.WaitedMS > report.DispatchMS {
		t.Errorf("the turn of %d ms waited for %d ms", report.DispatchMS, report.WaitedMS)
	}
	result, progress := 0, 0
	for i, e := range events {
		switch {
		case e.Progress != nil:
			progress++
		case e.Message == nil || e.Message.Run != main.Run:
		case e.Message.Role == "user":
			result = i
		}
	}
	if result == 0 || progress == 0 {
		t.Errorf("the result is event %d, and there are %d reports of progress", result, progress)
	}
}

func TestTheReportTellsHowLongATurnHeldNoProcess(t *testing.T) {
	agents := agent.NewRegistry()
	err := agents.AddChat("napper", func(ctx context.Context, turn *agent.Turn) (string, error) {
		if err := turn.Sleep(ctx, "one", 30*time.Millisecond); err != nil {
			return "", err
		}
		return "awake", turn.Sleep(ctx, "two", 40*time.Millisecond)
	})
	if err != nil {
		t.Fatal(err)
	}
	p := play{owner: subagent.Owner{Tenant: "default", Conversation: "demo"}}
	// A tick ends the sleep of a turn.
	if p.stack, err = serve.Open(t.Context(), serve.Options{Dir: t.TempDir(), Agents: agents, Cadence: subagent.Cadence{20 * time.Millisecond}}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); p.stack.Run(ctx) }()
	defer func() { stop(); <-done; p.stack.Close() }()
	turn, _, err := p.stack.Service.Accept(ctx, ingress.TurnRequest{Owner: p.owner, Message: "nap"})
	for err == nil && !turn.Done() {
		changed, unwatch, _ := p.stack.Ledger.WatchEvents(p.owner)
		if turn, err = p.stack.Ledger.Turn(ctx, p.owner, turn.ID); err == nil && !turn.Done() {
			<-changed
		}
		unwatch()
	}
	if err != nil {
		t.Fatal(err)
	}
	ms, err := p.waited(ctx, turn.ID)
	if took := int64(turn.EndedAt - turn.AcceptedAt); err != nil || ms < 60 || ms > took {
		t.Errorf("it waited for %d of %d ms, %v", ms, took, err)
	}
}

func TestTheDemoWithAFileThatCannotBeImportedFailsAfterItWasTold(t *testing.T) {
	broken := filepath.Join(t.TempDir(), "broken.csv")
	if err := os.WriteFile(broken, []byte("a,b\n1,\"never closed\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, path := range map[string]string{"broken": broken, "folder": t.TempDir(), "missing": broken + ".no"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			err := demo(t.Context(), &out, "--plain", "--data", t.TempDir(), path)
			if err == nil || errors.As(err, new(usageError)) {
				t.Errorf("the error is %v", err)
			}
			if n := strings.Count(out.String(), "RESULT      The import failed: "); n != 1 {
				t.Errorf("the failure was told %d times:\n%s", n, out.String())
			}
			if _, after, _ := strings.Cut(out.String(), "RESULT"); strings.Contains(after, "  you  ") {
				t.Errorf("its user asks about an import that has ended:\n%s", out.String())
			}
		})
	}
}

func TestTheDemoRefusesBadUsage(t *testing.T) {
	for _, args := range [][]string{{"a.csv", "b.csv"}, {"--rows", "0"}, {"--rows", "x"}, {"--plain", "--json"}, {"--nope"}, {"--data", ""}} {
		var out bytes.Buffer
		if err := demo(t.Context(), &out, args...); !errors.As(err, new(usageError)) || out.Len() > 0 {
			t.Errorf("%q: error %v, output %q", args, err, out.String())
		}
	}
}

func TestTheDemoSurvivesTheDeathOfItsWorker(t *testing.T) {
	// Enough rows that the worker is still at it when it is killed, also on a fast machine.
	var out bytes.Buffer
	if err := demo(t.Context(), &out, "--kill", "--json", "--rows", strconv.Itoa(rows(120_000)), "--data", t.TempDir()); err != nil {
		t.Fatal(err)
	}
	events := decoded(t, out.Bytes())
	killed := 0
	for _, e := range events {
		if e.Type == eventKilled {
			killed++
		}
	}
	main := reportOf(t, events).Imports[0]
	if killed != 1 || main.Rows != int64(rows(120_000)) || main.Executions < 2 || main.Told != 1 {
		t.Errorf("killed %d times; the import is told as %+v", killed, main)
	}
}

// cancelAt cancels when the text is written.
type cancelAt struct {
	bytes.Buffer
	text   string
	cancel context.CancelFunc
}

func (c *cancelAt) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte(c.text)) {
		c.cancel()
	}
	return c.Buffer.Write(b)
}

func TestADemoThatWasStoppedGoesOnInItsFolder(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	first := &cancelAt{text: `"type":"progress"`, cancel: cancel}
	if err := demo(ctx, first, "--json", "--rows", strconv.Itoa(rows(40_000)), "--data", dir); err == nil {
		t.Fatal("a demo that was stopped ended without an error")
	}
	events := decoded(t, first.Bytes())
	if last := events[len(events)-1]; last.Type != eventStopped || last.Data != dir {
		t.Errorf("the last event is %+v", last)
	}
	var out bytes.Buffer
	if err := demo(t.Context(), &out, "--json", "--data", dir); err != nil {
		t.Fatal(err)
	}
	main := reportOf(t, decoded(t, out.Bytes())).Imports[0]
	if main.Rows != int64(rows(40_000)) || main.Told != 1 || main.Executions < 2 {
		t.Errorf("the import is told as %+v", main)
	}
}

// rows is n, or under the race detector an eighth of it: as much work in the same time.
func rows(n int) int {
	if underRace {
		return n / 8
	}
	return n
}
