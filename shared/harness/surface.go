package harness

import (
	"errors"
	"fmt"
	"regexp"
	"slices"

	"github.com/errand-dev/errand/shared/model"
)

// surface is an agent, checked and compiled: what all its runs share.
type surface struct {
	Agent
	limits   Limits
	output   *schema
	inRuns   []Tool // report_progress
	asking   []Tool // ask_… for each subagent: in runs only
	sending  []Tool // background_… for each subagent
	managing []Tool // manage_work, read_subagent, send_followup, wait_for
	reading  []Tool // read_result
}

// toolName is what vendors accept as the name of a tool.
var toolName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// surfaceOf checks what can be told of the agent alone.
func surfaceOf(a Agent) (*surface, error) {
	s := &surface{Agent: a, limits: a.Limits.withDefaults()}
	if err := s.build(); err != nil {
		return nil, fmt.Errorf("agent %q: %w", a.Name, err)
	}
	return s, nil
}

func (s *surface) build() error {
	if !toolName.MatchString(s.Name) {
		return errors.New("a name has 1 to 64 letters, digits, _ and -")
	}
	if s.Model == nil {
		return errors.New("it has no model")
	}
	if _, ok := s.Model.(model.Background); s.InBackground && !ok {
		return fmt.Errorf("its model %T has no background mode", s.Model)
	}
	if err := s.Agent.Limits.check(); err != nil {
		return err
	}
	if s.OutputSchema != nil {
		var err error
		if s.output, err = compile(s.OutputSchema); err != nil {
			return fmt.Errorf("its output schema: %w", err)
		}
	}
	for name, policy := range s.Policies {
		switch policy {
		case Enabled, Disabled, NeedsApproval:
		default:
			return fmt.Errorf("tool %q has the policy %q; it is enabled, disabled or needs_approval", name, policy)
		}
	}
	return s.assemble()
}

// assemble compiles the tools, ours and the agent's, and refuses two of one name.
func (s *surface) assemble() error {
	s.inRuns = []Tool{reportProgress()}
	s.managing = []Tool{manageWork(), readSubagent(), sendFollowup(), waitFor()}
	for i := range s.Subagents {
		ask, background := subagentTools(s.Subagents[i])
		s.asking, s.sending = append(s.asking, ask), append(s.sending, background)
	}
	s.reading = []Tool{readResult()}
	seen := map[string]bool{}
	for _, t := range slices.Concat(s.inRuns, s.managing, s.asking, s.sending, s.reading, s.Tools) {
		switch {
		case t.err != nil:
			return t.err
		case !toolName.MatchString(t.name):
			return fmt.Errorf("tool %q: a name has 1 to 64 letters, digits, _ and -", t.name)
		case t.call == nil && t.asks == nil:
			return fmt.Errorf("tool %q was not made by NewTool", t.name)
		case seen[t.name]:
			return fmt.Errorf("tool %q: there is one of this name", t.name)
		}
		seen[t.name] = true
	}
	return nil
}

// names lists every tool that the agent may have.
func (s *surface) names() []string {
	var names []string
	for _, t := range slices.Concat(s.Tools, s.inRuns, s.asking, s.sending, s.managing, s.reading) {
		names = append(names, t.name)
	}
	return names
}

func (l Limits) check() error {
	for name, value := range map[string]int{
		"Iterations": l.Iterations, "OutputRetries": l.OutputRetries, "ModelAttempts": l.ModelAttempts,
		"Repeats": l.Repeats, "Parallel": l.Parallel, "Depth": l.Depth, "ContextTokens": l.ContextTokens,
		"KeepMessages": l.KeepMessages, "ResultBytes": l.ResultBytes,
		"TranscriptMessages": l.TranscriptMessages, "AnswerTokens": l.AnswerTokens,
	} {
		if value < 0 {
			return fmt.Errorf("its limit %s is %d; it cannot be negative", name, value)
		}
	}
	if l.Tokens < 0 || l.USD < 0 {
		return errors.New("its limits Tokens and USD cannot be negative")
	}
	return nil
}

// having lists the tools that have the policy, by the agent's own word.
func (s *surface) having(wanted Policy) []string {
	var names []string
	for name, policy := range s.Policies {
		if policy == wanted {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
