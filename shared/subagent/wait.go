package subagent

import (
	"slices"
	"strings"
	"time"
)

// Wait is what a waiting run or turn waits for. It is over when Need of its runs have
// ended, when its run has reached the milestone or ended without, when its signal has come,
// or at Until: whatever it names, the first of them ends it.
//
// Whoever waits is executed again from its beginning then, and looks for itself. So a
// wake that comes too early, twice or late decides nothing.
type Wait struct {
	Runs []string `json:"r,omitempty"`
	// Need is how many of Runs must have ended.
	Need int `json:"k,omitempty"`
	// Milestone of the one run in Runs.
	Milestone string `json:"ms,omitempty"`
	Signal    string `json:"sig,omitempty"`
	Until     Time   `json:"u,omitempty"`
}

// IsZero reports whether nothing is waited for.
func (w Wait) IsZero() bool { return len(w.Runs) == 0 && w.Signal == "" && w.Until == 0 }

// Seen is what is known of the things that a wait names.
type Seen struct {
	// Ended counts its runs that have ended, given-up ones among them.
	Ended              int
	Reached, Signalled bool
}

// Over reports whether the wait is over.
func (w Wait) Over(s Seen, now time.Time) bool {
	switch {
	case w.Until != 0 && At(now) >= w.Until, s.Reached, s.Signalled:
		return true
	case len(w.Runs) == 0:
		return false
	case w.Milestone != "":
		return s.Ended > 0
	}
	return s.Ended >= min(w.Need, len(w.Runs))
}

// maxWaiters bounds the row. Whoever is forgotten is woken by the tick.
const maxWaiters = 4

// Watch records that waiter, a run's id or the place of a turn, is to be woken by this
// run's milestones and its end. A run that is not live wakes nobody: look at once.
func (r Run) Watch(waiter string) (Run, Outcome) {
	switch {
	case !r.Status.Live():
		return r, Ended
	case slices.Contains(r.Waiters, waiter):
		return r, Mine
	}
	kept := r.Waiters[max(0, len(r.Waiters)+1-maxWaiters):]
	r.Waiters = append(slices.Clone(kept), waiter)
	return r, Apply
}

// Report records what was heard of a live run from outside, like Signal does for its
// executor. milestones is how many it has reached.
func (r Run) Report(now time.Time, progress *Progress, milestones int) (Run, Outcome) {
	switch {
	case r.Status == Interrupted:
		return r, TornDown
	case !r.Status.Live():
		return r, Ended
	}
	r.LastSignal = max(r.LastSignal, At(now))
	if progress != nil {
		r.Progress = *progress
	}
	r.Milestones = max(r.Milestones, milestones)
	return r, Apply
}

// turnMark begins the place of a turn in a backbone, and its name as a waiter. No id can
// begin with it.
const turnMark = "#"

// TurnPlace names a waiting turn where else runs stand: in its conversation's backbone,
// which ticks for it, and among the waiters of a run.
func TurnPlace(turn string) string { return turnMark + turn }

// PlacedTurn is the reverse of TurnPlace.
func PlacedTurn(place string) (turn string, ok bool) { return strings.CutPrefix(place, turnMark) }
