// Package lab holds agents that make every path of Errand visible without a model:
// they echo, sleep, fail, stall, ignore their cancel, work in steps, dispatch trees, wait.
// `errand serve --lab` and the tests register them.
//
// The tasks and their inputs; a field that is left out is zero:
//
//	lab-echo      {"text":"…"}                                        ends with its input
//	lab-sleep     {"ms":N, "progress_every_ms":N, "output":…}         ends after ms
//	lab-fail      {"after_ms":N, "message":"…", "times":N}            fails; the first times are tried again
//	lab-stall     {"signal_first":true}                               works until it is cancelled or given up
//	lab-stubborn  {"ms":N}                                            ends after ms, whoever cancels it
//	lab-steps     {"steps":N, "ms_each":N}                            says how often each step ran
//	lab-tree      {"children":N, "depth":N, "ms":N}                   dispatches runs like itself
//	lab-nap       {"ms":N}                                            sleeps without a process
//	lab-join      {"children":N, "need":N, "ms":N}                    waits for need of the sleepers that it dispatches, all without need
//	lab-approve   {"title":"…"}                                       asks people under the id go-on, ends with their decision
//	lab-callback  {}                                                  waits for a POST to the path in its milestone "callback"
//	lab-spend     {"calls":N, "model":"…", "input_tokens":N,          pretends to ask a model, and pays for it
//	               "output_tokens":N, "ms_each":N}
//
// All take "milestones":[{"name":"half","at_ms":500}] as well. The handlers lab-ok, lab-always-fails,
// lab-fails-N (N times) and lab-slow-N (for N ms) tell the log that they were called.
//
// The chat "lab" does what a message says:
//
//	dispatch AGENT INPUT [DETACHED]   DETACHED is what agent.ParseDetached reads
//	list, cancel RUN, say TEXT, sleep MS
//	await RUN MILESTONE [MS]          the turn waits, for ms at most
//	join RUN…                         the turn waits until all have ended
//
// For example:
//
//	dispatch lab-sleep {"ms":900} {"on_finish":"lab-ok"}
package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/subagent"
)

// Register adds the lab's tasks, its chat "lab" and its handlers.
func Register(r *agent.Registry) error {
	tasks := map[string]agent.Task{
		"lab-echo": echo, "lab-sleep": sleep, "lab-fail": fail, "lab-stall": stall,
		"lab-stubborn": stubborn, "lab-steps": steps, "lab-tree": tree, "lab-spend": spend,
		"lab-nap": nap, "lab-join": join, "lab-approve": approve, "lab-callback": calledBack,
	}
	for name, task := range tasks {
		if err := r.AddTask(name, task); err != nil {
			return err
		}
	}
	if err := r.AddChat("lab", chat); err != nil {
		return err
	}
	return registerHandlers(r)
}

type marks struct {
	Milestones []mark `json:"milestones"`
}

type mark struct {
	Name string `json:"name"`
	AtMS int64  `json:"at_ms"`
}

// pass waits until the run is d old, reaching the milestones on the way and reporting
// progress every so often. ctx ends it early if obey is set.
func (m marks) pass(ctx context.Context, run *agent.Run, d, every time.Duration, obey bool) error {
	slices.SortStableFunc(m.Milestones, func(a, b mark) int { return int(a.AtMS - b.AtMS) })
	done := func() <-chan struct{} {
		if obey {
			return ctx.Done()
		}
		return nil
	}()
	todo := m.Milestones
	for {
		age := time.Since(run.StartedAt)
		for len(todo) > 0 && age >= ms(todo[0].AtMS) {
			if err := run.Milestone(ctx, todo[0].Name, nil); err != nil && obey {
				return err
			}
			todo = todo[1:]
		}
		if every > 0 {
			p := agent.Progress{Fraction: agent.Fraction(age.Milliseconds(), d.Milliseconds()), Message: fmt.Sprintf("slept %d ms", age.Milliseconds())}
			if err := run.Progress(ctx, p); err != nil && obey {
				return err
			}
		}
		if age >= d && len(todo) == 0 {
			return nil
		}
		next := max(d-age, 0)
		if len(todo) > 0 {
			next = ms(todo[0].AtMS) - age
		}
		if every > 0 {
			next = min(next, every)
		}
		timer := time.NewTimer(next)
		select {
		case <-done:
			timer.Stop()
			return context.Cause(ctx)
		case <-timer.C:
		}
	}
}

// ms is n milliseconds, at most a year: the lab's inputs come from anywhere.
func ms(n int64) time.Duration {
	const year = 365 * 24 * int64(time.Hour/time.Millisecond)
	return time.Duration(min(max(n, 0), year)) * time.Millisecond
}

func echo(ctx context.Context, run *agent.Run) (any, error) {
	var in struct {
		Text string `json:"text"`
		marks
	}
	if err := run.Input(&in); err != nil {
		return nil, err
	}
	if err := in.pass(ctx, run, 0, 0, true); err != nil {
		return nil, err
	}
	return run.RawInput(), nil
}

