// Package cases_test holds the numbered cases of docs/cases.md: what a detached run
// promises, one test each, named by its number. They drive the real use cases over
// the embedded platform under fake time, so that a budget of a day passes at once.
//
// A test either lets the whole stack work (world.start) or takes the place of its
// workers (world.open): then it decides which message is lost, late or repeated.
package cases_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/delivery"
	"github.com/errand-dev/errand/shared/dispatch"
	"github.com/errand-dev/errand/shared/executor"
	"github.com/errand-dev/errand/shared/ingress"
	"github.com/errand-dev/errand/shared/ledger"
	"github.com/errand-dev/errand/shared/platform"
	"github.com/errand-dev/errand/shared/serve"
	"github.com/errand-dev/errand/shared/subagent"
)

var owner = subagent.Owner{Tenant: "default", Conversation: "c1"}

// Ways to be told of a run's end.
var (
	quietly  = subagent.Notice{}
	notify   = subagent.Notice{Message: true}
	byNote   = subagent.Notice{Handler: "note"}
	byBroken = subagent.Notice{Handler: "broken"}
)

// world is one deployment in fake time.
type world struct {
	*testing.T
	*serve.Stack
	options serve.Options
	agents  *agent.Registry

	mu    sync.Mutex
	calls []string
	shown []ledger.Event
	gates map[string]chan struct{}

	halt func()
}

// bubble runs body in a world of its own, whose stack is not open yet.
func bubble(t *testing.T, body func(w *world)) {
	t.Helper()
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, agents: agent.NewRegistry(), gates: map[string]chan struct{}{}}
		w.options = serve.Options{Dir: dir, Agents: w.agents, Show: w.show}
		if testing.Verbose() {
			w.options.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
		}
		w.register()
		defer w.end()
		body(w)
	})
}

// register adds the agents that the tests share.
func (w *world) register() {
	w.task("done", func(context.Context, *agent.Run) (any, error) { return "the result", nil })
	w.task("fails", func(context.Context, *agent.Run) (any, error) { return nil, errors.New("it broke") })
	w.task("idle", func(ctx context.Context, _ *agent.Run) (any, error) {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	})
	// gated obeys its context, deaf does not; both end when the test lets them.
	w.task("gated", func(ctx context.Context, r *agent.Run) (any, error) {
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-w.gate(r.ID):
			return "the result", nil
		}
	})
	w.task("deaf", func(_ context.Context, r *agent.Run) (any, error) {
		<-w.gate(r.ID)
		return "the late result", nil
	})
	w.handler("note", func(context.Context, agent.Delivery) error { return nil })
	w.handler("broken", func(context.Context, agent.Delivery) error { return errors.New("the handler broke") })
	w.must(w.agents.AddChat("chat", func(_ context.Context, t *agent.Turn) (string, error) {
		w.record("turn %s: %s", t.Kind, t.Message)
		return "heard " + t.ID, nil
	}))
	w.agents.OnFinish = func(_ context.Context, d agent.Delivery) error {
		w.record("hook %s %s", d.Run.ID, d.Run.Status)
		return nil
	}
}

func (w *world) task(name string, t agent.Task) { w.Helper(); w.must(w.agents.AddTask(name, t)) }

// dispatcher registers a task that dispatches one run and ends.
func (w *world) dispatcher(name, run, task string, n subagent.Notice) {
	w.Helper()
	w.task(name, func(ctx context.Context, r *agent.Run) (any, error) {
		_, err := r.Dispatch(ctx, agent.Dispatch{RunID: run, Agent: task, Notice: n})
		return nil, err
	})
}

// handler registers a handler whose calls are recorded.
func (w *world) handler(name string, h agent.Handler) {
	w.Helper()
	w.must(w.agents.AddHandler(name, func(ctx context.Context, d agent.Delivery) error {
		w.record("%s %s %s", name, d.Run.ID, d.Run.Status)
		return h(ctx, d)
	}))
}

// record keeps what was called; called returns it, by its first word.
func (w *world) record(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls = append(w.calls, fmt.Sprintf(format, args...))
}

func (w *world) called(kinds ...string) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	got := []string{}
	for _, call := range w.calls {
		kind, _, _ := strings.Cut(call, " ")
		if len(kinds) == 0 || slices.Contains(kinds, kind) {
			got = append(got, call)
		}
	}
	return got
}

func (w *world) show(_ subagent.Owner, e ledger.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.shown = append(w.shown, e)
}

// gate is what the run waits at; free opens it.
func (w *world) gate(run string) chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.gates[run] == nil {
		w.gates[run] = make(chan struct{})
	}
	return w.gates[run]
}

func (w *world) free(run string) { close(w.gate(run)) }

// open opens the data folder; nobody takes messages but the test.
func (w *world) open() {
	w.Helper()
	stack, err := serve.Open(context.Background(), w.options)
	w.must(err)
	w.Stack = stack
}

