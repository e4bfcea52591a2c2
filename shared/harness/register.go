package harness

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/errand-dev/errand/shared/agent"
)

// Register checks all the agents, then adds each to the registry, as a task and as a
// chat of its name. The first becomes the default of new conversations if the registry
// has none. Tasks that agents name as their subagents must be registered before.
//
// It refuses two agents of one name, a subagent or a policy whose name nothing has, a
// cycle of subagents in which no agent has Limits.Depth, and whatever is wrong with an
// agent alone. After an error about an agent nothing was added.
func Register(r *agent.Registry, agents ...Agent) error {
	byName := map[string]Agent{}
	for _, a := range agents {
		_, task := r.Task(a.Name)
		_, chat := r.Chat(a.Name)
		if _, twice := byName[a.Name]; twice || task || chat {
			return fmt.Errorf("agent %q: there is one of this name", a.Name)
		}
		byName[a.Name] = a
	}
	linked := make([]Agent, len(agents))
	var tools []string
	var errs []error
	for i, a := range agents {
		var err error
		if linked[i], err = link(r, byName, a); err != nil {
			errs = append(errs, err)
			continue
		}
		s, err := surfaceOf(linked[i])
		if err != nil {
			errs = append(errs, err)
			continue
		}
		tools = append(tools, s.names()...)
	}
	if len(errs) == 0 {
		errs = append(errs, checkPolicies(agents, tools), checkCycles(agents, byName))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for _, a := range linked {
		if err := errors.Join(r.AddTask(a.Name, Task(a)), r.AddChat(a.Name, Chat(a))); err != nil {
			return err
		}
	}
	return nil
}

// link completes what the agent says of its subagents by what they say themselves.
func link(r *agent.Registry, byName map[string]Agent, a Agent) (Agent, error) {
	a.Subagents = slices.Clone(a.Subagents)
	for i := range a.Subagents {
		sub := &a.Subagents[i]
		if child, ok := byName[sub.Name]; ok {
			if sub.Description == "" {
				sub.Description = child.Description
			}
			sub.agent, sub.structured = true, child.OutputSchema != nil
			continue
		}
		if _, ok := r.Task(sub.Name); !ok {
			return a, fmt.Errorf("agent %q: its subagent %q is neither an agent nor a registered task", a.Name, sub.Name)
		}
	}
	return a, nil
}

// checkPolicies refuses a policy for a tool that no agent has. A policy may be meant
// for the tools of agents further down.
func checkPolicies(agents []Agent, tools []string) error {
	for _, a := range agents {
		for name := range a.Policies {
			if !slices.Contains(tools, name) {
				return fmt.Errorf("agent %q: its policy names the tool %q, which no agent has", a.Name, name)
			}
		}
	}
	return nil
}

// checkCycles refuses agents that could send each other off without end. An agent with a
// depth limit ends every chain that it stands in.
func checkCycles(agents []Agent, byName map[string]Agent) error {
	done := map[string]bool{}
	var visit func(name string, path []string) error
	visit = func(name string, path []string) error {
		a, ok := byName[name]
		if !ok || a.Limits.Depth > 0 || done[name] {
			return nil
		}
		if i := slices.Index(path, name); i >= 0 {
			return fmt.Errorf("agents send each other off in a cycle, %s; set Limits.Depth of one of them", strings.Join(append(path[i:], name), " -> "))
		}
		for _, sub := range a.Subagents {
			if err := visit(sub.Name, append(slices.Clone(path), name)); err != nil {
				return err
			}
		}
		done[name] = true
		return nil
	}
	for _, a := range agents {
		if err := visit(a.Name, nil); err != nil {
			return err
		}
	}
	return nil
}
