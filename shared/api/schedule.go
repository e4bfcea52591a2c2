package api

import "encoding/json"

// ScheduleRequest asks for a schedule.
type ScheduleRequest struct {
	Expression string `json:"expression" doc:"cron(minutes hours day-of-month month day-of-week year), rate(5 minutes) or at(2026-12-24T18:00:00), as EventBridge Scheduler has them; L, W, # and years are not supported."`
	Timezone   string `json:"timezone,omitempty" doc:"An IANA name; UTC if absent. A time that the clocks skip does not fire, one that comes twice fires the first time."`
	Prompt     string `json:"prompt,omitempty" doc:"What the agent is to do, at most 256 KB. A schedule needs a prompt, a message or a trigger."`
	Message    string `json:"message,omitempty" doc:"What the user is made to say, instead of a prompt; at most 256 KB."`
	Trigger    string `json:"trigger,omitempty" doc:"The name of what the agent is to handle; without a prompt it gets one that names it."`
	Enabled    *bool  `json:"enabled,omitempty" doc:"true if absent."`
	EndsAt     Time   `json:"ends_at,omitzero" doc:"The last moment at which it may fire."`
}

// ScheduleChange changes a schedule. What is absent stays as it is, null removes it.
type ScheduleChange struct {
	Expression Field[string] `json:"expression,omitzero"`
	Timezone   Field[string] `json:"timezone,omitzero"`
	Prompt     Field[string] `json:"prompt,omitzero"`
	Message    Field[string] `json:"message,omitzero"`
	Trigger    Field[string] `json:"trigger,omitzero"`
	Enabled    *bool         `json:"enabled,omitempty"`
	EndsAt     Field[Time]   `json:"ends_at,omitzero"`
}

// Field is a field that may be absent, null or a value.
type Field[T any] struct {
	// Set: it is there.
	Set bool
	// To is the value, nil for null.
	To *T
}

// Of is the field with a value.
func Of[T any](value T) Field[T] { return Field[T]{Set: true, To: &value} }

// Get returns what the field sets, the zero value for null; nil if it is absent.
func (f Field[T]) Get() *T {
	if f.Set && f.To == nil {
		return new(T)
	}
	return f.To
}

// IsZero reports whether the field is absent.
func (f Field[T]) IsZero() bool { return !f.Set }

// MarshalJSON implements json.Marshaler.
func (f Field[T]) MarshalJSON() ([]byte, error) { return json.Marshal(f.To) }

// UnmarshalJSON implements json.Unmarshaler.
func (f *Field[T]) UnmarshalJSON(raw []byte) error {
	f.Set, f.To = true, nil
	return json.Unmarshal(raw, &f.To)
}

// Schedule is a schedule of a conversation.
type Schedule struct {
	ID           string `json:"id"`
	Conversation string `json:"conversation"`
	Expression   string `json:"expression"`
	Timezone     string `json:"timezone"`
	Prompt       string `json:"prompt,omitempty" doc:"In lists no more than its first 1,000 characters."`
	Message      string `json:"message,omitempty" doc:"In lists no more than its first 1,000 characters."`
	Trigger      string `json:"trigger,omitempty"`
	Enabled      bool   `json:"enabled"`
	Status       string `json:"status" enum:"active,disabled,ended" doc:"ended: it will not fire again."`
	EndsAt       Time   `json:"ends_at,omitzero"`
	NextAt       Time   `json:"next_at,omitzero" doc:"When it fires next. A firing that the server was not there for comes late, and once."`
	LastAt       Time   `json:"last_at,omitzero" doc:"The moment that was due when it last fired."`
	CreatedAt    Time   `json:"created_at"`
	UpdatedAt    Time   `json:"updated_at"`
}

// ScheduleList is every schedule of a conversation, in the order of their ids.
type ScheduleList struct {
	Schedules []Schedule `json:"schedules"`
}

// AgentControl is what operators have set for an agent.
type AgentControl struct {
	Agent       string `json:"agent"`
	Enabled     bool   `json:"enabled"`
	Maintenance string `json:"maintenance" enum:"off,accept,reject"`
}

// AgentControlRequest sets it, whole.
type AgentControlRequest struct {
	Enabled     *bool  `json:"enabled" doc:"false refuses new turns and runs; those that were accepted go on."`
	Maintenance string `json:"maintenance" enum:"off,accept,reject" doc:"accept: new work is accepted, and waits. reject: it is refused."`
}
