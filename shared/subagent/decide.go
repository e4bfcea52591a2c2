package subagent

import "time"

// Action is what a tick does for one run.
type Action int

const (
	// Keep: nothing to do, the run stays outstanding.
	Keep Action = iota
	// Forget: the run is settled; its reservation goes.
	Forget
	// GiveUpNow: over budget or silent for too long.
	GiveUpNow
	// ResendJob: its executor died, or its job was lost.
	ResendJob
	// Wake: it waits; see whether that is over.
	Wake
	// FailNow: its executions died too often.
	FailNow
	// SendFinish and SendGiveUp: a delivery is owed and nobody is at it.
	SendFinish
	SendGiveUp
	// BuryFinish and BuryGiveUp: the last attempt died.
	BuryFinish
	BuryGiveUp
	// Silence: close the finish slot, the teardown was confirmed.
	Silence
	// Stop: close the finish slot, the window is over.
	Stop
)

var actionNames = [...]string{"keep", "forget", "give up", "resend job", "wake", "fail", "send finish", "send give_up", "bury finish", "bury give_up", "close silently", "stop watching"}

func (a Action) String() string { return actionNames[a] }

// queueGrace is how long a dispatched run may lie in the queue before its job is
// taken for lost. A second job is harmless, it only costs.
const queueGrace = Time(5000)

// Decide says what a tick does for the run, and why it gives up when it does. It
// judges by the row alone; every action is checked again when it is written.
func Decide(r Run, now time.Time, t Terms) (Action, string) {
	at := At(now)
	switch {
	case !r.Outstanding():
		return Forget, ""
	case r.Status.Live():
		return decideLive(r, at, t)
	case r.Status.Hard():
		return decideDelivery(r, r.Finish, at, t, SendFinish, BuryFinish), ""
	case r.GiveUp.State == Open:
		return decideDelivery(r, r.GiveUp, at, t, SendGiveUp, BuryGiveUp), ""
	case r.Torn:
		return Silence, ""
	}
	if _, o := r.StopWatching(now, t); o == Apply {
		return Stop, ""
	}
	return Keep, ""
}

func decideLive(r Run, at Time, t Terms) (Action, string) {
	if reason := r.overBudget(at, t); reason != "" {
		return GiveUpNow, reason
	}
	if !r.Exec.Free(at, t) {
		return Keep, ""
	}
	switch {
	case r.Exhausted(t):
		return FailNow, ReasonExecutorLost
	case r.Status == Waiting:
		return Wake, ""
	case r.Status == Queued && at < r.DispatchedAt+queueGrace:
		return Keep, ""
	}
	return ResendJob, ""
}

func decideDelivery(r Run, d Delivery, at Time, t Terms, send, bury Action) Action {
	switch {
	case !r.Claim.Free(at, t):
		return Keep
	case d.Attempts >= MaxAttempts:
		return bury
	}
	return send
}

// overBudget returns the reason to give up, or nothing. The absolute ceiling wins;
// silence counts only after a first signal, and while somebody holds the lease: a run that
// waits, or whose machine is off, cannot be heard.
func (r Run) overBudget(at Time, t Terms) string {
	switch {
	case r.Deadline != 0 && at >= r.Deadline:
		return ReasonBudget
	case r.Silence > 0 && r.LastSignal != 0 && !r.Exec.Free(at, t) && at-r.LastSignal >= Time(r.Silence):
		return ReasonNoProgress
	}
	return ""
}

// Due is when the run may next need a tick, as far as its row foretells: at its
// deadline, at the end of its silence window, of a back-off or claim, of its watch.
// Zero means that nothing is foreseen. Lapsing leases are left to the cadence: a
// healthy run renews its own.
func (r Run) Due(t Terms) Time {
	switch {
	case !r.Outstanding():
		return 0
	case r.Status.Live():
		due := Earliest(r.Deadline, r.Wait.Until)
		if r.Silence > 0 && r.LastSignal != 0 && r.Status != Waiting {
			due = Earliest(due, r.LastSignal+Time(r.Silence))
		}
		return due
	case r.Status == Interrupted && r.GiveUp.State != Open:
		return r.WatchUntil.Add(t.Skew) + 1
	case r.Claim.Until == 0:
		return 0
	}
	return r.Claim.Until.Add(t.Skew) + 1
}

// Earliest returns the earlier of two moments of which either may be unset.
func Earliest(a, b Time) Time {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
