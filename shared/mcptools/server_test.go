package mcptools_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/harness"
	"github.com/errand-dev/errand/shared/mcptools"
	"github.com/errand-dev/errand/shared/model"
	"github.com/errand-dev/errand/shared/model/scriptmodel"
	"github.com/errand-dev/errand/shared/subagent"
)

const childVariable = "ERRAND_TEST_MCP_SERVER"

// TestMain makes of the test binary an MCP server if a test has started it as one.
func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		server := newServer(nil)
		mcp.AddTool(server, &mcp.Tool{Name: "die"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
			os.Exit(3)
			return nil, nil, nil
		})
		mcp.AddTool(server, &mcp.Tool{Name: "getenv"}, func(_ context.Context, _ *mcp.CallToolRequest, in struct {
			Name string `json:"name"`
		}) (*mcp.CallToolResult, any, error) {
			return said(fmt.Sprintf("%d %s", os.Getpid(), os.Getenv(in.Name))), nil, nil
		})
		if err := server.Run(context.Background(), &mcp.StdioTransport{}); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func said(text string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}
}

type sum struct {
	A int `json:"a"`
	B int `json:"b"`
}

// calls is how a test follows calls that take their time.
type calls struct{ begun, cancelled chan struct{} }

// newServer makes a server of tools that each show one thing.
func newServer(noted *calls) *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: "tests", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "greet", Description: "Greets."}, func(_ context.Context, _ *mcp.CallToolRequest, in struct {
		Name string `json:"name"`
	}) (*mcp.CallToolResult, any, error) {
		return said("hello " + in.Name), nil, nil
	})
	mcp.AddTool(server, &mcp.Tool{Name: "sum.of two"}, func(_ context.Context, _ *mcp.CallToolRequest, in sum) (*mcp.CallToolResult, map[string]int, error) {
		return nil, map[string]int{"sum": in.A + in.B}, nil
	})
	mcp.AddTool(server, &mcp.Tool{Name: "everything"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{
			&mcp.TextContent{Text: "one"}, &mcp.TextContent{Text: "two"},
			&mcp.ImageContent{MIMEType: "image/png", Data: []byte("png")},
			&mcp.AudioContent{MIMEType: "audio/wav", Data: []byte("wave")},
			&mcp.ResourceLink{URI: "file:///a", Name: "a", Description: "the first"},
			&mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: "file:///b", MIMEType: "text/plain", Text: "its text"}},
			&mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: "file:///c", Blob: []byte("blob!")}},
		}}, nil, nil
	})
	mcp.AddTool(server, &mcp.Tool{Name: "fail"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		return nil, nil, errors.New("no paper")
	})
	mcp.AddTool(server, &mcp.Tool{Name: "key"}, func(_ context.Context, r *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
		return said(fmt.Sprint(r.Params.Meta[mcptools.IdempotencyKey])), nil, nil
	})
	mcp.AddTool(server, &mcp.Tool{Name: "report"}, func(ctx context.Context, r *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
		err := r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Progress: 1, Total: 4, Message: "a quarter"})
		<-noted.begun // until the report was made: an answer may overtake it
		return said("reported"), nil, err
	})
	mcp.AddTool(server, &mcp.Tool{Name: "slow"}, func(ctx context.Context, _ *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
		noted.begun <- struct{}{}
		<-ctx.Done()
		noted.cancelled <- struct{}{}
		return nil, nil, ctx.Err()
	})
	server.AddTool(&mcp.Tool{Name: "broken", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "out of order"}
	})
	return server
}

// inMemory connects to the server within this process, anew each time.
func inMemory(server *mcp.Server) func() (mcp.Transport, error) {
	return func() (mcp.Transport, error) {
		ours, theirs := mcp.NewInMemoryTransports()
		_, err := server.Connect(context.Background(), theirs, nil)
		return ours, err
	}
}

func connect(t *testing.T, o mcptools.Options) *mcptools.Source {
	t.Helper()
	if o.Name == "" {
		o.Name = "srv"
	}
	source, err := mcptools.Connect(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { source.Close() })
	return source
}

func toolsOf(t *testing.T, source *mcptools.Source) []harness.Tool {
	t.Helper()
	tools, err := source.Tools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return tools
}

// memory is what an agent's run needs of a backend, and no more.
type memory struct {
	agent.Backend
	progress chan agent.Progress
	asked    []string
}

func (*memory) Step(ctx context.Context, _ string, body func(context.Context) (json.RawMessage, error)) (json.RawMessage, error) {
	return body(ctx)
}
func (*memory) Inbox(context.Context) ([]agent.Message, error) { return nil, nil }
func (*memory) Runs(context.Context) ([]agent.Info, error)     { return nil, nil }
func (*memory) Now() time.Time                                 { return time.UnixMilli(1e12) }
func (*memory) Reserve(context.Context, agent.Call) error      { return nil }
func (*memory) Settle(context.Context, agent.Call) error       { return nil }
func (*memory) Release(context.Context, string) error          { return nil }
func (*memory) Lose(context.Context, agent.Call) error         { return nil }
func (*memory) Ephemeral(string, any)                          {}
func (*memory) Emit(context.Context, string, any) error        { return nil }
func (*memory) Events(context.Context, string) ([]json.RawMessage, error) {
	return nil, nil
}
func (*memory) Wait(context.Context, subagent.Wait) error { return nil }
func (*memory) Path(context.Context) (string, error)      { return "a", nil }
func (*memory) Spend(context.Context, agent.Call) error   { return nil }
func (m *memory) Progress(_ context.Context, p agent.Progress) error {
	if m.progress != nil {
		m.progress <- p
	}
	return nil
}

func (m *memory) Ask(_ context.Context, q agent.Question) error {
	m.asked = append(m.asked, q.Title)
	return nil
}

func (m *memory) Signal(context.Context, string) (json.RawMessage, bool, error) {
	raw, err := json.Marshal(agent.Decision{Note: "Not today."})
	return raw, true, err
}

// listener keeps what a model was asked last.
type listener struct {
	model.Model
	last model.Request
}

func (l *listener) Generate(ctx context.Context, key string, r model.Request, stream func(string)) (model.Response, error) {
	l.last = r
	return l.Model.Generate(ctx, key, r, stream)
}

func (l *listener) offered() (names []string) {
	for _, tool := range l.last.Tools {
		names = append(names, tool.Name)
	}
	return names
}

// run lets an agent whose model makes one call, and returns what the model was told.
func run(ctx context.Context, t *testing.T, b *memory, a harness.Agent, call string) (result model.Result, l *listener, err error) {
	t.Helper()
	m, err := scriptmodel.Parse("script", "when go\n> call "+call+"\n---\ndone")
	if err != nil {
		t.Fatal(err)
	}
	l = &listener{Model: m}
	a.Name, a.Model = "a", l
	row := subagent.Run{Owner: subagent.Owner{Tenant: "t", Conversation: "c"}, ID: "r", Agent: "a"}
	if _, err := harness.Task(a)(ctx, agent.NewRun(row, json.RawMessage(`"go"`), b)); err != nil {
		return result, l, err
	}
	for _, m := range l.last.Messages {
		if len(m.Results) > 0 {
			result = m.Results[0]
		}
	}
	return result, l, nil
}

// told makes one call and returns what the model was told.
func told(t *testing.T, source *mcptools.Source, call string) model.Result {
	t.Helper()
	r, _, err := run(t.Context(), t, &memory{}, harness.Agent{Tools: toolsOf(t, source)}, call)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
