package harness

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/model"
)

// session is one execution of a run or turn.
type session struct {
	*surface
	work *agent.Work
	on   agent.Stepper
	// run is nil in a turn.
	run *agent.Run
	// about are the runs that a turn tells of.
	about   []string
	begin   opening
	view    View
	tools   map[string]Tool
	offered []model.Tool

	messages []model.Message
	// asked is the place in messages of the task or the turn's message.
	asked int
	// omitted counts the messages that were left out before the first.
	omitted int
	// results are the whole texts, by "N-I".
	results map[string]result
	// ids finds the "N-I" of a call by the id that the model knows it by.
	ids map[string]string

	// spent counts model calls, free those that only reported progress.
	spent, free int
	// sized is the estimated size of the newest request that was answered, billed what its
	// prompt really had, in tokens.
	sized, billed int64
	// flawed counts bad and cut answers in a row.
	flawed int
	// last is the signature of the newest calls, same how often in a row they were made.
	last string
	same int
}

// result is what a tool returned, whole.
type result struct{ tool, text string }

// work executes a run.
func (s *surface) work(ctx context.Context, run *agent.Run) (any, error) {
	task, disabled, err := readTask(run.RawInput())
	if err != nil {
		return nil, err
	}
	x, err := s.open(ctx, &session{work: &run.Work, on: run, run: run, view: runView(run, task)}, disabled)
	if err != nil {
		return nil, err
	}
	x.tell(task)
	x.addContext()
	answer, err := x.converse(ctx)
	x.end(ctx, answer, err)
	if err != nil {
		return nil, err
	}
	if s.output != nil {
		return json.RawMessage(answer), nil
	}
	return answer, nil
}

// talk executes a turn.
func (s *surface) talk(ctx context.Context, turn *agent.Turn) (string, error) {
	x, err := s.open(ctx, &session{work: &turn.Work, on: turn, about: about(turn), view: turnView(turn)}, nil)
	if err != nil {
		return "", err
	}
	lines, err := turn.Transcript(ctx, s.limits.TranscriptMessages)
	if err != nil {
		return "", durable(err)
	}
	if len(lines) == s.limits.TranscriptMessages || len(lines) > 0 && lines[0].Role == "assistant" {
		// Nothing is cut silently, and a model expects the user to speak first.
		x.tell("[What was said before this is left out.]")
	}
	for _, line := range lines {
		if line.Role == "assistant" {
			x.said(line.Text)
			continue
		}
		x.tell(attributed(line))
	}
	x.addContext()
	answer, err := x.converse(ctx)
	x.end(ctx, answer, err)
	if refused, ok := refusal(err); ok {
		// The model's own words to the user are the better answer.
		return refused, nil
	}
	return answer, err
}

func about(turn *agent.Turn) []string {
	var runs []string
	if turn.Run != "" {
		runs = append(runs, turn.Run)
	}
	for _, told := range turn.Also {
		runs = append(runs, told.Run)
	}
	return runs
}

// attributed marks what the user did not say.
func attributed(line agent.Line) string {
	if line.Source == "" || line.Source == "user" {
		return line.Text
	}
	return "[Not from the user, but from " + line.Source + "] " + line.Text
}

// open journals what the session begins with and offers its tools.
func (s *surface) open(ctx context.Context, x *session, inherited []string) (*session, error) {
	x.surface, x.results, x.ids = s, map[string]result{}, map[string]string{}
	if err := x.see(ctx); err != nil {
		return nil, err
	}
	var err error
	x.begin, err = step(ctx, x, beginKey, func(ctx context.Context) (opening, error) {
		o := opening{Instructions: s.Instructions, Model: s.ModelName, Disabled: append(s.having(Disabled), inherited...), Approve: s.having(NeedsApproval)}
		if err := x.signalStart(ctx); err != nil {
			return o, err
		}
		replayed, known, err := x.replayed(ctx)
		if known {
			o = replayed
		} else if err == nil {
			o.Context, o.Active, err = x.background(ctx)
		}
		if err == nil {
			err = x.started(ctx)
		}
		return o, err
	})
	if err != nil {
		return nil, err
	}
	x.offer()
	return x, nil
}

// signalStart gives the first sign of life of a run: from now on its silence counts, so that
// one whose first model or tool call hangs is given up as well. That is one write.
func (x *session) signalStart(ctx context.Context) error {
	if x.run == nil {
		return nil
	}
	return x.run.Progress(ctx, agent.Progress{Phase: "started"})
}

// replayed is what the run began with that this one repeats.
func (x *session) replayed(ctx context.Context) (opening, bool, error) {
	if x.run == nil {
		return opening{}, false, nil
	}
	return agent.Replayed[opening](ctx, x.run, beginKey)
}

// background is the text that goes with the task: the caller's own, and what is at work.
func (x *session) background(ctx context.Context) (text string, active bool, err error) {
	var parts []string
	if x.Context != nil {
		own, err := x.Context(ctx, x.work)
		if err != nil {
			return "", false, err
		}
		parts = append(parts, own)
	}
	for _, run := range x.about {
		// The message has the beginning of the output only.
		parts = append(parts, fmt.Sprintf("manage_work {\"action\":\"inspect\",\"id\":%q} shows the whole output of a run that a message tells of.", run))
	}
	runs, err := x.children(ctx)
	if err != nil {
		return "", false, err
	}
	if len(runs) > 0 {
		parts = append(parts, activeWork(runs, x.work.Now()))
	}
	parts = slices.DeleteFunc(parts, func(p string) bool { return p == "" })
	return strings.Join(parts, "\n\n"), len(runs) > 0 || len(x.about) > 0, nil
}

// offer chooses the tools of this session.
func (x *session) offer() {
	var tools []Tool
	mayDispatch := true
	if x.run != nil {
		tools = append(tools, x.inRuns...)
		mayDispatch = x.limits.Depth == 0 || x.run.Depth < x.limits.Depth
		if mayDispatch {
			tools = append(tools, x.asking...)
		}
	}
	if mayDispatch {
		tools = append(tools, x.sending...)
	}
	if len(x.sending) > 0 && mayDispatch || x.begin.Active {
		tools = append(tools, x.managing...)
	}
	tools = append(tools, x.Tools...)
	if len(tools) > 0 {
		tools = append(tools, x.reading...)
	}
	x.tools = map[string]Tool{}
	for _, t := range tools {
		if slices.Contains(x.begin.Disabled, t.name) {
			continue
		}
		x.tools[t.name] = t
		x.offered = append(x.offered, model.Tool{Name: t.name, Description: t.description, Schema: t.args.raw})
	}
}

// tell adds words to the newest message of the user: roles alternate.
func (x *session) tell(text string) {
	if n := len(x.messages); n > 0 && x.messages[n-1].Role == model.User {
		x.messages[n-1].Text = joined(x.messages[n-1].Text, text)
		return
	}
	x.messages = append(x.messages, model.Message{Role: model.User, Text: text})
}

// said adds words of the model.
func (x *session) said(text string) {
	if n := len(x.messages); n > 0 && x.messages[n-1].Role == model.Assistant {
		x.messages[n-1].Text = joined(x.messages[n-1].Text, text)
		return
	}
	x.messages = append(x.messages, model.Message{Role: model.Assistant, Text: text})
}

func joined(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "\n\n" + b
}

// addContext puts the context before the newest words, and marks them as the task.
func (x *session) addContext() {
	x.asked = len(x.messages) - 1
	if x.asked >= 0 && x.begin.Context != "" {
		m := &x.messages[x.asked]
		m.Text = "<context>\n" + x.begin.Context + "\n</context>\n\n" + m.Text
	}
}
