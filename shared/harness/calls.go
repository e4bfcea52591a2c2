package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/model"
)

// makeCalls makes the calls of answer n, several at a time, and adds their results. What
// is to be awaited is sent off with them and awaited last, and so is whatever else may have
// to wait: a run that waits holds no process, so nothing else may be under way then.
func (x *session) makeCalls(ctx context.Context, n int, calls []wish) error {
	if told, err := x.repeated(calls); told || err != nil {
		return err
	}
	outcomes := make([]outcome, len(calls))
	children := make([]sent, len(calls))
	var group errgroup.Group
	group.SetLimit(x.limits.Parallel)
	var later []int
	for i, c := range calls {
		if x.tools[c.Name].waits || x.needsApproval(c) {
			later = append(later, i)
			continue
		}
		group.Go(func() error { return x.start(ctx, n, i, c, &outcomes[i], &children[i]) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	refused, err := x.approvals(ctx, n, calls, later)
	if err != nil {
		return err
	}
	for _, i := range later {
		if told, ok := refused[i]; ok {
			outcomes[i], children[i] = told, sent{Problem: told.Text}
		} else if err := x.start(ctx, n, i, calls[i], &outcomes[i], &children[i]); err != nil {
			return err
		}
	}
	for i, c := range calls {
		sub := x.tools[c.Name].asks
		switch {
		case sub == nil:
		case children[i].Problem != "":
			outcomes[i] = outcome{Text: children[i].Problem, Failed: true}
		default:
			var err error
			if outcomes[i], err = x.await(ctx, toolKey(n, i), *sub, children[i].Run); err != nil {
				return err
			}
		}
	}
	x.addResults(calls, outcomes)
	return nil
}

// start makes call i, or sends the subagent off that it asks.
func (x *session) start(ctx context.Context, n, i int, c wish, o *outcome, child *sent) (err error) {
	if x.tools[c.Name].asks != nil {
		*child, err = x.send(ctx, n, i, c)
		return err
	}
	*o, err = x.call(ctx, toolKey(n, i), c)
	return err
}

// call makes one call, or answers it from the journal.
func (x *session) call(ctx context.Context, key string, c wish) (outcome, error) {
	return step(ctx, x, key, func(ctx context.Context) (outcome, error) {
		t, args, problem := x.admit(c)
		if problem != "" {
			return outcome{Text: problem, Failed: true}, nil
		}
		return x.hooked(ctx, c, func() (outcome, error) { return x.invoke(ctx, key, t, args) })
	})
}

// admit finds the tool and checks the arguments; problem tells the model why not.
func (x *session) admit(c wish) (t Tool, args json.RawMessage, problem string) {
	t, ok := x.tools[c.Name]
	if !ok {
		have := strings.Join(slices.Sorted(maps.Keys(x.tools)), ", ")
		return t, nil, fmt.Sprintf("There is no tool %q. There are: %s.", c.Name, have)
	}
	args = json.RawMessage(c.Arguments)
	if strings.TrimSpace(c.Arguments) == "" {
		args = json.RawMessage("{}")
	}
	if err := t.args.check(args); err != nil {
		return t, nil, fmt.Sprintf("The arguments of %s are wrong: %v. Nothing was done.", c.Name, err)
	}
	return t, args, ""
}

// invoke calls the tool. What it returns is kept, also a failure; what ends the run or
// asks for another try is not.
func (x *session) invoke(ctx context.Context, key string, t Tool, args json.RawMessage) (outcome, error) {
	ctx = context.WithValue(ctx, callContext{}, callInfo{idempotencyKey(x.work, key), x.run, x.work})
	text, err := guarded(func() (string, error) { return t.call(ctx, x, args) })
	switch {
	case err == nil:
		return outcome{Text: text}, nil
	case ctx.Err() != nil:
		return outcome{}, context.Cause(ctx)
	case isTerminal(err), agent.IsRetryable(err), errors.Is(err, agent.ErrSuspended):
		return outcome{}, err
	}
	return outcome{Text: err.Error(), Failed: true}, nil
}

func guarded(call func() (string, error)) (text string, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the tool panicked: %v", p)
		}
	}()
	return call()
}

// send dispatches a subagent that is to be awaited.
func (x *session) send(ctx context.Context, n, i int, c wish) (sent, error) {
	return step(ctx, x, sendKey(n, i), func(ctx context.Context) (sent, error) {
		t, args, problem := x.admit(c)
		if problem != "" {
			return sent{Problem: problem}, nil
		}
		run, err := x.dispatch(ctx, toolKey(n, i), *t.asks, args, true)
		switch {
		case tellable(err):
			return sent{Problem: err.Error()}, nil
		case err != nil:
			return sent{}, durable(err)
		}
		return sent{Run: run.ID}, nil
	})
}

// await returns the end of a subagent; the run is suspended until there is one. A given-up
// child may end after all: what was heard first stands.
func (x *session) await(ctx context.Context, key string, sub Subagent, child string) (outcome, error) {
	return step(ctx, x, key, func(ctx context.Context) (outcome, error) {
		r, err := x.run.Await(ctx, child)
		if err != nil {
			return outcome{}, err
		}
		return childOutcome(r, sub), nil
	})
}

// addResults adds what calls returned to the context: large results in part, whole ones
// stay within reach of read_result.
func (x *session) addResults(calls []wish, outcomes []outcome) {
	m := model.Message{Role: model.User}
	for i, c := range calls {
		name, o := x.ids[c.ID], outcomes[i]
		x.results[name] = result{c.Name, o.Text}
		text := o.Text
		if c.Name != readResultName {
			text = x.clipped(name, text)
		}
		m.Results = append(m.Results, model.Result{CallID: c.ID, Text: text, Failed: o.Failed})
	}
	x.messages = append(x.messages, m)
}

// repeated refuses calls that the model has just made as often as it may, and fails the run
// after as many tellings. Doing the same again is no progress.
func (x *session) repeated(calls []wish) (told bool, err error) {
	now := signature(calls)
	if now != x.last {
		x.last, x.same = now, 0
	}
	x.same++
	if x.same <= x.limits.Repeats {
		return false, nil
	}
	if x.same > 2*x.limits.Repeats {
		return false, terminalf("stalled without durable progress: the model made the same call %d times in a row (%s)", x.same, calls[0].Name)
	}
	outcomes := make([]outcome, len(calls))
	for i := range outcomes {
		outcomes[i] = outcome{Failed: true, Text: fmt.Sprintf(
			"You have made this very call %d times in a row; it was not made again. Its result stands above. Do something else, or answer.", x.same-1)}
	}
	x.addResults(calls, outcomes)
	return true, nil
}

// signature is equal for calls that ask for the same, however they are written.
func signature(calls []wish) string {
	var b strings.Builder
	for _, c := range calls {
		arguments := c.Arguments
		var value any
		if json.Unmarshal([]byte(arguments), &value) == nil {
			raw, _ := json.Marshal(value) // it was JSON
			arguments = string(raw)
		}
		fmt.Fprintf(&b, "%s(%s)\n", c.Name, arguments)
	}
	return b.String()
}

// onlyReports tells whether the answer does nothing but report progress.
func (x *session) onlyReports(r reply) bool {
	if len(r.Calls) == 0 {
		return false
	}
	return !slices.ContainsFunc(r.Calls, func(c wish) bool { return !x.tools[c.Name].free })
}
