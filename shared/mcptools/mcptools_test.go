package mcptools_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/harness"
	"github.com/errand-dev/errand/shared/mcptools"
)

func TestAModelIsToldWhatToolsReturn(t *testing.T) {
	source := connect(t, mcptools.Options{Transport: inMemory(newServer(nil))})
	for call, want := range map[string]string{
		`srv_greet {"name":"Ada"}`:     "hello Ada",
		`srv_sum_of_two {"a":1,"b":2}`: `{"sum":3}`,
		`srv_everything {}`: `one
two
[an image, image/png, 3 bytes; it cannot be shown]
[audio, audio/wav, 4 bytes; it cannot be played]
[a resource: file:///a, a, the first]
[a resource: file:///b, text/plain]
its text
[a resource: file:///c, 5 bytes; it cannot be shown]`,
	} {
		if r := told(t, source, call); r.Failed || r.Text != want {
			t.Errorf("%s: %+v", call, r)
		}
	}
}

func TestAModelIsToldOfFailuresThatAreTheToolsOrTheServers(t *testing.T) {
	source := connect(t, mcptools.Options{Transport: inMemory(newServer(nil))})
	for call, want := range map[string]string{
		`srv_fail {}`:                    "no paper",
		`srv_broken {}`:                  "out of order (code -32603)",
		`srv_sum_of_two {"a":"1","b":2}`: "Nothing was done.",
		`srv_sum_of_two {"a":1}`:         `missing properties: ["b"]`,
	} {
		if r := told(t, source, call); !r.Failed || !strings.Contains(r.Text, want) {
			t.Errorf("%s: %+v, want %s", call, r, want)
		}
	}
}

func TestPoliciesApplyToToolsByTheirNames(t *testing.T) {
	source := connect(t, mcptools.Options{Transport: inMemory(newServer(nil))})
	with := func(p harness.Policy) harness.Agent {
		return harness.Agent{Tools: toolsOf(t, source), Policies: map[string]harness.Policy{"srv_greet": p}}
	}
	const call = `srv_greet {"name":"Ada"}`
	r, l, err := run(t.Context(), t, &memory{}, with(harness.Enabled), call)
	if err != nil || r.Text != "hello Ada" || !slices.Contains(l.offered(), "srv_greet") {
		t.Errorf("enabled: %+v, %v", r, err)
	}
	r, l, err = run(t.Context(), t, &memory{}, with(harness.Disabled), call)
	if err != nil || !r.Failed || !strings.Contains(r.Text, "There is no tool") || slices.Contains(l.offered(), "srv_greet") {
		t.Errorf("disabled: %+v, %v, offered %v", r, err, l.offered())
	}
	b := &memory{}
	r, _, err = run(t.Context(), t, b, with(harness.NeedsApproval), call)
	if err != nil || !r.Failed || !strings.Contains(r.Text, "Not today.") || !slices.Contains(b.asked, "May the agent call srv_greet?") {
		t.Errorf("needs approval: %+v, %v, asked %v", r, err, b.asked)
	}
}

func TestTheServerGetsTheKeyOfTheCall(t *testing.T) {
	source := connect(t, mcptools.Options{Transport: inMemory(newServer(nil))})
	first, again := told(t, source, "srv_key"), told(t, source, "srv_key")
	if len(first.Text) != 32 || first.Text != again.Text {
		t.Errorf("keys %q and %q", first.Text, again.Text)
	}
}

func TestProgressOfACallIsThatOfItsRun(t *testing.T) {
	noted := &calls{begun: make(chan struct{})}
	for name, o := range map[string]mcptools.Options{
		"in memory": {Transport: inMemory(newServer(noted))},
		"http":      {URL: overHTTP(t, newServer(noted))},
	} {
		source := connect(t, o)
		b := &memory{progress: make(chan agent.Progress)}
		reported := make(chan agent.Progress, 1)
		go func() {
			<-b.progress // the run has begun
			reported <- <-b.progress
			noted.begun <- struct{}{}
		}()
		if _, _, err := run(t.Context(), t, b, harness.Agent{Tools: toolsOf(t, source)}, "srv_report"); err != nil {
			t.Fatal(name, err)
		}
		if p := <-reported; p.Message != "a quarter" || p.Fraction == nil || *p.Fraction != 0.25 {
			t.Errorf("%s: %+v", name, p)
		}
	}
}

