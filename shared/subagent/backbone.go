package subagent

import (
	"maps"
	"slices"
	"time"
)

// Reservation is the place of one outstanding run in its conversation's backbone.
type Reservation struct {
	// Generation is the backbone version that wrote it: a retry overwrites only a
	// reservation that a tombstone has voided.
	Generation int64 `json:"g"`
	At         Time  `json:"at"`
	// Soft: a run that was given up and is watched, or a turn that waits. It does not count
	// against the cap.
	Soft bool `json:"soft,omitempty"`
	// Redrives is the redrive count of the run that this place is kept for: whoever
	// saw the run settled before its redrive must not take it away.
	Redrives int `json:"rd,omitempty"`
}

// Backbone is the durable reconcile timer of one conversation: which runs are
// outstanding, and the number of the newest tick that was sent for them.
//
// It keeps three promises (protocol-backbone, model-checked): an outstanding run is
// in Open; Open not empty means Armed; Armed means that a tick with a number at or
// above Epoch is queued or being handled. The third holds because a number becomes
// the epoch only after its tick was sent, and a live tick is acknowledged only after
// the epoch has passed its number.
type Backbone struct {
	// Version is the item's version, not part of its body.
	Version int64 `json:"-"`
	Armed   bool  `json:"armed"`
	Epoch   int64 `json:"epoch"`
	// Rung and Due tell when the newest tick fires; a dispatch may rely on Due only
	// to skip sending another one.
	Rung int                    `json:"rung,omitempty"`
	Due  Time                   `json:"due,omitempty"`
	Open map[string]Reservation `json:"open"`
	// Warned is set while the live-count warning has been given.
	Warned bool `json:"warned,omitempty"`
}

// Limits of a conversation's outstanding runs.
const (
	DefaultCap = 64
	// MaxOpen bounds the item: reserved and watched runs together.
	MaxOpen = 256
	// WarnAt is the number of live runs at which a warning is given, once.
	WarnAt = 50
	// reservationGrace is how long a reservation may lack its row before a tick
	// releases it. A cost knob, not a safety bound.
	reservationGrace = Time(15000)
	// overdue is how late a tick may come before a dispatch sends another: longer than
	// schedules and retries take. One too many costs a message.
	overdue = Time(15 * 60 * 1000)
)

// Live counts the reservations that hold a place under the cap.
func (b Backbone) Live() int {
	n := 0
	for _, r := range b.Open {
		if !r.Soft {
			n++
		}
	}
	return n
}

// Runs lists the ids of the runs that have a place, sorted.
func (b Backbone) Runs() []string {
	ids := make([]string, 0, len(b.Open))
	for place := range b.Open {
		if _, turn := PlacedTurn(place); !turn {
			ids = append(ids, place)
		}
	}
	slices.Sort(ids)
	return ids
}

// NeedsTick reports whether a dispatch at now must send tick Epoch+1 before it
// reserves: the backbone is not armed, its next tick is later than the first rung, or so
// long overdue that the platform must have lost it (a purge, a restored table).
func (b Backbone) NeedsTick(now time.Time, first time.Duration) bool {
	return !b.Armed || b.Due > At(now.Add(first)) || b.Due != 0 && At(now) > b.Due+overdue
}

// Arming is what a dispatch did before it reserves.
type Arming struct {
	// Sent is the number of the tick that was sent, zero if none was needed.
	Sent int64
	// Due is when that tick fires.
	Due Time
	// By is the latest due time with which no tick is needed.
	By Time
	// Redrives is the redrive count that the run is about to have.
	Redrives int
	// Soft: the place does not count against the cap.
	Soft bool
}

// Reserve puts the run's id into Open, and arms the backbone if the caller has sent
// a tick. voided is the generation of the id's tombstone, zero if there is none.
//
// Mine: the id is reserved already, go on with its generation. Full: the cap is
// reached. Stale: a tick fired meanwhile, or none was sent and one is needed now;
// begin again with the fresh row.
func (b Backbone) Reserve(id string, limit int, a Arming, voided int64, now time.Time) (Backbone, Outcome) {
	if have, ok := b.Open[id]; ok && have.Redrives >= a.Redrives && (voided == 0 || have.Generation != voided) {
		return b, Mine
	}
	_, replaced := b.Open[id]
	size := len(b.Open)
	if replaced {
		size--
	}
	switch {
	case a.Sent != 0 && b.Epoch != a.Sent-1:
		return b, Stale
	case a.Sent == 0 && (!b.Armed || b.Due > a.By):
		return b, Stale
	case b.Live() >= limit && !replaced && !a.Soft, size >= MaxOpen:
		return b, Full
	}
	b.Open = cloneOpen(b.Open)
	b.Open[id] = Reservation{Generation: b.Version + 1, At: At(now), Redrives: a.Redrives, Soft: a.Soft}
	if a.Sent != 0 {
		b.Armed, b.Epoch, b.Rung, b.Due = true, a.Sent, 0, a.Due
	}
	return b, Apply
}

