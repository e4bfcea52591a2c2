// Package api is the wire form of Errand's HTTP API: the JSON that the server
// (package ingress) and its clients (package apiclient) exchange. It holds plain
// values and their encoding, and uses nothing but the standard library and money.
//
// Optional fields are absent when they have nothing to say. The tags doc, enum and
// optional describe a field in the OpenAPI document, which a test keeps equal to
// these types.
package api

import (
	"encoding/json"
	"fmt"
	"time"
)

// Limits of requests.
const (
	// MaxKey is the longest Idempotency-Key, in characters.
	MaxKey = 255
	// MaxWait is the longest time that a request for events may wait.
	MaxWait = 25 * time.Second
	// DefaultLimit and MaxLimit bound one page.
	DefaultLimit = 100
	MaxLimit     = 500
)

// Time is a moment, written as RFC 3339 in UTC with milliseconds.
type Time struct{ time.Time }

const timeFormat = "2006-01-02T15:04:05.000Z"

// MarshalJSON implements json.Marshaler.
func (t Time) MarshalJSON() ([]byte, error) {
	return json.Marshal(t.UTC().Format(timeFormat))
}

// UnmarshalJSON implements json.Unmarshaler. It takes any RFC 3339 time.
func (t *Time) UnmarshalJSON(raw []byte) error {
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return fmt.Errorf("decoding a time: %w", err)
	}
	parsed, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return fmt.Errorf("decoding a time: %w", err)
	}
	t.Time = parsed.UTC()
	return nil
}

// TurnRequest asks for one turn.
type TurnRequest struct {
	Message  string            `json:"message" doc:"What the user says, at most 256 KB."`
	Agent    string            `json:"agent,omitempty" doc:"The agent of the conversation; its first turn fixes it."`
	Metadata map[string]string `json:"metadata,omitempty" doc:"Free texts kept with the turn, at most 16 KB."`
}

// Turn is one input to a conversation, and what became of it.
type Turn struct {
	ID           string     `json:"id"`
	Conversation string     `json:"conversation"`
	Kind         string     `json:"kind" enum:"user,finish,give_up,milestone,schedule"`
	Status       string     `json:"status" enum:"queued,running,waiting,completed,error,aborted"`
	RunID        string     `json:"run_id,omitempty" doc:"The run that an injected turn tells of."`
	WaitingFor   *Wait      `json:"waiting_for,omitempty" doc:"Set while it waits."`
	Approvals    []Approval `json:"approvals,omitempty" doc:"What it asks people and waits for."`
	Reply        string     `json:"reply,omitempty"`
	Error        string     `json:"error,omitempty"`
	Cost         *Cost      `json:"cost,omitempty" doc:"What the model calls of a turn that has ended have cost; absent if there were none."`
	AcceptedAt   Time       `json:"accepted_at"`
	StartedAt    Time       `json:"started_at,omitzero"`
	CompletedAt  Time       `json:"completed_at,omitzero"`
}

// Done reports whether the turn has ended.
func (t Turn) Done() bool {
	return t.Status == "completed" || t.Status == "error" || t.Status == "aborted"
}

// Conversation is a conversation and how much is going on in it.
type Conversation struct {
	ID        string     `json:"id"`
	Agent     string     `json:"agent,omitempty" doc:"Absent until the first turn, which fixes it."`
	Turns     TurnCounts `json:"turns"`
	Runs      RunCounts  `json:"runs"`
	CreatedAt Time       `json:"created_at"`
}

// TurnCounts counts turns that have not ended.
type TurnCounts struct {
	Queued  int `json:"queued"`
	Running int `json:"running"`
}

// RunCounts counts background runs that have not ended.
type RunCounts struct {
	Active int `json:"active"`
}

// Message is one entry of the transcript.
type Message struct {
	Seq       int64  `json:"seq"`
	ID        string `json:"id"`
	Role      string `json:"role" enum:"user,assistant,tool"`
	Text      string `json:"text"`
	Source    string `json:"source" doc:"user, agent, detached-agent-tool or the run's notify source."`
	RunID     string `json:"run_id,omitempty"`
	Milestone string `json:"milestone,omitempty"`
	CreatedAt Time   `json:"created_at"`
}

// MessagePage is a page of the transcript, in order.
type MessagePage struct {
	Messages []Message `json:"messages"`
	Next     string    `json:"next,omitempty" doc:"Pass as after for the next page; absent on the last."`
}

// Event is one entry of a conversation's log. Seq is zero, and absent, on ephemeral
// events: those are shown and not kept.
type Event struct {
	Seq    int64           `json:"seq,omitempty"`
	Type   string          `json:"type"`
	RunID  string          `json:"run_id,omitempty"`
	TurnID string          `json:"turn_id,omitempty"`
	At     Time            `json:"at"`
	Data   json.RawMessage `json:"data,omitempty"`
}

// EventPage is a page of the log.
type EventPage struct {
	Events []Event `json:"events"`
	Next   int64   `json:"next" doc:"Pass as after to go on from here."`
}

// Why tells how a run came to where it is.
type Why struct {
	RunID    string   `json:"run_id"`
	Now      string   `json:"now" doc:"One sentence: what the run waits for, and what happens next."`
	Timeline []Moment `json:"timeline"`
}

// Moment is one entry of a timeline.
type Moment struct {
	At     Time   `json:"at"`
	What   string `json:"what"`
	Detail string `json:"detail,omitempty"`
}

// Health says that the server is alive.
type Health struct {
	Status  string `json:"status" enum:"ok"`
	Version string `json:"version"`
}
