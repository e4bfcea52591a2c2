// Package harness drives agents that are instructions and a model. An Agent is plain
// data; Task makes a background subagent of it, Chat the agent of a conversation, and
// Register puts both into a registry after it has checked them all.
//
// One loop does the work (loop.go): context, model, tool calls, and again, until the
// model answers. Every model call and every tool call is a step of the run's journal
// under a key made of its place in the loop. A request is never stored: it is rebuilt
// from the results in the journal. So a run that is killed anywhere goes on where it
// was, and no finished call is paid for twice.
//
// Besides an agent's own tools its model is offered:
//
//	background_NAME    sends the subagent of that name off and goes on
//	ask_NAME           waits for its answer; in runs only
//	manage_work, read_subagent, send_followup, wait_for    for what was sent off
//	report_progress    in runs only
//	read_result        for results that were too long to show
//
// Agent, NewTool, Subagent and others have examples that run; a whole program is
// examples/assistant.
package harness

import (
	"cmp"
	"context"
	"encoding/json"
	"time"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/model"
	"github.com/errand-dev/errand/shared/money"
	"github.com/errand-dev/errand/shared/subagent"
)

// Agent is what users declare.
type Agent struct {
	// Name is registered, stored with each run, and shown to models: letters, digits, _ and -.
	Name string
	// Description tells other agents' models what the agent is for.
	Description  string
	Instructions string
	Model        model.Model
	// InBackground makes model calls in the vendor's background mode: the run or turn holds
	// no process while the model thinks. Model must implement model.Background.
	InBackground bool
	// ModelName names the vendor's model; empty means Model's default.
	ModelName string
	Tools     []Tool
	Subagents []Subagent
	// Policies override, by the name of a tool, that it may be called. Tools like
	// background_NAME are tools too.
	Policies map[string]Policy
	Limits   Limits
	Hooks    Hooks
	// OutputSchema, if set, is the JSON schema that answers must follow; the answer is
	// then JSON. SchemaOf derives one from a Go type.
	OutputSchema json.RawMessage
	// Context, if set, returns text that goes with the task, like the date or the user's
	// preferences. It is asked once per run or turn and its answer is kept.
	Context func(ctx context.Context, w *agent.Work) (string, error)
}

// Subagent is an agent or task that the agent's model may send off.
type Subagent struct {
	// Name is that of a registered agent or task.
	Name string
	// Description tells the model what it is for; empty means the agent's own.
	Description string
	// Input is the JSON schema of a task's input, an object. Empty means that it takes
	// {"task": "…"}, as every Agent does.
	Input  json.RawMessage
	Budget subagent.Budget
	// structured: it has an output schema. Register finds out.
	structured bool
	// agent: it is an Agent, not a task in Go. Register finds out.
	agent bool
}

// Policy says whether a tool may be called: Enabled, which is the default, Disabled or
// NeedsApproval.
type Policy string

const (
	Enabled Policy = "enabled"
	// Disabled: the tool is not offered, neither to the agent nor to any below it.
	Disabled Policy = "disabled"
	// NeedsApproval: somebody must approve each call first; the run or turn waits without
	// a process. A refusal is told to the model.
	NeedsApproval Policy = "needs_approval"
)

// Limits bound a run or turn; zero values mean the defaults given.
type Limits struct {
	// Iterations is how many model calls there may be: 50. One that only reports
	// progress does not count.
	Iterations int
	// OutputRetries is how often a bad or cut answer is sent back to the model: 2.
	OutputRetries int
	// ModelAttempts is how often one call is tried before the run is put off: 4.
	ModelAttempts int
	// Repeats is how often in a row the model may make the same calls: 3. It is told
	// then, and after as many tellings the run fails as stalled.
	Repeats int
	// Parallel is how many tool calls of one answer are made at a time: 8.
	Parallel int
	// Depth bounds nesting: a run of this agent that has so many runs above it is offered
	// no subagents. Zero means no bound of its own; a cycle of agents needs one.
	Depth int
	// ContextTokens is the estimated size above which the context is compacted: 100,000.
	ContextTokens int
	// KeepMessages is how many of the newest messages compaction never touches: 8.
	KeepMessages int
	// ResultBytes is how much of a tool's result the model is shown at once: 16 KB.
	ResultBytes int
	// TranscriptMessages is how much of a conversation a turn looks back on: 50.
	TranscriptMessages int
	// AnswerTokens bounds one answer; zero means the model's default.
	AnswerTokens int
	// Approval is how long a call waits for approval, in a turn at most an hour: 24 h.
	Approval time.Duration
	// Tokens and USD bound what a run or turn of this agent may spend on its own model
	// calls. A call that could pass a bound is not made, and the run ends with the reason
	// spend-exceeded. Zero means no bound; Budget of a dispatch bounds whole trees.
	Tokens int64
	USD    money.USD
	// AskWhenSpent: at such a bound, or at the one of the tree, people are asked whether as much
	// again may be spent, and the run or turn waits for them as it does for an Approval.
	AskWhenSpent bool
}

// allowance is what the agent may spend on its own calls.
func (l Limits) allowance() subagent.Allowance {
	return subagent.Allowance{Tokens: l.Tokens, Cost: l.USD}
}

func (l Limits) withDefaults() Limits {
	l.Iterations = cmp.Or(l.Iterations, 50)
	l.OutputRetries = cmp.Or(l.OutputRetries, 2)
	l.ModelAttempts = cmp.Or(l.ModelAttempts, 4)
	l.Repeats = cmp.Or(l.Repeats, 3)
	l.Parallel = cmp.Or(l.Parallel, 8)
	l.ContextTokens = cmp.Or(l.ContextTokens, 100_000)
	l.KeepMessages = cmp.Or(l.KeepMessages, 8)
	l.ResultBytes = cmp.Or(l.ResultBytes, 16<<10)
	l.TranscriptMessages = cmp.Or(l.TranscriptMessages, 50)
	l.Approval = cmp.Or(l.Approval, 24*time.Hour)
	return l
}

// Task makes a background subagent of the agent. Its input is a text or {"task": "…"};
// any other JSON is shown to the model as it is. Its output is the answer: a text, or
// JSON if the agent has an output schema. A bad declaration ends its runs with an
// error: Register finds it earlier.
func Task(a Agent) agent.Task {
	s, err := surfaceOf(a)
	return func(ctx context.Context, run *agent.Run) (any, error) {
		if err != nil {
			return nil, err
		}
		return s.work(ctx, run)
	}
}

// Chat makes the agent of a conversation of it. It remembers what was said in the
// conversation, and hears of the background work that it has sent off.
func Chat(a Agent) agent.Chat {
	s, err := surfaceOf(a)
	return func(ctx context.Context, turn *agent.Turn) (string, error) {
		if err != nil {
			return "", err
		}
		return s.talk(ctx, turn)
	}
}