func sleep(ctx context.Context, run *agent.Run) (any, error) {
	var in struct {
		MS              int64           `json:"ms"`
		ProgressEveryMS int64           `json:"progress_every_ms"`
		Output          json.RawMessage `json:"output"`
		marks
	}
	if err := run.Input(&in); err != nil {
		return nil, err
	}
	if err := in.pass(ctx, run, ms(in.MS), ms(in.ProgressEveryMS), true); err != nil {
		return nil, err
	}
	if in.Output != nil {
		return in.Output, nil
	}
	return fmt.Sprintf("slept %d ms", in.MS), nil
}

func fail(ctx context.Context, run *agent.Run) (any, error) {
	var in struct {
		AfterMS int64  `json:"after_ms"`
		Message string `json:"message"`
		Times   int64  `json:"times"`
		marks
	}
	if err := run.Input(&in); err != nil {
		return nil, err
	}
	if err := in.pass(ctx, run, ms(in.AfterMS), 0, true); err != nil {
		return nil, err
	}
	if in.Message == "" {
		in.Message = "failed as asked"
	}
	err := errors.New(in.Message)
	if run.Attempt <= in.Times {
		err = agent.Retryable(err)
	}
	return nil, err
}

func stall(ctx context.Context, run *agent.Run) (any, error) {
	var in struct {
		SignalFirst bool `json:"signal_first"`
		marks
	}
	if err := run.Input(&in); err != nil {
		return nil, err
	}
	if in.SignalFirst {
		if err := run.Progress(ctx, agent.Progress{Message: "the only sign of life"}); err != nil {
			return nil, err
		}
	}
	if err := in.pass(ctx, run, 0, 0, true); err != nil {
		return nil, err
	}
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

func stubborn(ctx context.Context, run *agent.Run) (any, error) {
	var in struct {
		MS int64 `json:"ms"`
		marks
	}
	if err := run.Input(&in); err != nil {
		return nil, err
	}
	if err := in.pass(ctx, run, ms(in.MS), 0, false); err != nil {
		return nil, err
	}
	return fmt.Sprintf("finished after %d ms, whatever was asked", in.MS), nil
}

type stepRan struct {
	Step int `json:"step"`
}

// stepsOutput says how often the body of each step really ran, over all attempts.
type stepsOutput struct {
	Steps    int   `json:"steps"`
	Ran      []int `json:"ran"`
	Attempts int64 `json:"attempts"`
}

func steps(ctx context.Context, run *agent.Run) (any, error) {
	var in struct {
		Steps  int   `json:"steps"`
		MSEach int64 `json:"ms_each"`
		marks
	}
	if err := run.Input(&in); err != nil {
		return nil, err
	}
	if in.Steps < 0 || in.Steps > 10_000 {
		return nil, fmt.Errorf("steps is %d; it must lie between 0 and 10000", in.Steps)
	}
	for i := range in.Steps {
		_, err := agent.Step(ctx, run, fmt.Sprintf("step-%d", i), func(ctx context.Context) (int, error) {
			if err := run.Emit(ctx, "lab.step", stepRan{i}); err != nil {
				return 0, err
			}
			return i, pause(ctx, ms(in.MSEach))
		})
		if err != nil {
			return nil, err
		}
		if err := run.Progress(ctx, agent.Progress{Fraction: agent.Fraction(int64(i+1), int64(in.Steps+1))}); err != nil {
			return nil, err
		}
	}
	if err := in.pass(ctx, run, 0, 0, true); err != nil {
		return nil, err
	}
	return countSteps(ctx, run, in.Steps)
}

func countSteps(ctx context.Context, run *agent.Run, n int) (any, error) {
	events, err := run.Events(ctx, "lab.step")
	if err != nil {
		return nil, err
	}
	out := stepsOutput{Steps: n, Ran: make([]int, n), Attempts: run.Attempt}
	for _, raw := range events {
		var ran stepRan
		if err := json.Unmarshal(raw, &ran); err != nil {
			return nil, fmt.Errorf("reading the log: %w", err)
		}
		out.Ran[ran.Step]++
	}
	return out, nil
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// tree dispatches children to a depth; each tells its parent when it has ended.
func tree(ctx context.Context, run *agent.Run) (any, error) {
	type input struct {
		Children int   `json:"children"`
		Depth    int   `json:"depth"`
		MS       int64 `json:"ms"`
		marks
	}
	var in input
	if err := run.Input(&in); err != nil {
		return nil, err
	}
	out := struct {
		Children []string `json:"children"`
		Heard    []string `json:"heard"`
	}{Children: []string{}, Heard: []string{}}
	if in.Depth > 0 {
		for i := range in.Children {
			child, err := run.Dispatch(ctx, agent.Dispatch{
				Key: fmt.Sprintf("child-%d", i), Agent: "lab-tree",
				Input:  input{Children: in.Children, Depth: in.Depth - 1, MS: in.MS / 2},
				Notice: subagent.Notice{Message: true},
			})
			if err != nil {
				return nil, err
			}
			out.Children = append(out.Children, child.ID)
		}
	}
	if err := in.pass(ctx, run, ms(in.MS), 0, true); err != nil {
		return nil, err
	}
	messages, err := run.Inbox(ctx)
	if err != nil {
		return nil, err
	}
	for _, m := range messages {
		if m.From != "" {
			out.Heard = append(out.Heard, m.From)
		}
	}
	return out, nil
}