// Prune drops reservations of settled runs and softens those of given-up ones, at the
// cap. read is the row on which that was seen: an entry written since stays.
func (b Backbone) Prune(gone, soft map[string]int64) (Backbone, Outcome) {
	next := cloneOpen(b.Open)
	changed := false
	for id, generation := range gone {
		if have, ok := next[id]; ok && have.Generation == generation {
			delete(next, id)
			changed = true
		}
	}
	for id, generation := range soft {
		if have, ok := next[id]; ok && have.Generation == generation && !have.Soft {
			have.Soft = true
			next[id] = have
			changed = true
		}
	}
	if !changed {
		return b, Mine
	}
	b.Open = next
	return b, Apply
}

// Current reports whether tick k is live. Only a smaller number is stale: a larger
// one belongs to a dispatch that has sent and not yet written.
func (b Backbone) Current(k int64) bool { return k >= b.Epoch }

// Fence lets a live tick pass a disarmed backbone: it moves the epoch beyond k, so
// that a dispatch which sent k and has not yet written begins again. read is the row
// on which the tick was judged.
func (b Backbone) Fence(k int64, read Backbone) (Backbone, Outcome) {
	if b.Version != read.Version || b.Armed {
		return b, Stale
	}
	b.Epoch = k + 1
	return b, Apply
}

// Rearm follows tick k after tick k+1 was sent. gone and soft are as for Prune.
func (b Backbone) Rearm(k int64, read Backbone, gone, soft map[string]int64, rung int, due Time) (Backbone, Outcome) {
	if b.Version != read.Version {
		return b, Stale
	}
	b, _ = b.Prune(gone, soft)
	b.Epoch, b.Rung, b.Due = k+1, rung, due
	return b, Apply
}

// Disarm follows tick k when nothing is outstanding. No tick is sent.
func (b Backbone) Disarm(k int64, read Backbone, gone map[string]int64) (Backbone, Outcome) {
	if b.Version != read.Version {
		return b, Stale
	}
	b, _ = b.Prune(gone, nil)
	if len(b.Open) > 0 {
		return b, Stale
	}
	b.Armed, b.Epoch, b.Rung, b.Due = false, k+1, 0, 0
	return b, Apply
}

// Settle removes a run whose finish slot is closed, and disarms with the last one:
// the pending tick then exits as stale. It must not be called earlier. redrives is the
// run's redrive count: a place that a later redrive took stays.
func (b Backbone) Settle(id string, redrives int) (Backbone, Outcome) {
	if have, ok := b.Open[id]; !ok || have.Redrives > redrives {
		return b, Mine
	}
	b.Open = cloneOpen(b.Open)
	delete(b.Open, id)
	if len(b.Open) == 0 && b.Armed {
		b.Armed, b.Epoch, b.Rung, b.Due = false, b.Epoch+1, 0, 0
	}
	return b, Apply
}

// Close is Settle for a run as its row was read. The place of another run that has the
// same id since the conversation was cleared stays: generations only rise.
func (b Backbone) Close(r Run) (Backbone, Outcome) {
	if have, ok := b.Open[r.ID]; ok && have.Redrives == 0 && have.Generation > r.Generation {
		return b, Mine
	}
	return b.Settle(r.ID, r.Redrives)
}

// Warn raises or resets the live-count warning: Apply with Warned set means "warn now".
func (b Backbone) Warn() (Backbone, Outcome) {
	over := b.Live() >= WarnAt
	if over == b.Warned {
		return b, Mine
	}
	b.Warned = over
	return b, Apply
}

// Awaits reports whether the place is kept for a redrive that has not been written yet.
func (r Reservation) Awaits(row Run, now time.Time) bool {
	return r.Redrives > row.Redrives && !r.Orphan(now)
}

// Orphan reports whether a reservation without a row is old enough for a tombstone.
func (r Reservation) Orphan(now time.Time) bool { return At(now) >= r.At+reservationGrace }

// Entomb returns the tombstone for a reservation whose row never came. It may
// replace nothing, or an older tombstone (Apply); a real run stays (Stale).
func (r Run) Entomb(generation int64, now time.Time) (Run, Outcome) {
	if !r.replaceable(generation) {
		return r, Stale
	}
	return Run{Owner: r.Owner, ID: r.ID, Status: Void, Generation: generation, DispatchedAt: At(now)}, Apply
}

// Erase returns the tombstone of a run whose conversation is deleted. A dispatch of its
// id that has reserved already and not written yet must find one, or it would begin a run
// whose reservation went with the first.
func (r Run) Erase(now time.Time) (Run, Outcome) {
	if r.Status == Void {
		return r, Mine
	}
	return Run{Owner: r.Owner, ID: r.ID, Status: Void, Generation: r.Generation, DispatchedAt: At(now)}, Apply
}

// Begin returns the row of a dispatched run. It may replace nothing, or an older
// tombstone. Stale: r is a tombstone of this generation, reserve again. Mine: r is a
// real run, which is then the answer.
func (r Run) Begin(fresh Run) (Run, Outcome) {
	switch {
	case r.replaceable(fresh.Generation):
		return fresh, Apply
	case r.Status == Void:
		return r, Stale
	}
	return r, Mine
}

func (r Run) replaceable(generation int64) bool {
	return r.Status == "" || r.Status == Void && r.Generation < generation
}

func cloneOpen(open map[string]Reservation) map[string]Reservation {
	if open == nil {
		return map[string]Reservation{}
	}
	return maps.Clone(open)
}
