package subagent

import (
	"slices"
	"time"
)

// Status is the state of a run.
type Status string

const (
	// Queued: dispatched, no executor has taken it yet.
	Queued Status = "queued"
	// Running: an executor holds or held its lease.
	Running Status = "running"
	// Waiting: suspended on a child, a timer or an outside signal; no process holds it.
	Waiting Status = "waiting"
	// Completed, Error and Aborted are hard ends: they never change.
	Completed Status = "completed"
	Error     Status = "error"
	Aborted   Status = "aborted"
	// Interrupted is the soft end: the watcher gave up. A real end may still repair it.
	Interrupted Status = "interrupted"
	// Void is a tombstone: a reservation whose dispatch never wrote its row.
	Void Status = "void"
)

// Live reports whether an executor may work on the run.
func (s Status) Live() bool { return s == Queued || s == Running || s == Waiting }

// Hard reports whether the status is final.
func (s Status) Hard() bool { return s == Completed || s == Error || s == Aborted }

// Reasons of ends that the system decided.
const (
	ReasonBudget     = "budget-exceeded"
	ReasonNoProgress = "no-progress"
	ReasonCancelled  = "cancelled"
	// ReasonAboveCancelled: a run above it was cancelled, and it with that.
	ReasonAboveCancelled = "parent-cancelled"
	ReasonExecutorLost   = "executor-lost"
	// ReasonSpend: a model call would have passed a limit of tokens or money.
	ReasonSpend = "spend-exceeded"
)

// Slot names one of the two deliveries of a run.
type Slot string

const (
	Finish Slot = "finish"
	GiveUp Slot = "give_up"
)

// SlotState is the state of a slot; the zero value is open.
type SlotState string

const (
	Open      SlotState = ""
	Delivered SlotState = "delivered"
	// Dead: delivery failed MaxAttempts times; it can be redriven.
	Dead SlotState = "dead_lettered"
	// Silent: nothing is owed, because the teardown that we asked for was confirmed.
	Silent SlotState = "silent"
	// Abandoned: a given-up run was watched to the end of its window.
	Abandoned SlotState = "abandoned"
)

// MaxAttempts is how often the delivery of a slot is tried before it is dead-lettered.
const MaxAttempts = 8

// Delivery is the ledger of one slot.
type Delivery struct {
	State SlotState `json:"s,omitempty"`
	// Attempts counts claims since the last redrive.
	Attempts int  `json:"a,omitempty"`
	At       Time `json:"at,omitempty"`
}

// Lease is the right to execute: a run, or a turn of a conversation.
type Lease struct {
	// Epoch rises with each holder. What a holder ends is conditional on it.
	Epoch int64 `json:"e,omitempty"`
	// Holder is a token fresh for each receive; empty if nobody holds it.
	Holder string `json:"h,omitempty"`
	// Until is the end of the lease or, without a holder, the not-before of the next.
	Until Time `json:"u,omitempty"`
}

// Free reports whether a new holder may take the lease at now.
func (l Lease) Free(now Time, t Terms) bool {
	if l.Holder == "" {
		return now >= l.Until
	}
	return now > l.Until.Add(t.Skew) || t.dead(l.Holder)
}

// Claim is the one right to deliver a run, for either slot.
type Claim struct {
	// Token is fresh for each receive. It stays after delivery, so that a repeated
	// mark finds itself.
	Token string `json:"t,omitempty"`
	// Until is the end of the claim or, after a failure, the not-before of the next.
	Until Time `json:"u,omitempty"`
	// N counts claims of the run, both slots, and is never reset.
	N int64 `json:"n,omitempty"`
}

// Free reports whether a new claim may be taken at now.
func (c Claim) Free(now Time, t Terms) bool {
	return c.Until == 0 || now > c.Until.Add(t.Skew) || c.Token != "" && t.dead(c.Token)
}

// Notice says how the parent hears of the run: by a named handler, by a message
// in its conversation, or not at all.
type Notice struct {
	// Handler names a registered handler; it wins over Message.
	Handler string `json:"h,omitempty"`
	// Message asks for a synthetic message and a turn that reacts to it.
	Message bool `json:"m,omitempty"`
	// Source is shown as the source of injected messages.
	Source string `json:"src,omitempty"`
	// Milestones are the names that are delivered, exact and case-sensitive.
	Milestones []string `json:"ms,omitempty"`
	// React gives each such milestone a turn of its own; otherwise it is narrated.
	React bool `json:"r,omitempty"`
}

// Wants reports whether the milestone is to be delivered.
func (n Notice) Wants(milestone string) bool {
	for _, name := range n.Milestones {
		if name == milestone {
			return true
		}
	}
	return false
}

// Progress is the latest snapshot a run reported. Free data travels in events only.
type Progress struct {
	Fraction *float64 `json:"f,omitempty"`
	Message  string   `json:"m,omitempty"`
	Phase    string   `json:"p,omitempty"`
	At       Time     `json:"at,omitempty"`
}