func TestACancelledCallIsCancelledAtTheServer(t *testing.T) {
	noted := &calls{make(chan struct{}, 1), make(chan struct{}, 1)}
	source := connect(t, mcptools.Options{Transport: inMemory(newServer(noted))})
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() { <-noted.begun; cancel(agent.ErrCancelled) }()
	_, _, err := run(ctx, t, &memory{}, harness.Agent{Tools: toolsOf(t, source)}, "srv_slow")
	if !errors.Is(err, agent.ErrCancelled) {
		t.Errorf("got %v", err)
	}
	<-noted.cancelled // for ever, if the server does not hear of it
}

func TestACallThatTakesTooLongIsToldAndCancelled(t *testing.T) {
	noted := &calls{make(chan struct{}, 1), make(chan struct{}, 1)}
	source := connect(t, mcptools.Options{Transport: inMemory(newServer(noted)), CallTimeout: 50 * time.Millisecond})
	if r := told(t, source, "srv_slow"); !r.Failed || !strings.Contains(r.Text, "no answer within 50ms") {
		t.Errorf("got %+v", r)
	}
	<-noted.cancelled
}

func TestAListThatDoesNotComeIsNotWaitedForWithoutEnd(t *testing.T) {
	server := newServer(nil)
	server.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
			if method == "tools/list" {
				<-ctx.Done()
			}
			return next(ctx, method, r)
		}
	})
	source := connect(t, mcptools.Options{Transport: inMemory(server), CallTimeout: 50 * time.Millisecond})
	if _, err := source.Tools(t.Context()); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "listing the tools of srv") {
		t.Errorf("got %v", err)
	}
}

func TestClosingTheSourceMakesItsCallsRetryable(t *testing.T) {
	noted := &calls{make(chan struct{}, 1), make(chan struct{}, 1)}
	source := connect(t, mcptools.Options{Transport: inMemory(newServer(noted))})
	tools := toolsOf(t, source)
	go func() { <-noted.begun; source.Close() }()
	for _, when := range []string{"while it closes", "after that"} {
		if _, _, err := run(t.Context(), t, &memory{}, harness.Agent{Tools: tools}, "srv_slow"); !agent.IsRetryable(err) {
			t.Errorf("%s: %v", when, err)
		}
	}
}

func TestACommandThatDiesIsStartedAgainByTheNextCall(t *testing.T) {
	t.Setenv("AWS_SECRET_ACCESS_KEY", "hush")
	source := connect(t, mcptools.Options{Command: []string{os.Args[0]}, Env: []string{childVariable + "=1", "GIVEN=yes"}, Stderr: t.Output()})
	tools := toolsOf(t, source)
	pid := func() string {
		t.Helper()
		r, _, err := run(t.Context(), t, &memory{}, harness.Agent{Tools: tools}, `srv_getenv {"name":"GIVEN"}`)
		pid, value, _ := strings.Cut(r.Text, " ")
		if err != nil || value != "yes" {
			t.Fatalf("%+v, %v", r, err)
		}
		return pid
	}
	first := pid()
	if again := pid(); again != first {
		t.Errorf("processes %s and %s for two calls", first, again)
	}
	if r := told(t, source, `srv_getenv {"name":"AWS_SECRET_ACCESS_KEY"}`); strings.Contains(r.Text, "hush") {
		t.Error("the command sees a key of this process")
	}
	if _, _, err := run(t.Context(), t, &memory{}, harness.Agent{Tools: tools}, "srv_die"); !agent.IsRetryable(err) {
		t.Errorf("a call during which the server dies: %v", err)
	}
	if second := pid(); second == first {
		t.Error("the process that died answers")
	}
}

func overHTTP(t *testing.T, server *mcp.Server) string {
	t.Helper()
	s := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil))
	t.Cleanup(s.Close)
	return s.URL
}

func TestAServerOverHTTPMayBeRestarted(t *testing.T) {
	handler := func() http.Handler {
		server := newServer(nil)
		t.Cleanup(func() {
			for session := range server.Sessions() { // one that the restart has forgotten
				session.Close()
			}
		})
		return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)
	}
	var now atomic.Value
	set := func(h http.Handler) { now.Store(h.ServeHTTP) }
	set(handler())
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		now.Load().(func(http.ResponseWriter, *http.Request))(w, r)
	}))
	t.Cleanup(s.Close)
	source := connect(t, mcptools.Options{URL: s.URL})
	tools := toolsOf(t, source)
	greet := func() error {
		_, _, err := run(t.Context(), t, &memory{}, harness.Agent{Tools: tools}, `srv_greet {"name":"Ada"}`)
		return err
	}
	if err := greet(); err != nil {
		t.Fatal(err)
	}
	set(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }))
	if err := greet(); !agent.IsRetryable(err) {
		t.Errorf("while it is down: %v", err)
	}
	set(handler())
	err := greet()
	if agent.IsRetryable(err) { // the first call may be told that its session is gone
		err = greet()
	}
	if err != nil {
		t.Errorf("when it is back: %v", err)
	}
}

