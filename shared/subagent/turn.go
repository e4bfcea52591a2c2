package subagent

import (
	"slices"
	"time"
)

// TurnKind says where a turn comes from.
type TurnKind string

const (
	UserTurn      TurnKind = "user"
	FinishTurn    TurnKind = "finish"
	GiveUpTurn    TurnKind = "give_up"
	MilestoneTurn TurnKind = "milestone"
	ScheduleTurn  TurnKind = "schedule"
)

// TurnMode says what happens when the turn has its place in the conversation.
type TurnMode string

const (
	// React: the message is added and the agent takes a turn.
	React TurnMode = ""
	// Narrate: an assistant's line is added, no agent runs.
	Narrate TurnMode = "narrate"
	// Handle: a named handler is called for a slot of a run.
	Handle TurnMode = "handle"
)

// Turn is one input to a conversation.
type Turn struct {
	Owner   Owner    `json:"-"`
	Version int64    `json:"-"`
	ID      string   `json:"id"`
	Kind    TurnKind `json:"kind"`
	Mode    TurnMode `json:"mode,omitempty"`
	Status  Status   `json:"st"`
	Agent   string   `json:"agent,omitempty"`

	Message  Value             `json:"msg,omitzero"`
	Metadata map[string]string `json:"meta,omitempty"`
	// BodyHash tells a repeated request from another one under the same key.
	BodyHash string `json:"hash,omitempty"`

	// Run, Slot, Told and Milestone say what an injected turn is about. Told is the
	// status that a finish or give_up message tells.
	Run       string `json:"run,omitempty"`
	Slot      Slot   `json:"slot,omitempty"`
	Told      Status `json:"told,omitempty"`
	Milestone string `json:"ms,omitempty"`
	Source    string `json:"src,omitempty"`

	// Into is the turn that told this one's message together with its own.
	Into string `json:"into,omitempty"`

	// Failures counts attempts that failed; a turn ends in error after MaxTurnFailures.
	Failures int `json:"fails,omitempty"`
	// HandOns counts executors that handed the turn on under its present message.
	HandOns int `json:"on,omitempty"`
	// Stops counts executors in a row that handed the turn on without finishing a step.
	Stops int `json:"stops,omitempty"`
	// Revivals counts messages that the turn got although its executors died, because it
	// went on all the same.
	Revivals int `json:"rev,omitempty"`
	// Idle counts such messages in a row without a new step.
	Idle int `json:"idle,omitempty"`

	Reply   Value  `json:"reply,omitzero"`
	Problem string `json:"err,omitempty"`
	// Messages is the number of messages in the conversation after this turn.
	Messages int64 `json:"n,omitempty"`

	AcceptedAt Time `json:"t0,omitempty"`
	StartedAt  Time `json:"t1,omitempty"`
	EndedAt    Time `json:"t2,omitempty"`
}

// MaxTurnFailures is how often a turn is tried before it ends in error. It is less than
// its message is handed out, so that the turn ends with its own error.
const MaxTurnFailures = 4

// Done reports whether the turn has ended.
func (t Turn) Done() bool { return t.Status.Hard() }

// Finish ends the turn. An ended turn stays as it is.
func (t Turn) Finish(status Status, reply Value, problem string, messages int64, now time.Time) (Turn, Outcome) {
	if t.Done() {
		return t, Ended
	}
	t.Status, t.Reply, t.Problem, t.Messages, t.EndedAt = status, reply, problem, messages, At(now)
	return t, Apply
}

// FoldInto ends a turn whose message another one has told.
func (t Turn) FoldInto(other string, status Status, problem string, now time.Time) (Turn, Outcome) {
	next, o := t.Finish(status, Value{}, problem, 0, now)
	if o == Apply {
		next.Into = other
	}
	return next, o
}

// Fail counts a failed attempt.
func (t Turn) Fail() (Turn, Outcome) {
	if t.Done() {
		return t, Ended
	}
	t.Failures++
	return t, Apply
}

// maxStops is how many executors in a row a turn may use up without finishing a step: on
// Lambda each is paid for in full.
const maxStops = 20

// Stalled reports whether the turn must not be handed on once more.
func (t Turn) Stalled() bool { return t.Stops >= maxStops }

// HandOn counts an executor that had to stop; fresh begins a new count, with a new
// message. further says that it finished a new step.
func (t Turn) HandOn(fresh, further bool) (Turn, Outcome) {
	if t.Done() {
		return t, Ended
	}
	t.HandOns++
	t.Stops++
	if further {
		t.Stops = 0
	}
	if fresh {
		t.HandOns = 0
	}
	return t, Apply
}

// maxRevivals bounds how often a turn gets a new message after its executors died: each
// message stands for several deaths, and each death may take other work along.
const maxRevivals = 20

// Revive gives a turn whose executors died under one message another one. further says that
// the last of them finished a new step. NotDue: it did not, or this has been done too often;
// then the turn is taken for what kills them.
//
// Where all work of a process dies with it a death says less of any one turn: there, as runs
// have more executions, turns have one message to spare.
func (t Turn) Revive(further bool, terms Terms) (Turn, Outcome) {
	spare := 0
	if terms.Process != "" {
		spare = 1
	}
	switch {
	case t.Done():
		return t, Ended
	case t.Revivals >= maxRevivals, !further && t.Idle >= spare:
		return t, NotDue
	}
	t.Revivals++
	t.Idle++
	if further {
		t.Idle = 0
	}
	t.HandOns = 0
	return t, Apply
}

