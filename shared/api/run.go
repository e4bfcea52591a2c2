package api

import (
	"bytes"
	"encoding/json"

	"github.com/errand-dev/errand/shared/money"
)

// DispatchRequest asks for a background run.
type DispatchRequest struct {
	Agent    string          `json:"agent"`
	Input    json.RawMessage `json:"input,omitempty" doc:"Any JSON value, at most 1 MB; what it must be is the agent's business."`
	RunID    string          `json:"run_id,omitempty" doc:"The same id is the same run. Without it the id comes from the Idempotency-Key, else it is fresh."`
	Detached *Detached       `json:"detached,omitempty" doc:"How the end is told and how long it is waited for; {\"notify\":true} if absent, {} is fire and forget."`
}

// Detached says how a run is waited for, and how its end is told.
type Detached struct {
	OnFinish           string      `json:"on_finish,omitempty" doc:"The name of a registered handler; it wins over notify."`
	Notify             Notify      `json:"notify,omitzero"`
	MaxBudgetMS        *int64      `json:"max_budget_ms,omitempty" doc:"From 1; 24 hours if absent."`
	NoProgressBudgetMS *int64      `json:"no_progress_budget_ms,omitempty" doc:"0 switches it off; one hour if absent."`
	MaxTokens          *int64      `json:"max_tokens,omitempty" doc:"What the model calls of the run and of all below it may take; no bound if absent."`
	MaxUSD             *Dollars    `json:"max_usd,omitempty" doc:"What they may cost in US dollars, by the server's price table; no bound if absent."`
	OnMilestones       *Milestones `json:"on_milestones,omitempty"`
}

// Dollars is a limit of money.
type Dollars money.USD

// MarshalJSON implements json.Marshaler.
func (d Dollars) MarshalJSON() ([]byte, error) { return money.USD(d).MarshalJSON() }

// UnmarshalJSON implements json.Unmarshaler.
func (d *Dollars) UnmarshalJSON(raw []byte) error {
	if (*money.USD)(d).UnmarshalJSON(raw) != nil {
		return &FieldError{Field: limitField, Problem: "must be a number of US dollars like 1.50, with at most 9 digits behind the point"}
	}
	return nil
}

// Notify asks for a message in the conversation: true, or an object that names its source.
type Notify struct {
	On     bool
	Source string
}

// Where the types that decode themselves stand in a request.
const (
	limitField      = "detached.max_usd"
	notifyField     = "detached.notify"
	milestonesField = "detached.on_milestones"
)

type notifyObject struct {
	Source string `json:"source"`
}

// MarshalJSON implements json.Marshaler.
func (n Notify) MarshalJSON() ([]byte, error) {
	if n.On && n.Source != "" {
		return json.Marshal(notifyObject{n.Source})
	}
	return json.Marshal(n.On)
}

// UnmarshalJSON implements json.Unmarshaler.
func (n *Notify) UnmarshalJSON(raw []byte) error {
	if raw[0] != '{' {
		if json.Unmarshal(raw, &n.On) != nil {
			return &FieldError{Field: notifyField, Problem: "must be true, false or an object with source"}
		}
		return nil
	}
	var object notifyObject
	if err := Decode(raw, &object); err != nil {
		return within(notifyField, err)
	}
	n.On, n.Source = true, object.Source
	return nil
}

// Milestones names the milestones that are told: an array of names, or an object with
// names and mode.
type Milestones struct {
	Names []string
	// Mode is narrate, the default, or react.
	Mode string
}

type milestonesObject struct {
	Names []string `json:"names"`
	Mode  string   `json:"mode,omitempty" enum:"narrate,react"`
}

// MarshalJSON implements json.Marshaler.
func (m Milestones) MarshalJSON() ([]byte, error) {
	if m.Mode == "" {
		return json.Marshal(m.Names)
	}
	return json.Marshal(milestonesObject(m))
}

