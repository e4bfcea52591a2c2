package subagent

import "time"

// Acquire takes the execution lease. token is fresh for each receive of a job.
//
// Refused: Ended or TornDown (nothing to execute), Held (the tick resends the job).
// Mine means that the lease was taken by this very receive: use the row's own Until.
func (r Run) Acquire(token string, now time.Time, t Terms) (Run, Outcome) {
	at := At(now)
	switch {
	case r.Status == Interrupted:
		return r, TornDown
	case !r.Status.Live():
		return r, Ended
	case r.Exec.Holder == token:
		return r, Mine
	case !r.Exec.Free(at, t) || r.Exhausted(t):
		return r, Held
	}
	if r.Exec.Holder != "" {
		r.Lost++
	}
	if r.Status == Waiting && r.LastSignal != 0 {
		// It could not be heard while it waited: its silence begins anew.
		r.LastSignal = at
	}
	r = r.unheard(at)
	r.Exec = Lease{Epoch: r.Exec.Epoch + 1, Holder: token, Until: at.Add(t.Lease)}
	r.Status = Running
	r.Wait = Wait{}
	if r.StartedAt == 0 {
		r.StartedAt = at
	}
	return r, Apply
}

// unheard takes the time out of a run's silence in which nobody held its lease: its machine
// was off, or asleep. What follows is heard, or is silence again.
func (r Run) unheard(at Time) Run {
	if r.LastSignal != 0 && at > r.Exec.Until {
		r.LastSignal = min(r.LastSignal+at-r.Exec.Until, at)
	}
	return r
}

// maxEpoch bounds the continuations of one run: our own hop counter, since the
// platform's recursion stop is switched off.
const maxEpoch = 10_000

// Exhausted reports whether so many executions died or failed in a row without getting any further, or
// so many went before, that the run must not be executed again.
func (r Run) Exhausted(t Terms) bool {
	return r.Exec.Holder != "" && r.Lost+1 >= t.MaxExecutions || r.Exec.Epoch >= maxEpoch
}

// guard refuses whoever does not hold the lease of a live run.
func (r Run) guard(epoch int64) Outcome {
	switch {
	case r.Exec.Epoch != epoch:
		return Stale
	case r.Status.Hard():
		return Ended
	case r.Status == Interrupted:
		return TornDown
	case r.Status != Running:
		return Stale
	}
	return Apply
}

// StartStep permits the next step and renews the lease. A model or tool call may
// begin only after this was written: it is what a cancel or a give-up fences.
// further says that a new step was finished since the lease was taken: that is a sign of
// life too, once the run has given a first one.
func (r Run) StartStep(epoch int64, now time.Time, t Terms, further bool) (Run, Outcome) {
	if o := r.guard(epoch); o != Apply {
		return r, o
	}
	r = r.unheard(At(now))
	if further {
		r.Lost = 0
		if r.LastSignal != 0 {
			r.LastSignal = max(r.LastSignal, At(now))
		}
	}
	r.Exec.Until = max(r.Exec.Until, At(now).Add(t.Lease))
	return r, Apply
}

// Signal records that the run made itself heard, and renews the lease. A nil
// progress keeps the snapshot. milestones is how many the run has reached.
func (r Run) Signal(epoch int64, now time.Time, t Terms, progress *Progress, milestones int) (Run, Outcome) {
	r, o := r.StartStep(epoch, now, t, false)
	if o != Apply {
		return r, o
	}
	r.LastSignal = max(r.LastSignal, At(now))
	if progress != nil {
		r.Progress = *progress
	}
	r.Milestones = max(r.Milestones, milestones)
	return r, Apply
}

// HandOn gives the lease back before the run has ended, for another executor to
// go on at once or, after a failed execution, when its back-off has passed; or when
// wait, if it names anything, is over.
func (r Run) HandOn(epoch int64, now time.Time, failed bool, delay time.Duration, wait Wait) (Run, Outcome) {
	if o := r.guard(epoch); o != Apply {
		return r, o
	}
	if failed {
		r.Lost++
	}
	r.Exec.Holder = ""
	r.Exec.Until = At(now).Add(delay)
	if !wait.IsZero() {
		r.Status, r.Wait = Waiting, wait
	}
	return r, Apply
}

// Result is how an execution ended.
type Result struct {
	// Status is Completed or Error.
	Status  Status
	Output  Value
	Summary string
	Problem string
	// Reason is set if a limit ended it, like ReasonSpend.
	Reason string
}

// End writes the real end of the run. A run that was given up meanwhile is repaired:
// a give-up never hides a late real result. inboxRead is how many inbox messages
// the executor has consumed or handed on; more of them mean Unread.
func (r Run) End(epoch int64, res Result, inboxRead int, now time.Time) (Run, Outcome) {
	switch {
	case r.Status.Hard() && r.Status != Aborted && r.Exec.Epoch == epoch:
		return r, Mine
	case r.Status.Hard():
		return r, Ended
	case r.Exec.Epoch != epoch || r.Status == Queued || r.Status == Waiting:
		return r, Stale
	case r.Finish.State != Open:
		return r, Closed
	case r.Inbox > max(inboxRead, r.InboxRead):
		return r, Unread
	}
	r.InboxRead = max(inboxRead, r.InboxRead)
	r.Status = res.Status
	r.EndedAt = At(now)
	r.Output, r.Summary, r.Problem = res.Output, res.Summary, res.Problem
	r.Reason = res.Reason
	return r, Apply
}

// TearDown confirms that the executor stopped because the run was given up. It only
// marks the row: the finish slot closes when give_up is closed.
func (r Run) TearDown(epoch int64) (Run, Outcome) {
	switch {
	case r.Status.Hard():
		return r, Ended
	case r.Exec.Epoch != epoch || r.Status != Interrupted:
		return r, Stale
	case r.Torn:
		return r, Mine
	}
	r.Torn = true
	return r, Apply
}

// Receive counts one more message into the inbox of a live run.
func (r Run) Receive() (Run, Outcome) {
	switch {
	case r.Status == Interrupted:
		return r, TornDown
	case !r.Status.Live():
		return r, Ended
	}
	r.Inbox++
	return r, Apply
}

// Unheard reports whether messages wait in the inbox of a run that ended without its
// executor, which will not read them.
func (r Run) Unheard() bool {
	return (r.Status == Interrupted || r.Status == Error) && r.Inbox > r.InboxRead
}

// HandOver records that the first n messages of such a run were passed on.
func (r Run) HandOver(n int) (Run, Outcome) {
	switch {
	case r.Status.Live():
		return r, Stale
	case r.InboxRead >= n:
		return r, Mine
	}
	r.InboxRead = n
	return r, Apply
}