func TestTheURLOfAServerIsInNoErrorAndNoLog(t *testing.T) {
	server := newServer(nil)
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: true})
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	var log strings.Builder
	o := mcptools.Options{Name: "srv", URL: s.URL + "/hush?key=hush", Log: slog.New(slog.NewTextHandler(&log, nil))}
	source := connect(t, o)
	tools := toolsOf(t, source)
	s.Close()
	_, _, called := run(t.Context(), t, &memory{}, harness.Agent{Tools: tools}, `srv_greet {"name":"Ada"}`)
	_, listed := source.Tools(t.Context())
	_, connected := mcptools.Connect(t.Context(), o)
	for doing, err := range map[string]error{"calling": called, "listing": listed, "connecting": connected} {
		if err == nil || strings.Contains(err.Error(), "hush") || !strings.Contains(err.Error(), strings.TrimPrefix(s.URL, "http://")) {
			t.Errorf("%s: %v", doing, err)
		}
	}
	if !agent.IsRetryable(called) {
		t.Errorf("calling: %v is not retryable", called)
	}
	source.Close() // the log is written
	if strings.Contains(log.String(), "hush") {
		t.Errorf("the log: %s", &log)
	}
}

func TestAListThatChangesIsSeenByTheNextLook(t *testing.T) {
	server := newServer(nil)
	source := connect(t, mcptools.Options{Transport: inMemory(server), Allow: []string{"greet"}})
	tools := toolsOf(t, source)
	server.RemoveTools("greet")
	mcp.AddTool(server, &mcp.Tool{Name: "new"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		return said("here"), nil, nil
	})
	if _, err := source.Tools(t.Context()); err == nil || !strings.Contains(err.Error(), `"greet"`) || !strings.Contains(err.Error(), "new") {
		t.Errorf("an allowed tool that is gone: %v", err)
	}
	r, _, err := run(t.Context(), t, &memory{}, harness.Agent{Tools: tools}, `srv_greet {"name":"Ada"}`)
	if err != nil || !r.Failed || !strings.Contains(r.Text, "greet") {
		t.Errorf("calling one that is gone: %+v, %v", r, err)
	}
	all := connect(t, mcptools.Options{Transport: inMemory(server)})
	if r := told(t, all, "srv_new"); r.Text != "here" {
		t.Errorf("a new one: %+v", r)
	}
}

func names(tools []harness.Tool) (names []string) {
	for _, tool := range tools {
		names = append(names, tool.Name())
	}
	slices.Sort(names)
	return names
}

func TestOnlyAllowedToolsAreTakenUnderFittedNames(t *testing.T) {
	server := newServer(nil)
	long := strings.Repeat("x", 70)
	server.AddTool(&mcp.Tool{Name: long, InputSchema: map[string]any{"type": "object"}}, nil)
	source := connect(t, mcptools.Options{Transport: inMemory(server), Allow: []string{"sum.of two", long}})
	if diff := cmp.Diff([]string{"srv_sum_of_two", "srv_" + long[:60]}, names(toolsOf(t, source))); diff != "" {
		t.Error(diff)
	}
	server.AddTool(&mcp.Tool{Name: "sum_of/two", InputSchema: map[string]any{"type": "object"}}, nil)
	source = connect(t, mcptools.Options{Transport: inMemory(server)})
	_, err := source.Tools(t.Context())
	if err == nil || !strings.Contains(err.Error(), `"sum.of two" and "sum_of/two" of srv would both be called srv_sum_of_two`) {
		t.Errorf("two of one name: %v", err)
	}
}

func TestOptionsThatCannotWorkAreRefused(t *testing.T) {
	for want, o := range map[string]mcptools.Options{
		`Options.Name is "a b"`: {Name: "a b", URL: "http://localhost/"},
		`Options.Name is ""`:    {URL: "http://localhost/"},
		"one of Command, URL":   {Name: "a"},
		"needs one of":          {Name: "a", URL: "http://localhost/", Command: []string{"x"}},
		"like https://":         {Name: "a", URL: "localhost/mcp"},
		"CallTimeout is -1s":    {Name: "a", URL: "http://localhost/", CallTimeout: -time.Second},
		"connecting to a":       {Name: "a", Command: []string{"no-such-program-anywhere"}},
	} {
		if _, err := mcptools.Connect(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) || agent.IsRetryable(err) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
