package agent

import "errors"

// Refusals of new work by what an operator has set for the agent (package operator).
// Nothing was written; the same can be asked for again later.
var (
	ErrAgentDisabled = errors.New("the agent is disabled by an operator")
	ErrInMaintenance = errors.New("the agent is in maintenance and takes no new work; try again later")
)
