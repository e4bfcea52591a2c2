package simulation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/subagent"
)

// program is what a simulated agent does, one instruction after the other.
type program struct {
	Do []instruction `json:"do"`
}

type instruction struct {
	Op    string `json:"op"`
	MS    int64  `json:"ms,omitempty"`
	N     int64  `json:"n,omitempty"`
	Name  string `json:"name,omitempty"`
	Child *child `json:"child,omitempty"`
	// Then says what to wait for after a dispatch, for MS at most: join or milestone.
	Then string `json:"then,omitempty"`
}

// child is a dispatch: from a program, or by the API.
type child struct {
	Key        string   `json:"key"`
	Handler    string   `json:"handler,omitempty"`
	Message    bool     `json:"message,omitempty"`
	Milestones []string `json:"milestones,omitempty"`
	React      bool     `json:"react,omitempty"`
	Awaited    bool     `json:"awaited,omitempty"`
	MaxMS      int64    `json:"max_ms,omitempty"`
	SilenceMS  int64    `json:"silence_ms,omitempty"`
	Program    program  `json:"program"`
}

func (c child) notice() subagent.Notice {
	return subagent.Notice{Handler: c.Handler, Message: c.Message, Milestones: c.Milestones, React: c.React}
}

func (c child) budget() subagent.Budget {
	b := subagent.Budget{Max: time.Duration(c.MaxMS) * time.Millisecond, NoProgress: time.Duration(c.SilenceMS) * time.Millisecond}
	if c.MaxMS < 0 {
		b.Max = subagent.Unlimited
	}
	return b
}

func (w *world) register() error {
	w.agents = agent.NewRegistry()
	if w.plan.hooked {
		w.agents.OnFinish = w.hook
	}
	return errors.Join(
		w.agents.AddTask("task", w.task),
		w.agents.AddChat("chat", w.chat),
		w.agents.AddHandlers("h-", func(rest string) (agent.Handler, bool) {
			return func(ctx context.Context, d agent.Delivery) error { return w.handler(ctx, d, rest) }, true
		}))
}

// sleep waits for the scheduler; an obedient sleeper is woken by the end of its context.
func (w *world) sleep(ctx context.Context, d time.Duration, obey bool) error {
	x := &waiter{p: invocationOf(ctx).p, call: call{kind: "works"}, at: time.Now().Add(d)}
	if !obey {
		w.park(x)
		return nil
	}
	x.ctx = ctx
	stop := context.AfterFunc(ctx, w.poke)
	w.park(x)
	stop()
	return context.Cause(ctx)
}

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

var errAsked = errors.New("failed as asked")

func (w *world) task(ctx context.Context, run *agent.Run) (any, error) {
	var in program
	if err := run.Input(&in); err != nil {
		return nil, err
	}
	inv := invocationOf(ctx)
	body := w.check.enter(inv, "task", run.Owner, run.ID)
	for i, op := range in.Do {
		if err := w.follow(ctx, run, body, i, op); err != nil {
			body.leave(err)
			return nil, err
		}
	}
	body.leave(nil)
	if ctx.Err() == nil {
		inv.ended, inv.epoch = run.ID, run.Attempt
	}
	return fmt.Sprintf("%s@%d", run.ID, run.Attempt), nil
}

// hopeless is a sleep that only the run's budget ends.
const hopeless = 100 * 3600 * 1000

func (w *world) follow(ctx context.Context, run *agent.Run, body *body, i int, op instruction) error {
	if run.Attempt > 5 && (op.Op == "sleep" || op.Op == "stubborn") && op.MS < hopeless {
		return nil // or a run that is handed on each minute never ends
	}
	switch op.Op {
	case "sleep":
		return w.sleep(ctx, ms(op.MS), true)
	case "stubborn":
		body.stubborn = true
		return w.sleep(ctx, ms(op.MS), false)
	case "step":
		key := "s" + strconv.Itoa(i)
		got, err := agent.Step(ctx, run, key, func(ctx context.Context) (string, error) {
			w.check.stepStarts(run)
			err := w.sleep(ctx, ms(op.MS), true)
			return fmt.Sprintf("%s@%d/%d/%d", key, run.Attempt, w.trace.n, run.StartedAt.UnixMilli()), err
		})
		if err == nil {
			w.check.stepIs(run, key, got)
		}
		return err
	case "progress":
		return run.Progress(ctx, agent.Progress{Message: op.Name})
	case "milestone":
		return run.Milestone(ctx, op.Name, nil)
	case "dispatch":
		c := *op.Child
		info, err := run.Dispatch(ctx, agent.Dispatch{Key: c.Key, Agent: "task", Input: c.Program, Awaited: c.Awaited, Notice: c.notice(), Budget: c.budget()})
		if _, full := errors.AsType[*agent.CapError](err); full {
			w.trace.count("cap reached")
			return agent.Retryable(err)
		}
		if err == nil && c.Awaited {
			info, err := run.Dispatch(ctx, agent.Dispatch{Key: c.Key, Agent: "task", Input: c.Program, Awaited: true})
			if err != nil {
				return err
			}
			_, err = run.Await(ctx, info.ID)
			return err
		}
		if err != nil {
			return err
		}
		return w.await(ctx, &run.Work, i, op, info.ID)
	case "nap", "ask":
		return w.await(ctx, &run.Work, i, op, "")
	case "inbox":
		messages, err := run.Inbox(ctx)
		for _, m := range messages {
			w.check.heard(run, m)
		}
		return err
	case "fail":
		return errAsked
	case "retry":
		if run.Attempt <= op.N {
			return agent.Retryable(errAsked)
		}
	case "crash":
		if run.Attempt <= op.N && !(w.calm && op.N < 100) {
			w.crashSelf(ctx)
		}
	}
	return nil
}

