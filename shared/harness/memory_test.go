package harness_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/harness"
	"github.com/errand-dev/errand/shared/model"
	"github.com/errand-dev/errand/shared/model/scriptmodel"
	"github.com/errand-dev/errand/shared/subagent"
)

// memory is a backend that can die at any point of any step and be used again, as the
// executor's journal is.
type memory struct {
	now time.Time
	// dies, if set, is asked before a step's body ("before"), after it ("unkept") and when its result is
	// kept ("kept").
	dies func(key, when string) bool

	mu         sync.Mutex
	journal    map[string]json.RawMessage
	inbox      []agent.Message
	inboxCalls int
	inboxRead  int
	progress   []agent.Progress
	dispatched []agent.Dispatch
	results    map[string]agent.Result
	runs       []agent.Info
	followups  []string
	shown      []string
	metadata   map[string]string
	asked      map[string]agent.Question
	signals    map[string]json.RawMessage
	lines      []agent.Line
	// spent lists what became of calls, by key; refuses, if set, is what Reserve returns.
	spent   []string
	refuses error
}

var errKilled = errors.New("killed")

func newMemory() *memory {
	return &memory{now: time.UnixMilli(1e12), journal: map[string]json.RawMessage{}, results: map[string]agent.Result{}}
}

func (m *memory) Step(ctx context.Context, key string, body func(context.Context) (json.RawMessage, error)) (json.RawMessage, error) {
	m.mu.Lock()
	kept, ok := m.journal[key]
	m.mu.Unlock()
	if ok {
		return kept, nil
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if m.die(key, "before") {
		return nil, errKilled
	}
	raw, err := body(ctx)
	if err != nil {
		return nil, err
	}
	if m.die(key, "unkept") {
		return nil, errKilled
	}
	m.mu.Lock()
	m.journal[key] = raw
	m.mu.Unlock()
	if m.die(key, "kept") {
		return nil, errKilled
	}
	return raw, nil
}

func (m *memory) die(key, when string) bool { return m.dies != nil && m.dies(key, when) }

func (m *memory) Progress(_ context.Context, p agent.Progress) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.progress = append(m.progress, p)
	return nil
}

func (m *memory) Milestone(context.Context, string, json.RawMessage) error { return nil }

func (m *memory) Dispatch(_ context.Context, d agent.Dispatch) (agent.Info, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dispatched = append(m.dispatched, d)
	return agent.Info{ID: "child-" + d.Key, Agent: d.Agent, Status: subagent.Queued}, nil
}

func (m *memory) Wait(_ context.Context, w subagent.Wait) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	seen := subagent.Seen{Signalled: m.signals[w.Signal] != nil}
	for _, id := range w.Runs {
		if _, ok := m.results[id]; ok {
			seen.Ended++
		}
	}
	if !w.Over(seen, m.now) {
		return agent.ErrSuspended
	}
	return nil
}

func (m *memory) Ask(_ context.Context, q agent.Question) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.asked == nil {
		m.asked = map[string]agent.Question{}
	}
	m.asked[q.Name] = q
	return nil
}

func (m *memory) Signal(_ context.Context, name string) (json.RawMessage, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.signals[name], m.signals[name] != nil, nil
}

func (m *memory) Callback(context.Context, string) (string, error) { return "", nil }

func (m *memory) Inbox(ctx context.Context) ([]agent.Message, error) {
	m.mu.Lock()
	m.inboxCalls++
	key := fmt.Sprintf("inbox:%d", m.inboxCalls)
	from, to := m.inboxRead, len(m.inbox)
	m.mu.Unlock()
	raw, err := m.Step(ctx, key, func(context.Context) (json.RawMessage, error) { return json.Marshal([]int{from, to}) })
	if err != nil {
		return nil, err
	}
	var read []int
	if err := json.Unmarshal(raw, &read); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.inboxRead = read[1]
	return m.inbox[read[0]:read[1]], nil
}

func (m *memory) Runs(context.Context) ([]agent.Info, error) { return slices.Clone(m.runs), nil }

func (m *memory) Cancel(_ context.Context, run, _ string) (agent.Info, error) {
	return agent.Info{ID: run, Status: subagent.Aborted}, nil
}

func (m *memory) Inspect(_ context.Context, run string) (agent.Result, error) {
	if r, ok := m.results[run]; ok {
		return r, nil
	}
	for _, r := range m.runs {
		if r.ID == run {
			return agent.Result{Info: r, Output: json.RawMessage(`"so far"`)}, nil
		}
	}
	return agent.Result{}, fmt.Errorf("%w: %s", agent.ErrNoRun, run)
}

func (m *memory) Milestones(context.Context, string) ([]agent.Milestone, error) { return nil, nil }

func (m *memory) RunLog(context.Context, string, int64) (agent.LogPage, error) {
	return agent.LogPage{}, nil
}

func (m *memory) FollowUp(_ context.Context, run, id, text string) error {
	m.followups = append(m.followups, run+": "+text)
	return nil
}

func (m *memory) Transcript(_ context.Context, limit int) ([]agent.Line, error) {
	return m.lines[max(len(m.lines)-limit, 0):], nil
}

