package ingress

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/errand-dev/errand/shared/api"
	"github.com/errand-dev/errand/shared/subagent"
)

// errSwitchedOff is returned where a deployment does not obey what operators set.
var errSwitchedOff = errors.New("operator control is switched off in this deployment")

func agentRoutes() []route {
	const path = "/v1/agents/{agent}/control"
	all := []route{
		{method: "GET", path: path, name: "getAgentControl", summary: "What operators have set for an agent", handle: getAgentControl,
			status: http.StatusOK, answer: api.AgentControl{}},
		{method: "PUT", path: path, name: "setAgentControl", summary: "Enable or disable an agent, or begin and end its maintenance", handle: putAgentControl,
			request: api.AgentControlRequest{}, status: http.StatusOK, answer: api.AgentControl{}, problems: body()},
	}
	for i := range all {
		all[i].operator = true
		all[i].problems = append(all[i].problems, codeNotFound, codeSwitchedOff, codeOperatorOnly,
			codeInvalidID, codeUnknownField, codeInvalidParameter, codeUnauthenticated)
	}
	return all
}

func getAgentControl(h *handler, c *call) error {
	name, err := h.agentName(c)
	if err != nil {
		return err
	}
	set, err := h.Controls.Control(c.r.Context(), name)
	if err != nil {
		return err
	}
	h.ok(c, http.StatusOK, viewControl(name, set))
	return nil
}

func putAgentControl(h *handler, c *call) error {
	name, err := h.agentName(c)
	if err != nil {
		return err
	}
	var req api.AgentControlRequest
	if err := c.body(&req, false); err != nil {
		return err
	}
	to := subagent.Control{Maintenance: subagent.Maintenance(req.Maintenance)}
	switch to.Maintenance {
	case subagent.NoMaintenance, subagent.AcceptInMaintenance, subagent.RejectInMaintenance:
	default:
		return atFault("maintenance", fmt.Errorf("%w: it must be off, accept or reject", errInvalidBody))
	}
	if req.Enabled == nil {
		return atFault("enabled", fmt.Errorf("%w: it must be true or false", errInvalidBody))
	}
	to.Disabled = !*req.Enabled
	set, err := h.Controls.Set(c.r.Context(), name, to)
	if err != nil {
		return err
	}
	h.Log.InfoContext(c.r.Context(), "agent controlled", "agent", name, "enabled", !set.Disabled, "maintenance", set.Maintenance)
	h.ok(c, http.StatusOK, viewControl(name, set))
	return nil
}

// agentName returns the agent that the path names: one for conversations, or a task.
func (h *handler) agentName(c *call) (string, error) {
	name, err := c.pathID("agent")
	if err != nil {
		return "", err
	}
	if h.Controls == nil {
		return "", errSwitchedOff
	}
	known := slices.Concat(h.Agents.Chats(), h.Agents.Tasks())
	slices.Sort(known)
	known = slices.Compact(known) // an agent of instructions is both
	if !slices.Contains(known, name) {
		return "", fmt.Errorf("%w: agent %s; there are: %s", ErrNotFound, name, strings.Join(known, ", "))
	}
	return name, nil
}

func viewControl(name string, set subagent.Control) api.AgentControl {
	return api.AgentControl{Agent: name, Enabled: !set.Disabled, Maintenance: string(set.Maintenance)}
}