// work starts the stack's workers.
func (w *world) work() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	stack := w.Stack
	go func() { defer close(done); stack.Run(ctx) }()
	w.halt = func() { cancel(); <-done; w.halt = nil }
	synctest.Wait()
}

func (w *world) start() { w.Helper(); w.open(); w.work() }

// restart stops the stack as a deployment does, and starts it again.
func (w *world) restart() {
	w.Helper()
	w.halt()
	w.must(w.Close())
	w.start()
}

// kill ends the process between two instants: whatever it still does, nothing of it
// is written. Then another one opens the folder.
func (w *world) kill() {
	w.Helper()
	w.must(w.Close())
	if w.halt != nil {
		w.halt()
	}
	w.open()
}

func (w *world) end() {
	w.mu.Lock()
	for _, gate := range w.gates {
		select {
		case <-gate:
		default:
			close(gate)
		}
	}
	w.mu.Unlock()
	if w.halt != nil {
		w.halt()
	}
	if w.Stack != nil {
		w.must(w.Close())
	}
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// pass lets time pass until everything that was due has been done.
func (w *world) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (w *world) ctx() context.Context { return context.Background() }

// request is a dispatch that tests vary.
func request(run, task string, n subagent.Notice) dispatch.Request {
	return dispatch.Request{Owner: owner, Run: run, Agent: task, Notice: n}
}

func (w *world) dispatch(req dispatch.Request) subagent.Run {
	w.Helper()
	run, _, err := w.Service.Dispatcher.Start(w.ctx(), req)
	w.must(err)
	if w.halt != nil {
		synctest.Wait()
	}
	return run
}

func (w *world) say(message string) subagent.Turn {
	w.Helper()
	turn, _, err := w.Service.Accept(w.ctx(), ingress.TurnRequest{Owner: owner, Message: message})
	w.must(err)
	if w.halt != nil {
		synctest.Wait()
	}
	return turn
}

func (w *world) run(id string) subagent.Run {
	w.Helper()
	run, err := w.Ledger.Run(w.ctx(), owner, id)
	w.must(err)
	return run
}

func (w *world) turn(id string) subagent.Turn {
	w.Helper()
	turn, err := w.Ledger.Turn(w.ctx(), owner, id)
	w.must(err)
	return turn
}

func (w *world) backbone() subagent.Backbone {
	w.Helper()
	b, err := w.Ledger.Backbone(w.ctx(), owner)
	w.must(err)
	return b
}

func (w *world) courier() *delivery.Courier { return w.Executor.Courier }

func (w *world) cancel(id, reason string) subagent.Run {
	w.Helper()
	run, err := w.Service.Control.Cancel(w.ctx(), owner, id, reason)
	w.must(err)
	if w.halt != nil {
		synctest.Wait()
	}
	return run
}

// transcript is the conversation's messages as "role source: text".
func (w *world) transcript() []string {
	w.Helper()
	messages, err := w.Ledger.Messages(w.ctx(), owner, 0, 1000)
	w.must(err)
	lines := []string{}
	for _, m := range messages {
		text, err := w.Ledger.LoadValue(w.ctx(), owner, m.Text)
		w.must(err)
		lines = append(lines, fmt.Sprintf("%s %s: %s", m.Role, m.Source, text))
	}
	return lines
}

// message finds the message with the id.
func (w *world) message(id string) (ledger.Message, bool) {
	w.Helper()
	messages, err := w.Ledger.Messages(w.ctx(), owner, 0, 1000)
	w.must(err)
	for _, m := range messages {
		if m.ID == id {
			return m, true
		}
	}
	return ledger.Message{}, false
}

// events returns the log's events of one type, of one run if run is not empty.
func (w *world) events(typ, run string) []ledger.Event {
	w.Helper()
	all, err := w.Ledger.Events(w.ctx(), owner, 0, 10_000)
	w.must(err)
	return slices.DeleteFunc(all, func(e ledger.Event) bool { return e.Type != typ || run != "" && e.Run != run })
}

func (w *world) want(what string, got, want any) {
	w.Helper()
	if d := cmp.Diff(want, got); d != "" {
		w.Errorf("%s (-want +got):\n%s", what, d)
	}
}

// --- In place of the workers.

// take receives everything that can be handed out now, and acknowledges it.
func (w *world) take(queue string) []ledger.Wake {
	w.Helper()
	var wakes []ledger.Wake
	for {
		r, ok := w.receive(queue)
		if !ok {
			return wakes
		}
		wakes = append(wakes, w.wakeOf(r))
		w.must(w.Receiver().Acknowledge(w.ctx(), r))
	}
}

func (w *world) receive(queue string) (platform.Received, bool) {
	w.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	got, err := w.Receiver().Receive(ctx, queue, 1, time.Minute)
	if err != nil && ctx.Err() == nil {
		w.Fatal(err)
	}
	if len(got) == 0 {
		return platform.Received{}, false
	}
	return got[0], true
}

func (w *world) wakeOf(r platform.Received) ledger.Wake {
	w.Helper()
	wake, err := ledger.ParseWake(r.Queue, r.Body)
	w.must(err)
	return wake
}

// drain handles what the queue hands out now, as a worker would, and returns how many
// messages that were.
func (w *world) drain(queue string) int {
	w.Helper()
	for n := 0; ; n++ {
		r, ok := w.receive(queue)
		if !ok {
			return n
		}
		wake := w.wakeOf(r)
		var err error
		switch queue {
		case platform.Turns:
			err = w.Executor.Turn(w.ctx(), wake, r.Receives)
		case platform.Runs:
			err = w.Executor.Run(w.ctx(), wake)
		case platform.Ticks:
			err = w.Reconciler.Tick(w.ctx(), wake)
		}
		var again *executor.RetryError
		switch {
		case err == nil:
			w.must(w.Receiver().Acknowledge(w.ctx(), r))
		case errors.As(err, &again):
			w.must(w.Receiver().Extend(w.ctx(), r, max(again.After, time.Second)))
		default:
			w.Fatal(err)
		}
	}
}

// tick fires the newest tick now, whatever its time.
func (w *world) tick() {
	w.Helper()
	b := w.backbone()
	w.must(w.Reconciler.Tick(w.ctx(), ledger.Wake{Owner: owner, Tick: b.Epoch, Rung: b.Rung}))
}

// rule applies a rule to a run's row as another process would.
func (w *world) rule(id string, rule func(subagent.Run) (subagent.Run, subagent.Outcome)) subagent.Outcome {
	w.Helper()
	_, outcome, err := w.Ledger.UpdateRun(w.ctx(), subagent.Run{Owner: owner, ID: id}, rule)
	w.must(err)
	return outcome
}

// lost lets an executor take the run and never be heard of again, though it lives:
// for the rows it is a child that cannot be reached.
func (w *world) lost(id string) subagent.Run {
	w.Helper()
	w.take(platform.Runs)
	token := w.Ledger.Token()
	w.must(ok(w.rule(id, func(r subagent.Run) (subagent.Run, subagent.Outcome) {
		return r.Acquire(token, w.Ledger.Now(), w.Ledger.Terms)
	})))
	return w.run(id)
}

// died leaves the conversation as an executor does that dies over the turn.
func (w *world) died(turn string) {
	w.Helper()
	_, o, err := w.Ledger.UpdateConversation(w.ctx(), subagent.Conversation{Owner: owner}, func(c subagent.Conversation) (subagent.Conversation, subagent.Outcome) {
		return c.Begin(turn, "another/process", w.Ledger.Now(), w.Ledger.Terms)
	})
	w.must(err)
	w.must(ok(o))
}

// signal reports that such a run was heard of.
func (w *world) signal(id string) {
	w.Helper()
	w.must(ok(w.rule(id, func(r subagent.Run) (subagent.Run, subagent.Outcome) {
		return r.Signal(r.Exec.Epoch, w.Ledger.Now(), w.Ledger.Terms, nil, r.Milestones)
	})))
}

// finish writes the end of a run and stops there, as an executor that dies before it
// has told anybody.
func (w *world) finish(id string, res subagent.Result) subagent.Outcome {
	w.Helper()
	return w.rule(id, func(r subagent.Run) (subagent.Run, subagent.Outcome) {
		return r.End(r.Exec.Epoch, res, r.Inbox, w.Ledger.Now())
	})
}

// reach stores a milestone of such a run and counts it, and stops there: it is not told.
func (w *world) reach(id, name string) {
	w.Helper()
	run := w.run(id)
	_, _, err := w.Ledger.AddMilestone(w.ctx(), ledger.LifeOf(run), ledger.Milestone{Name: name, Sequence: run.Milestones, At: subagent.At(w.Ledger.Now())})
	w.must(err)
	w.must(ok(w.rule(id, func(r subagent.Run) (subagent.Run, subagent.Outcome) {
		return r.Signal(r.Exec.Epoch, w.Ledger.Now(), w.Ledger.Terms, nil, run.Milestones+1)
	})))
}

var completed = subagent.Result{Status: subagent.Completed, Summary: "the result", Output: subagent.Value{Inline: `"the result"`}}

// giveUp records a give-up as a tick does, and stops there.
func (w *world) giveUp(id string) {
	w.Helper()
	seen := w.run(id)
	w.must(ok(w.rule(id, func(r subagent.Run) (subagent.Run, subagent.Outcome) {
		return r.Interrupt(subagent.ReasonBudget, seen, w.Ledger.Now(), w.Ledger.Terms)
	})))
}

// deliver brings the slot of the run, as it now is, to its receiver.
func (w *world) deliver(id string, slot subagent.Slot) {
	w.Helper()
	w.must(w.courier().Deliver(w.ctx(), delivery.Parcel{Run: w.run(id), Slot: slot, Attempt: w.Ledger.Nonce()}))
	w.drain(platform.Turns)
}

func ok(o subagent.Outcome) error {
	if o.OK() {
		return nil
	}
	return fmt.Errorf("refused: %v", o)
}

func raw(v any) json.RawMessage {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return data
}
