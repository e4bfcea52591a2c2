package subagent

import (
	"maps"
)

// Maintenance says what an agent does with new work meanwhile.
type Maintenance string

const (
	// NoMaintenance: it works.
	NoMaintenance Maintenance = "off"
	// AcceptInMaintenance: work is accepted and waits.
	AcceptInMaintenance Maintenance = "accept"
	// RejectInMaintenance: new work is refused; what was accepted before goes on.
	RejectInMaintenance Maintenance = "reject"
)

// Control is what an operator has set for one agent.
type Control struct {
	// Disabled: new work is refused; what was accepted before goes on.
	Disabled    bool        `json:"off,omitempty"`
	Maintenance Maintenance `json:"m,omitempty"`
}

// Admission says what becomes of new work for an agent.
type Admission int

const (
	// Admitted: it is accepted; it may have to wait (Holds).
	Admitted Admission = iota
	// RefusedDisabled: the agent is disabled.
	RefusedDisabled
	// RefusedMaintenance: it is in maintenance and rejects.
	RefusedMaintenance
)

// Controls are those of all agents of a deployment, by the agent's name. An agent without
// an entry works.
type Controls struct {
	Agents map[string]Control `json:"agents,omitempty"`
}

// Of returns the control of an agent.
func (c Controls) Of(agent string) Control {
	set := c.Agents[agent]
	if set.Maintenance == "" {
		set.Maintenance = NoMaintenance
	}
	return set
}

// Admit judges new work: a turn, a dispatch or the firing of a schedule. Disabled wins.
func (c Controls) Admit(agent string) Admission {
	switch set := c.Of(agent); {
	case set.Disabled:
		return RefusedDisabled
	case set.Maintenance == RejectInMaintenance:
		return RefusedMaintenance
	}
	return Admitted
}

// Holds reports whether accepted work of the agent that has not begun must wait.
func (c Controls) Holds(agent string) bool {
	return c.Of(agent).Maintenance == AcceptInMaintenance
}

// Set sets the control of an agent; Mine if that is what it is.
func (c Controls) Set(agent string, to Control) (Controls, Outcome) {
	if to.Maintenance == NoMaintenance {
		to.Maintenance = ""
	}
	if c.Agents[agent] == to {
		return c, Mine
	}
	next := maps.Clone(c.Agents)
	if next == nil {
		next = map[string]Control{}
	}
	next[agent] = to
	if to == (Control{}) {
		delete(next, agent)
	}
	return Controls{Agents: next}, Apply
}
