package subagent

import "time"

// Interrupt records that the watcher gives up on a live run. seen is the row on which
// the decision was made: a signal that arrived meanwhile refuses it (Stale).
//
// The execution epoch stays: an executor that has its result already may still
// write it. Steps are fenced by the status, ends by the epoch.
func (r Run) Interrupt(reason string, seen Run, now time.Time, t Terms) (Run, Outcome) {
	switch {
	case r.Status.Hard():
		return r, Ended
	case r.Status == Interrupted:
		return r, Mine
	case !r.Status.Live() || r.LastSignal != seen.LastSignal || r.Deadline != seen.Deadline:
		return r, Stale
	}
	at := At(now)
	r.Status, r.Reason, r.GivenUpAt = Interrupted, reason, at
	r.WatchUntil = at.Add(r.watchWindow(t))
	// Nobody executes a run without a holder, or with one that is known to be dead: there
	// is nothing to tear down.
	r.Torn = r.Exec.Holder == "" || t.dead(r.Exec.Holder)
	return r, Apply
}

// maxWatch bounds how long a given-up run is watched for its late result.
const maxWatch = 24 * time.Hour

// watchWindow is one more budget, at most a day, and never shorter than the lease:
// a holder that is still within its lease must be able to write its result.
func (r Run) watchWindow(t Terms) time.Duration {
	shortest := t.Lease + 2*t.Skew
	if r.Deadline == 0 {
		return max(maxWatch, shortest)
	}
	budget := time.Duration(r.Deadline-r.DispatchedAt) * time.Millisecond
	return max(min(budget, maxWatch), shortest)
}

// Cancel ends the run at a user's wish. A hard end is never rewritten.
func (r Run) Cancel(problem string, now time.Time) (Run, Outcome) {
	switch {
	case r.Status == Aborted:
		return r, Mine
	case r.Status.Hard():
		return r, Ended
	case r.Status == Void:
		return r, Absent
	case r.Finish.State != Open:
		return r, Closed
	}
	r.Status, r.Reason, r.Problem, r.EndedAt = Aborted, ReasonCancelled, problem, At(now)
	return r, Apply
}

// CancelBelow ends a run because one above it was cancelled. Its end is not told: who
// cancelled a tree hears of its root.
func (r Run) CancelBelow(now time.Time) (Run, Outcome) {
	next, o := r.Cancel("a run above it was cancelled", now)
	if o == Apply {
		next.Reason = ReasonAboveCancelled
	}
	return next, o
}

// Fail ends a run that cannot be executed (any more) without an executor's word:
// every execution died. executions is the count on which that was decided.
func (r Run) Fail(reason, problem string, executions int64, now time.Time) (Run, Outcome) {
	switch {
	case r.Status.Hard():
		return r, Ended
	case !r.Status.Live() || r.Exec.Epoch != executions:
		return r, Stale
	}
	r.Status, r.Reason, r.Problem, r.EndedAt = Error, reason, problem, At(now)
	return r, Apply
}

// CloseSilently closes the finish slot of a given-up run whose teardown was
// confirmed, once give_up is closed: our own teardown is not a second end.
func (r Run) CloseSilently(now time.Time) (Run, Outcome) {
	switch {
	case r.Finish.State != Open:
		return r, Closed
	case r.Status != Interrupted || !r.Torn || r.GiveUp.State == Open:
		return r, NotDue
	}
	r.Finish = Delivery{State: Silent, At: At(now)}
	return r, Apply
}

// StopWatching closes the finish slot of a given-up run at the end of its window. It
// needs give_up closed and the execution lease lapsed.
func (r Run) StopWatching(now time.Time, t Terms) (Run, Outcome) {
	at := At(now)
	switch {
	case r.Finish.State != Open:
		return r, Closed
	case r.Status != Interrupted || r.GiveUp.State == Open,
		at <= r.WatchUntil.Add(t.Skew),
		r.Exec.Holder != "" && at <= r.Exec.Until.Add(t.Skew):
		return r, NotDue
	}
	r.Finish = Delivery{State: Abandoned, At: at}
	return r, Apply
}

// Clear ends and closes a run whose conversation is being deleted: nothing is
// delivered, the caller tells the metering hook.
func (r Run) Clear(now time.Time) (Run, Outcome) {
	if r.Finish.State != Open {
		return r, Closed
	}
	if !r.Status.Hard() {
		r.Status, r.Reason, r.EndedAt = Aborted, ReasonCancelled, At(now)
	}
	r.Finish = Delivery{State: Silent, At: At(now)}
	if r.GiveUp.State == Open {
		r.GiveUp = Delivery{State: Silent, At: At(now)}
	}
	return r, Apply
}