// Run is the control row of a run: small (well under 1 KB), because the platform
// bills the whole row with each write. Input, output, journal and milestones have
// rows of their own unless they are tiny.
type Run struct {
	Owner Owner `json:"-"`
	// Version is the item's version, not part of its body.
	Version int64  `json:"-"`
	ID      string `json:"id"`
	Agent   string `json:"agent,omitempty"`
	// Parent is the run that dispatched this one; empty for a turn or the API.
	Parent string `json:"parent,omitempty"`
	// Ancestors are the runs above Parent, the outermost first.
	Ancestors []string `json:"anc,omitempty"`
	// ReplayOf is the run that this one repeats, of the same conversation.
	ReplayOf string `json:"rof,omitempty"`
	// Awaited: the parent is suspended until this run ends; it is woken, not told.
	Awaited bool   `json:"aw,omitempty"`
	Status  Status `json:"st"`
	// Generation of the reservation that this row, or tombstone, belongs to.
	Generation int64 `json:"g,omitempty"`

	Exec Lease `json:"x,omitzero"`
	// Lost counts executions in a row that died or failed without finishing a new step.
	Lost   int      `json:"lost,omitempty"`
	Claim  Claim    `json:"c,omitzero"`
	Finish Delivery `json:"fin,omitzero"`
	GiveUp Delivery `json:"gu,omitzero"`

	Notice Notice `json:"n,omitzero"`

	DispatchedAt Time `json:"t0,omitempty"`
	StartedAt    Time `json:"t1,omitempty"`
	EndedAt      Time `json:"t2,omitempty"`

	// Deadline is absolute; zero means never.
	Deadline Time `json:"dl,omitempty"`
	// Payers are those of the run and the runs above it that have a limit of what they
	// spend, the outermost first.
	Payers []Payer `json:"pay,omitempty"`

	// Silence is the no-progress window in milliseconds; zero means none.
	Silence int64 `json:"win,omitempty"`
	// LastSignal is when the run was last heard: it reported something or, after that, finished
	// a step. The time in which nobody executed it is added (unheard).
	LastSignal Time     `json:"ls,omitempty"`
	Progress   Progress `json:"p,omitzero"`

	GivenUpAt  Time   `json:"gv,omitempty"`
	Torn       bool   `json:"torn,omitempty"`
	WatchUntil Time   `json:"wu,omitempty"`
	Reason     string `json:"why,omitempty"`
	Redrives   int    `json:"rd,omitempty"`

	// Milestones counts those reached, MilestonesTold those offered for delivery.
	Milestones     int `json:"msn,omitempty"`
	MilestonesTold int `json:"mst,omitempty"`

	// Inbox counts messages put into the inbox, InboxRead those it has consumed.
	Inbox     int `json:"in,omitempty"`
	InboxRead int `json:"inr,omitempty"`

	// Wait is what a waiting run waits for.
	Wait Wait `json:"wait,omitzero"`
	// Waiters are to be woken when the run reaches a milestone or ends.
	Waiters []string `json:"wt,omitempty"`

	Input   Value  `json:"input,omitzero"`
	Output  Value  `json:"out,omitzero"`
	Summary string `json:"sum,omitempty"`
	Problem string `json:"err,omitempty"`
}

// Value is a text or JSON value of Size bytes: kept in the row when it is tiny, else in
// an item of its own, else in a blob (package ledger has the limits). The name of either
// is made of its hash.
type Value struct {
	Inline string `json:"v,omitempty"`
	Item   string `json:"i,omitempty"`
	Blob   string `json:"b,omitempty"`
	Size   int    `json:"n,omitempty"`
}

// Outstanding reports whether the run still keeps its conversation's backbone alive:
// its finish slot is not closed.
func (r Run) Outstanding() bool { return r.Status != Void && r.Finish.State == Open }

// Replayable reports whether the run can be repeated: it has ended, or nobody watches it
// any more.
func (r Run) Replayable() bool {
	return r.Status.Hard() || r.Status == Interrupted && !r.Outstanding()
}

// HoldsSlot reports whether the run counts against the cap: giving up frees the
// place at once, even while the run is still watched.
func (r Run) HoldsSlot() bool { return r.Outstanding() && !r.Status.Hard() && r.Status != Interrupted }

// ChildStillRunning reports whether a given-up run may still be at work.
func (r Run) ChildStillRunning() bool { return r.Status == Interrupted && !r.Torn }

// MaxDepth is how many runs may stand above a run.
const MaxDepth = 16

// Lineage returns the runs above this one, the outermost first.
func (r Run) Lineage() []string {
	if r.Parent == "" {
		return nil
	}
	return append(slices.Clone(r.Ancestors), r.Parent)
}

// Delivery returns the ledger of the slot.
func (r *Run) Delivery(s Slot) *Delivery {
	if s == GiveUp {
		return &r.GiveUp
	}
	return &r.Finish
}

// Settled is when the run needed nothing more; housekeeping counts from it.
func (r Run) Settled() Time { return max(r.EndedAt, r.Finish.At, r.WatchUntil) }

// Retention is how long a settled run is kept. It must outlive any retry of its dispatch.
const Retention = 30 * 24 * time.Hour