func (m *memory) Reserve(_ context.Context, c agent.Call) error {
	m.note("reserve %s %v in %d out %d", c.Key, c.Models, c.Usage.Input, c.Usage.Output)
	return m.refuses
}

func (m *memory) Settle(_ context.Context, c agent.Call) error {
	m.note("settle %s %v %d", c.Key, c.Models, c.Usage.Tokens())
	return nil
}

func (m *memory) Release(_ context.Context, key string) error {
	m.note("release %s", key)
	return nil
}

func (m *memory) Lose(_ context.Context, c agent.Call) error {
	m.note("lose %s %d", c.Key, c.Usage.Tokens())
	return nil
}

func (m *memory) Raise(_ context.Context, question string, _ *agent.BudgetError) error {
	m.note("raise %s", question)
	return nil
}

func (m *memory) Spend(context.Context, agent.Call) error { return nil }

func (m *memory) note(format string, args ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.spent = append(m.spent, fmt.Sprintf(format, args...))
}

func (m *memory) Now() time.Time                                            { return m.now }
func (m *memory) Emit(context.Context, string, any) error                   { return nil }
func (m *memory) Events(context.Context, string) ([]json.RawMessage, error) { return nil, nil }

func (m *memory) Replayed(context.Context, string) (json.RawMessage, bool, error) {
	return nil, false, nil
}

func (m *memory) Path(context.Context) (string, error) { return "a", nil }

func (m *memory) State(context.Context, string) (json.RawMessage, error) { return nil, nil }

func (m *memory) ChangeState(_ context.Context, _, _ string, change func(json.RawMessage) (json.RawMessage, error)) (json.RawMessage, error) {
	return change(nil)
}

// Ephemeral keeps what a model says.
func (m *memory) Ephemeral(typ string, data any) {
	var said struct{ Text string }
	raw, err := json.Marshal(data)
	if err != nil || json.Unmarshal(raw, &said) != nil || typ != "model.text" {
		panic(typ)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.shown = append(m.shown, said.Text)
}

// run executes the agent once.
func (m *memory) run(t *testing.T, a harness.Agent, input string) (any, error) {
	t.Helper()
	return m.runIn(t.Context(), a, input)
}

func (m *memory) runIn(ctx context.Context, a harness.Agent, input string) (any, error) {
	m.inboxCalls, m.inboxRead = 0, 0
	row := subagent.Run{Owner: subagent.Owner{Tenant: "t", Conversation: "c"}, ID: "r", Agent: a.Name}
	return harness.Task(a)(ctx, agent.NewRun(row, json.RawMessage(input), m))
}

// turn lets the agent answer the last of the lines.
func (m *memory) turn(t *testing.T, a harness.Agent) (string, error) {
	t.Helper()
	row := subagent.Turn{Owner: subagent.Owner{Tenant: "t", Conversation: "c"}, ID: "turn", Metadata: m.metadata}
	return harness.Chat(a)(t.Context(), agent.NewTurn(row, m.lines[len(m.lines)-1].Text, nil, m))
}

// recorder keeps the requests that a model is asked.
type recorder struct {
	model.Model
	mu       sync.Mutex
	requests []model.Request
	keys     []string
}

func script(t *testing.T, text string) *recorder {
	t.Helper()
	m, err := scriptmodel.Parse("script", text)
	if err != nil {
		t.Fatal(err)
	}
	return &recorder{Model: m}
}

func (r *recorder) Generate(ctx context.Context, key string, req model.Request, stream func(string)) (model.Response, error) {
	r.mu.Lock()
	r.requests, r.keys = append(r.requests, req), append(r.keys, key)
	r.mu.Unlock()
	return r.Model.Generate(ctx, key, req, stream)
}

func (r *recorder) last() model.Request { return r.requests[len(r.requests)-1] }

// lastResults are what the model was last told that its calls returned.
func (r *recorder) lastResults() []model.Result {
	for _, m := range slices.Backward(r.last().Messages) {
		if m.Results != nil {
			return m.Results
		}
	}
	return nil
}

func words(req model.Request) string {
	var b strings.Builder
	for _, m := range req.Messages {
		fmt.Fprintf(&b, "%s: %s\n", m.Role, m.Text)
	}
	return b.String()
}

func contains(t *testing.T, what, text, want string) {
	t.Helper()
	if !strings.Contains(text, want) {
		t.Errorf("%s: %q does not contain %q", what, text, want)
	}
}

type numbers struct {
	A int `json:"a"`
	B int `json:"b"`
}

// adder counts how often it is called.
func adder(count *int) harness.Tool {
	var mu sync.Mutex
	return harness.NewTool("add", "Adds two numbers.", func(_ context.Context, in numbers) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		*count++
		return in.A + in.B, nil
	})
}

func newRun(b *memory) *agent.Run {
	row := subagent.Run{Owner: subagent.Owner{Tenant: "t", Conversation: "c"}, ID: "r"}
	return agent.NewRun(row, json.RawMessage(`"go"`), b)
}
