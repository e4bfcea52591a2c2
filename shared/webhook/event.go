package webhook

import (
	"encoding/json"
	"time"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/api"
	"github.com/errand-dev/errand/shared/subagent"
)

// Event is the body of a message.
type Event struct {
	// Type is run.completed, run.error, run.aborted, or run.interrupted for a run that was
	// given up, of which a real end may follow.
	Type string `json:"type"`
	// Timestamp is when the message was sent.
	Timestamp api.Time `json:"timestamp"`
	Data      Run      `json:"data"`
}

// Run is the run whose end is told, in the words of the API.
type Run struct {
	ID                string          `json:"id"`
	Conversation      string          `json:"conversation"`
	Agent             string          `json:"agent"`
	ParentRunID       string          `json:"parent_run_id,omitempty"`
	ReplayOf          string          `json:"replay_of,omitempty"`
	Status            subagent.Status `json:"status"`
	Summary           string          `json:"summary,omitempty"`
	Output            json.RawMessage `json:"output,omitempty"`
	Error             string          `json:"error,omitempty"`
	Reason            string          `json:"reason,omitempty"`
	ChildStillRunning bool            `json:"child_still_running,omitempty"`
	DispatchedAt      api.Time        `json:"dispatched_at"`
}

func eventOf(d agent.Delivery, now time.Time) Event {
	r := d.Run
	return Event{
		Type: "run." + string(r.Status), Timestamp: api.Time{Time: now},
		Data: Run{
			ID: r.ID, Conversation: r.Owner.Conversation, Agent: r.Agent, ParentRunID: r.Parent, ReplayOf: r.ReplayOf, Status: r.Status,
			Summary: r.Summary, Output: d.Output, Error: r.Problem, Reason: r.Reason,
			ChildStillRunning: r.ChildStillRunning, DispatchedAt: api.Time{Time: r.DispatchedAt},
		},
	}
}
