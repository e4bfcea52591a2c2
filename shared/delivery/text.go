package delivery

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/subagent"
)

// completionText is the text of a finish or give_up message; empty suppresses it.
func (c *Courier) completionText(ctx context.Context, r subagent.Run) string {
	if c.Agents.FormatCompletion != nil {
		return c.formatted(ctx, r, func() string { return c.Agents.FormatCompletion(agent.InfoOf(r)) }, completionText)
	}
	return completionText(r)
}

// formatted is the text of the user's own format or, if that panics, ours: a bad
// format must not keep a result from its receiver.
func (c *Courier) formatted(ctx context.Context, r subagent.Run, format func() string, ours func(subagent.Run) string) string {
	text, err := agent.Protect(func() (string, error) { return format(), nil })
	if err != nil {
		c.Log.ErrorContext(ctx, "format failed", "run_id", r.ID, "error", err)
		return ours(r)
	}
	return text
}

func completionText(r subagent.Run) string {
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
func (c *Courier) milestoneText(ctx context.Context, r subagent.Run, m agent.Milestone) string {
	ours := func(r subagent.Run) string { return milestoneText(r, m) }
	if c.Agents.FormatMilestone != nil {
		return c.formatted(ctx, r, func() string { return c.Agents.FormatMilestone(agent.InfoOf(r), m) }, ours)
	}
	return ours(r)
}

func milestoneText(r subagent.Run, m agent.Milestone) string {
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
