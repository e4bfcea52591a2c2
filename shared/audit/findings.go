package audit

import (
	"time"

	"github.com/errand-dev/errand/shared/ledger"
	"github.com/errand-dev/errand/shared/schedule"
	"github.com/errand-dev/errand/shared/subagent"
)

// Kind says what is wrong.
type Kind string

const (
	// Orphan: a place in the backbone whose run has no row, or has settled.
	Orphan Kind = "orphan"
	// Unplaced: an outstanding run without a place, at which no tick looks.
	Unplaced Kind = "unplaced"
	// Undelivered: an end or a give-up that nobody was told of.
	Undelivered Kind = "undelivered"
	// DeadLetter: a delivery that was given up after its last try.
	DeadLetter Kind = "dead-letter"
	// Overdue: the backbone's tick has not come; Stopped: it has places and no tick.
	Overdue Kind = "overdue-backbone"
	Stopped Kind = "stopped-backbone"
	// LeaseOverrun: an executor that died long ago, and no other has taken its work.
	LeaseOverrun Kind = "lease-overrun"
	// NotStarted: no executor has taken the run.
	NotStarted Kind = "not-started"
	// OverBudget: beyond its deadline or silent for too long, and not given up.
	OverBudget Kind = "over-budget"
	// NotWoken: what it waits for is over.
	NotWoken Kind = "not-woken"
	// NotClosed: a given-up run whose watch is over.
	NotClosed Kind = "not-closed"
	// StuckTurn: a turn that nobody has begun, or whose executor is gone.
	StuckTurn Kind = "stuck-turn"
	// OverdueSchedule: a schedule whose timer has not come.
	OverdueSchedule Kind = "overdue-schedule"
	// DuplicateTurn: two turns that tell the same of a run.
	DuplicateTurn Kind = "duplicate-turn"
	// DuplicateMessage: two replies to one turn, or one message twice.
	DuplicateMessage Kind = "duplicate-message"
)

// Kinds lists them all.
func Kinds() []Kind {
	return []Kind{Orphan, Unplaced, Undelivered, DeadLetter, Overdue, Stopped, LeaseOverrun, NotStarted, OverBudget, NotWoken,
		NotClosed, StuckTurn, OverdueSchedule, DuplicateTurn, DuplicateMessage}
}

// Remedy says what mends a finding.
type Remedy string

const (
	// Repair: a tick, a timer, or another wake (Auditor.Repair).
	Repair Remedy = "repair"
	// Redrive and Cancel are what a user does to the run.
	Redrive Remedy = "redrive"
	Cancel  Remedy = "cancel"
	// None: nothing that is known; somebody must look.
	None Remedy = "none"
)

// Finding is one thing that is not as it should be.
type Finding struct {
	Kind Kind
	// Run, Slot and Turn name what it is about; they may be empty.
	Run     string
	Slot    subagent.Slot
	Turn    string
	Problem string
	Remedy  Remedy
}

// Rows are all that is kept of a conversation, but its log and its values, and what operators
// have set.
type Rows struct {
	Controls     subagent.Controls
	Conversation subagent.Conversation
	Backbone     subagent.Backbone
	Runs         []subagent.Run
	Turns        []subagent.Turn
	Messages     []ledger.Message
	Schedules    []schedule.Schedule
}

// Late is how long something may take that should take seconds. A message that fails is
// tried again for six minutes, a schedule for as long.
const Late = 10 * time.Minute

// Findings judges rows that were read at one moment, or nearly: what another writes in
// between may look like damage (Auditor.Audit looks twice). They come in a fixed order.
func Findings(rows Rows, now time.Time, t subagent.Terms) []Finding {
	j := judge{Rows: rows, now: now, past: now.Add(-Late), terms: t, byID: map[string]subagent.Run{}, turnByID: map[string]subagent.Turn{}}
	for _, r := range rows.Runs {
		j.byID[r.ID] = r
	}
	for _, t := range rows.Turns {
		j.turnByID[t.ID] = t
	}
	j.backbone()
	for _, r := range rows.Runs {
		j.run(r)
	}
	j.turns()
	j.schedules()
	j.duplicates()
	return j.found
}