// UnmarshalJSON implements json.Unmarshaler.
func (m *Milestones) UnmarshalJSON(raw []byte) error {
	if raw[0] != '{' {
		if json.Unmarshal(raw, &m.Names) != nil {
			return &FieldError{Field: milestonesField, Problem: "must be an array of names or an object with names and mode"}
		}
		return nil
	}
	var object milestonesObject
	if err := Decode(raw, &object); err != nil {
		return within(milestonesField, err)
	}
	*m = Milestones(object)
	return nil
}

// CancelRequest says why a run is cancelled.
type CancelRequest struct {
	Reason string `json:"reason,omitempty"`
}

// FollowUpRequest is a message into a running run.
type FollowUpRequest struct {
	Text string `json:"text" doc:"At most 256 KB."`
}

// RedriveRequest names the slot to deliver again.
type RedriveRequest struct {
	Slot string `json:"slot,omitempty" enum:"finish,give_up" doc:"Whichever is dead-lettered if absent."`
}

// Run is a background run.
type Run struct {
	ID                string          `json:"id"`
	Conversation      string          `json:"conversation"`
	Agent             string          `json:"agent"`
	ParentRunID       string          `json:"parent_run_id,omitempty"`
	ReplayOf          string          `json:"replay_of,omitempty" doc:"The run that this one repeats."`
	Detached          bool            `json:"detached"`
	Status            string          `json:"status" enum:"queued,running,waiting,completed,error,aborted,interrupted"`
	WaitingFor        *Wait           `json:"waiting_for,omitempty" doc:"Set while it waits."`
	Approvals         []Approval      `json:"approvals,omitempty" doc:"What it asks people and waits for. Left out in lists."`
	Progress          *Progress       `json:"progress,omitempty"`
	Milestones        []Milestone     `json:"milestones,omitzero" doc:"Left out in lists."`
	Summary           string          `json:"summary,omitempty"`
	Output            json.RawMessage `json:"output,omitempty" doc:"Left out in lists."`
	Error             string          `json:"error,omitempty"`
	Reason            string          `json:"reason,omitempty" doc:"budget-exceeded, no-progress, spend-exceeded, cancelled, executor-lost, …"`
	ChildStillRunning bool            `json:"child_still_running,omitempty"`
	Attempts          int64           `json:"attempts" doc:"Executions so far."`
	Cost              *Cost           `json:"cost,omitempty" doc:"What the run's own model calls have cost; absent before the first."`
	Finish            Slot            `json:"finish"`
	GiveUp            Slot            `json:"give_up"`
	DeadlineAt        Time            `json:"deadline_at,omitzero"`
	DispatchedAt      Time            `json:"dispatched_at"`
	StartedAt         Time            `json:"started_at,omitzero"`
	CompletedAt       Time            `json:"completed_at,omitzero"`
}

// Live reports whether the run has not ended in any way.
func (r Run) Live() bool {
	return r.Status == "queued" || r.Status == "running" || r.Status == "waiting"
}

// Slot is the delivery of one kind of end.
type Slot struct {
	State       string `json:"state" enum:"open,claimed,delivered,dead_lettered,abandoned,silent" doc:"silent: closed without telling anybody, because nothing was owed."`
	Attempts    int    `json:"attempts"`
	DeliveredAt Time   `json:"delivered_at,omitzero"`
}

// Progress is the latest snapshot that a run reported.
type Progress struct {
	Fraction *float64 `json:"fraction,omitempty"`
	Message  string   `json:"message,omitempty"`
	Phase    string   `json:"phase,omitempty"`
	At       Time     `json:"at"`
}

// Milestone is a durable named point that a run has reached.
type Milestone struct {
	Name     string          `json:"name"`
	Sequence int             `json:"sequence"`
	At       Time            `json:"at"`
	Data     json.RawMessage `json:"data,omitempty"`
}

// RunPage is a page of runs: active ones oldest first, all of them in the order of
// their ids.
type RunPage struct {
	Runs []Run  `json:"runs"`
	Next string `json:"next,omitempty" doc:"Pass as after for the next page; absent on the last."`
}

// Null reports whether raw is nothing or the JSON null.
func Null(raw json.RawMessage) bool {
	raw = bytes.TrimSpace(raw)
	return len(raw) == 0 || bytes.Equal(raw, []byte("null"))
}
