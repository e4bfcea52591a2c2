package api

// Audit is what is not as it should be in a conversation.
type Audit struct {
	Conversation string    `json:"conversation"`
	Findings     []Finding `json:"findings"`
	Runs         int       `json:"runs" doc:"How many were looked at."`
	Turns        int       `json:"turns"`
	Messages     int       `json:"messages"`
}

// Finding is one thing that is not as it should be.
type Finding struct {
	Kind    string `json:"kind" enum:"orphan,unplaced,undelivered,dead-letter,overdue-backbone,stopped-backbone,lease-overrun,not-started,over-budget,not-woken,not-closed,stuck-turn,overdue-schedule,duplicate-turn,duplicate-message"`
	RunID   string `json:"run_id,omitempty"`
	Slot    string `json:"slot,omitempty" enum:"finish,give_up"`
	TurnID  string `json:"turn_id,omitempty"`
	Problem string `json:"problem"`
	Remedy  string `json:"remedy" enum:"repair,redrive,cancel,none" doc:"repair: POST …/repair. redrive, cancel: those calls of the run. none: somebody must look."`
}

// Repair is what a repair has sent.
type Repair struct {
	Tick   int64  `json:"tick,omitempty" doc:"Absent if no tick is armed."`
	TurnID string `json:"turn_id,omitempty" doc:"The turn that was woken, if one stood still."`
	Timers int    `json:"timers,omitempty" doc:"How many schedules were sent the timer again that they had lost."`
}