// crashSelf brings down the process that executes the caller.
func (w *world) crashSelf(ctx context.Context) {
	p := invocationOf(ctx).p
	w.actions = append([]action{{at: time.Now(), name: "poison kills " + p.String(), kill: p}}, w.actions...)
	w.park(&waiter{p: p, call: call{kind: "poison"}, at: time.Now().Add(time.Hour)})
}

func (w *world) chat(ctx context.Context, t *agent.Turn) (string, error) {
	inv := invocationOf(ctx)
	body := w.check.enter(inv, "chat", t.Owner, t.ID)
	reply, err := w.converse(ctx, t, inv)
	body.leave(err)
	return reply, err
}

func (w *world) converse(ctx context.Context, t *agent.Turn, inv *invocation) (string, error) {
	var in program
	if t.Kind != subagent.UserTurn {
		return fmt.Sprintf("heard by %v", inv.p), w.sleep(ctx, 100*time.Millisecond, true)
	}
	if err := json.Unmarshal([]byte(t.Message), &in); err != nil {
		return "", err
	}
	for i, op := range in.Do {
		if err := w.say(ctx, t, i, op); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("done by %v", inv.p), nil
}

// await waits as the instruction says, and counts how the wait ended.
func (w *world) await(ctx context.Context, work *agent.Work, i int, op instruction, run string) error {
	key := "w" + strconv.Itoa(i)
	var err error
	switch {
	case op.Op == "nap":
		err = work.Sleep(ctx, key, ms(op.MS))
	case op.Op == "ask":
		_, err = work.Approve(ctx, agent.Question{Name: key, Title: "go on?"}, ms(op.MS))
	case op.Then == "join":
		_, err = work.Join(ctx, key, agent.Join{Runs: []string{run}, Within: ms(op.MS)})
	case op.Then == "milestone":
		_, err = work.AwaitMilestone(ctx, key, run, "half", ms(op.MS))
	default:
		return nil
	}
	switch {
	case errors.Is(err, agent.ErrTimedOut):
		w.trace.count("wait timed out")
	case errors.Is(err, agent.ErrNoMilestone), errors.Is(err, agent.ErrNoRun):
		w.trace.count("wait in vain")
	case errors.Is(err, agent.ErrSuspended):
		w.trace.count("suspended")
		return err
	case err != nil:
		return agent.Retryable(err)
	default:
		w.trace.count("wait over")
	}
	return nil
}

func (w *world) say(ctx context.Context, t *agent.Turn, i int, op instruction) error {
	switch op.Op {
	case "nap", "ask":
		return w.await(ctx, &t.Work, i, op, "")
	case "sleep":
		if w.check.tries(t.Owner, t.ID) > 5 {
			return nil // or a turn that is handed on each minute never ends
		}
		return w.sleep(ctx, ms(op.MS), true)
	case "dispatch":
		c := *op.Child
		info, err := t.Dispatch(ctx, agent.Dispatch{Key: c.Key, Agent: "task", Input: c.Program, Notice: c.notice(), Budget: c.budget()})
		if _, full := errors.AsType[*agent.CapError](err); full {
			w.trace.count("cap reached")
			return nil
		}
		if err != nil {
			return agent.Retryable(err)
		}
		return w.await(ctx, &t.Work, i, op, info.ID)
	case "cancel":
		runs, err := t.Runs(ctx)
		if err != nil {
			return agent.Retryable(err)
		}
		if len(runs) > 0 {
			info, err := t.Cancel(ctx, runs[0].ID, "")
			if err != nil {
				return agent.Retryable(err)
			}
			w.check.cancelled(t.Owner, info.ID, info.Status)
		}
	case "fail":
		return errAsked
	case "retry":
		if w.check.tries(t.Owner, t.ID) <= int(op.N) {
			return agent.Retryable(errAsked)
		}
	case "crash":
		if w.check.tries(t.Owner, t.ID) <= int(op.N) {
			w.crashSelf(ctx)
		}
	}
	return nil
}

// hook is the metering hook. Like all user code it takes a moment, which also keeps the
// heartbeats of a turn and of its handler's claim from falling on the same instant: then
// two goroutines would run at a time.
func (w *world) hook(ctx context.Context, _ agent.Delivery) error {
	w.trace.count("hook called")
	return w.sleep(ctx, time.Millisecond, true)
}

// handler does what its name says: ok, fails-N, always, slow-MS, crash-N.
func (w *world) handler(ctx context.Context, d agent.Delivery, name string) error {
	inv := invocationOf(ctx)
	body := w.check.enterHandler(inv, d)
	err := w.deliver(ctx, d, name)
	body.leave(err)
	return err
}

func (w *world) deliver(ctx context.Context, d agent.Delivery, name string) error {
	kind, number, _ := strings.Cut(name, "-")
	n, _ := strconv.ParseInt(number, 10, 64)
	switch kind {
	case "fails":
		if int64(d.Attempt) <= n {
			return errAsked
		}
	case "always":
		return errAsked
	case "slow":
		return w.sleep(ctx, ms(n), true)
	case "crash":
		if int64(d.Attempt) <= n {
			w.crashSelf(ctx)
		}
	}
	return w.sleep(ctx, 50*time.Millisecond, true)
}
