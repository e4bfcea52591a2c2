package delivery

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/subagent"
)

// completionText is the text of a finish or give_up message; empty suppresses it.
func (c *Courier) completionText(r subagent.Run) string {
	info := agent.InfoOf(r)
	if c.Agents.FormatCompletion != nil {
		return c.Agents.FormatCompletion(info)
	}
	name := fmt.Sprintf("The background task %q (run %s)", r.Agent, r.ID)
	switch r.Status {
	case subagent.Completed:
		if r.Summary == "" {
			return name + " has completed."
		}
		return name + " has completed: " + r.Summary
	case subagent.Error:
		return name + " ended in an error: " + r.Problem
	case subagent.Aborted:
		return name + " was cancelled."
	case subagent.Interrupted:
		if r.Reason == subagent.ReasonNoProgress {
			return name + " was given up: it made no progress for too long."
		}
		return name + " ran out of time and was given up."
	}
	return ""
}

// milestoneText is the text of a milestone message; empty suppresses it.
func (c *Courier) milestoneText(r subagent.Run, m agent.Milestone) string {
	if c.Agents.FormatMilestone != nil {
		return c.Agents.FormatMilestone(agent.InfoOf(r), m)
	}
	text := fmt.Sprintf("The background task %q (run %s) has reached %q.", r.Agent, r.ID, m.Name)
	if len(m.Data) == 0 {
		return text
	}
	var pretty bytes.Buffer
	if json.Indent(&pretty, m.Data, "", "  ") != nil {
		return text
	}
	return text + "\n" + pretty.String()
}