// Conversation is the row that keeps the turns of a conversation apart: one turn
// holds it at a time, and messages are numbered by it.
type Conversation struct {
	Owner     Owner  `json:"-"`
	Version   int64  `json:"-"`
	Agent     string `json:"agent"`
	CreatedAt Time   `json:"t0"`
	// Turn is the turn that has its place now, with its lease.
	Turn string `json:"turn,omitempty"`
	Exec Lease  `json:"x,omitzero"`
	// BegunAt is when the turn last got its place.
	BegunAt Time `json:"b,omitempty"`
	// Messages counts the messages of ended turns. A turn writes its own from here on,
	// each under its number and only if that is free: a holder that lost its lease
	// cannot add one behind its successor.
	Messages int64 `json:"n,omitempty"`
	// LeftAt is when a turn last gave up the place.
	LeftAt Time `json:"left,omitempty"`
	// Wait is what the turn waits for: its message is gone, and nobody works on it.
	Wait Wait `json:"wait,omitzero"`
	// Parked are turns whose messages came while another one waited, in the order in which
	// they will begin.
	Parked []string `json:"pk,omitempty"`
}

const (
	// MaxParked bounds the row: the longest ids, so many times, fit into an item.
	MaxParked = 2000
	// BusyAt is how many parked turns make a conversation busy: no more of users' are accepted.
	BusyAt = 200
)

// LongestTurnWait bounds the wait of a turn: its conversation stands still meanwhile.
const LongestTurnWait = time.Hour

// Begin gives a turn its place. Held: another turn has it (Evictable says whether for
// good), one that was parked comes first, or this one has it under a lease that still
// runs. Mine: this very receive has it.
func (c Conversation) Begin(turn, token string, now time.Time, t Terms) (Conversation, Outcome) {
	at := At(now)
	switch {
	case c.Exec.Holder == token && c.Turn == turn:
		return c, Mine
	case c.Turn != "" && c.Turn != turn, !c.Exec.Free(at, t),
		c.Turn == "" && len(c.Parked) > 0 && c.Parked[0] != turn:
		return c, Held
	}
	c.Turn, c.Wait = turn, Wait{}
	c.BegunAt = at
	c.Parked = without(c.Parked, turn)
	c.Exec = Lease{Epoch: c.Exec.Epoch + 1, Holder: token, Until: at.Add(t.Lease)}
	return c, Apply
}

// Evictable reports whether another turn than this one has the place and nobody is at
// work on it: its queue message must be lost, since this turn was handed out.
func (c Conversation) Evictable(turn string, now time.Time, t Terms) bool {
	return c.Turn != "" && c.Turn != turn && c.Wait.IsZero() && c.Exec.Free(At(now), t)
}

// Suspend gives the lease back while the turn waits and keeps its place.
func (c Conversation) Suspend(token string, w Wait) (Conversation, Outcome) {
	if c.Exec.Holder != token {
		return c, Stale
	}
	c.Exec.Holder, c.Exec.Until = "", 0
	c.Wait = w
	return c, Apply
}

// Waits reports whether the turn has the place and waits.
func (c Conversation) Waits(turn string) bool { return c.Turn == turn && !c.Wait.IsZero() }

// Park puts a turn behind one that waits, or behind those that are parked already: its
// message can go, since the row keeps its order. NotDue: nothing keeps it from its
// place but the queue. Full: its message must stay.
func (c Conversation) Park(turn string) (Conversation, Outcome) {
	switch {
	case slices.Contains(c.Parked, turn):
		return c, Mine
	case c.Turn == turn, len(c.Parked) == 0 && (c.Turn == "" || c.Wait.IsZero()):
		return c, NotDue
	case len(c.Parked) >= MaxParked:
		return c, Full
	}
	c.Parked = append(slices.Clone(c.Parked), turn)
	return c, Apply
}

// Next is the parked turn that may begin now, if there is one.
func (c Conversation) Next() (turn string, ok bool) {
	if c.Turn != "" || len(c.Parked) == 0 {
		return "", false
	}
	return c.Parked[0], true
}

func without(ids []string, id string) []string {
	if !slices.Contains(ids, id) {
		return ids
	}
	return slices.DeleteFunc(slices.Clone(ids), func(x string) bool { return x == id })
}

// Renew extends the holder's lease.
func (c Conversation) Renew(token string, now time.Time, t Terms) (Conversation, Outcome) {
	if c.Exec.Holder != token {
		return c, Stale
	}
	c.Exec.Until = max(c.Exec.Until, At(now).Add(t.Lease))
	return c, Apply
}

// Leave frees the place after the turn has ended with so many messages in all.
func (c Conversation) Leave(turn string, messages int64, now time.Time) (Conversation, Outcome) {
	switch {
	case c.Turn == turn:
	case slices.Contains(c.Parked, turn):
		c.Parked = without(c.Parked, turn)
		return c, Apply
	default:
		return c, Mine
	}
	c.Turn, c.Wait, c.LeftAt = "", Wait{}, At(now)
	c.Exec.Holder, c.Exec.Until = "", 0
	c.Messages = max(c.Messages, messages)
	return c, Apply
}

// Yield gives the lease back while the turn keeps its place, to be tried again.
func (c Conversation) Yield(token string) (Conversation, Outcome) {
	if c.Exec.Holder != token {
		return c, Stale
	}
	c.Exec.Holder, c.Exec.Until = "", 0
	return c, Apply
}
