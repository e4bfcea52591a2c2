package api

import "encoding/json"

// Wait is what a waiting run or turn waits for: the first of what it names ends the wait.
type Wait struct {
	Runs      []string `json:"runs,omitempty"`
	Need      int      `json:"need,omitempty" doc:"How many of runs must have ended."`
	Milestone string   `json:"milestone,omitempty" doc:"Of the one run in runs."`
	Signal    string   `json:"signal,omitempty" doc:"An answer from outside: the id of an approval, or the key of a callback."`
	Until     Time     `json:"until,omitzero" doc:"When it goes on in any case."`
}

// Approval is a question to people that a waiting run or turn has asked and nobody has
// answered.
type Approval struct {
	ID      string          `json:"id"`
	Title   string          `json:"title"`
	Detail  json.RawMessage `json:"detail,omitempty" doc:"What helps to decide."`
	AskedAt Time            `json:"asked_at"`
	Until   Time            `json:"until,omitzero" doc:"When nobody waits for an answer any more."`
}

// Limits of answers from outside.
const (
	// MaxNote is the longest note of a decision, in bytes.
	MaxNote = 16 << 10
	// MaxCallback is the largest output or error of a callback, in bytes of JSON as it is
	// kept, where < > & in texts count six.
	MaxCallback = 200 << 10
	// MaxReportMessage and MaxReportPhase bound the texts of a progress report, in bytes.
	MaxReportMessage = 200
	MaxReportPhase   = 64
	// MaxReportData is the largest data of a progress report, MaxMilestoneData that of a
	// milestone.
	MaxReportData    = 16 << 10
	MaxMilestoneData = 64 << 10
)

// DecisionRequest answers an approval.
type DecisionRequest struct {
	Approved *bool  `json:"approved"`
	Note     string `json:"note,omitempty" doc:"What whoever decided says about it, at most 16 KB."`
}

// CallbackRequest ends the wait for a callback: exactly one of the two is given.
type CallbackRequest struct {
	Output json.RawMessage `json:"output,omitempty" doc:"Any JSON value, at most 200 KB."`
	Error  *string         `json:"error,omitempty" doc:"What went wrong, instead of an output."`
}

// ReportRequest is progress that is reported from outside. An empty one is a sign of life.
type ReportRequest struct {
	Fraction  *float64        `json:"fraction,omitempty" doc:"From 0 to 1."`
	Message   string          `json:"message,omitempty" doc:"At most 200 bytes."`
	Phase     string          `json:"phase,omitempty" doc:"At most 64 bytes."`
	Milestone string          `json:"milestone,omitempty" doc:"The name of a durable point that was reached; the same one again changes nothing."`
	Data      json.RawMessage `json:"data,omitempty" doc:"Kept with the milestone, at most 64 KB; without one it is shown to whoever is watching and not kept, at most 16 KB."`
}
