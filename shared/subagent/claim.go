package subagent

import "time"

// Take claims the right to deliver a slot. token is fresh for each receive.
//
// There is one claim per run, not one per slot: otherwise a slow give-up and the
// real end could be told at the same time. Refused: Closed, Superseded (give_up,
// but the run has really ended), NotDue (finish, but it has not), Held.
func (r Run) Take(slot Slot, token string, now time.Time, t Terms) (Run, Outcome) {
	at := At(now)
	d := r.Delivery(slot)
	switch {
	case d.State != Open:
		return r, Closed
	case slot == GiveUp && r.Status.Hard():
		return r, Superseded
	case slot == GiveUp && r.Status != Interrupted, slot == Finish && !r.Status.Hard():
		return r, NotDue
	case r.Claim.Token == token:
		return r, Mine
	case !r.Claim.Free(at, t):
		return r, Held
	case d.Attempts >= MaxAttempts:
		return r, NotDue
	}
	r.Claim = Claim{Token: token, Until: at.Add(t.Lease), N: r.Claim.N + 1}
	d.Attempts++
	return r, Apply
}

// RenewClaim extends the claim while its holder works. Refused (Stale): stop the handler now.
func (r Run) RenewClaim(slot Slot, token string, now time.Time, t Terms) (Run, Outcome) {
	if r.Claim.Token != token || r.Delivery(slot).State != Open {
		return r, Stale
	}
	r.Claim.Until = max(r.Claim.Until, At(now).Add(t.Lease))
	return r, Apply
}

// Mark closes the slot as delivered after the claim's holder has done it.
func (r Run) Mark(slot Slot, token string, now time.Time) (Run, Outcome) {
	d := r.Delivery(slot)
	switch {
	case d.State == Delivered && r.Claim.Token == token:
		return r, Mine
	case d.State != Open || r.Claim.Token != token:
		return r, Stale
	}
	d.State, d.At = Delivered, At(now)
	r.Claim.Until = 0
	return r, Apply
}

// MarkInjected closes the slot after its message was accepted as a turn (or put into
// the parent run's inbox) under an id that its run and status determine. No claim is
// needed: accepting twice is accepting once. status is the one the message tells.
func (r Run) MarkInjected(slot Slot, status Status, now time.Time) (Run, Outcome) {
	d := r.Delivery(slot)
	switch {
	case d.State != Open:
		return r, Closed
	case r.Status != status:
		return r, Superseded
	}
	d.State, d.At = Delivered, At(now)
	r.Claim.Until = 0
	return r, Apply
}

// Release gives the claim back after a failed delivery. The slot is not tried again
// before backoff has passed; after MaxAttempts it is dead-lettered.
func (r Run) Release(slot Slot, token string, now time.Time, backoff time.Duration) (Run, Outcome) {
	d := r.Delivery(slot)
	if r.Claim.Token != token || d.State != Open {
		return r, Stale
	}
	r.Claim.Token = ""
	r.Claim.Until = At(now).Add(backoff)
	if d.Attempts >= MaxAttempts {
		d.State, d.At = Dead, At(now)
	}
	return r, Apply
}

// Bury dead-letters a slot whose last allowed attempt died without a release.
func (r Run) Bury(slot Slot, now time.Time, t Terms) (Run, Outcome) {
	d := r.Delivery(slot)
	switch {
	case d.State != Open:
		return r, Closed
	case d.Attempts < MaxAttempts || !r.Claim.Free(At(now), t):
		return r, NotDue
	}
	d.State, d.At = Dead, At(now)
	return r, Apply
}

// Redrive opens a dead-lettered slot again. seen is the redrive count that the
// caller read, so that two redrives of one failure are one.
func (r Run) Redrive(slot Slot, seen int, now time.Time) (Run, Outcome) {
	d := r.Delivery(slot)
	switch {
	case r.Redrives != seen:
		return r, Stale
	case slot == GiveUp && r.Status.Hard():
		return r, Superseded
	case d.State != Dead:
		return r, Closed
	}
	*d = Delivery{}
	r.Redrives++
	r.Claim.N++
	r.Claim.Token, r.Claim.Until = "", 0
	if slot == GiveUp && (r.Finish.State == Silent || r.Finish.State == Abandoned) {
		r.Finish = Delivery{}
		// The run is watched again until the give-up is told; its window does not begin anew.
		r.WatchUntil = max(r.WatchUntil, At(now))
	}
	return r, Apply
}

// Backoff is the pause after the n-th failed attempt (n from 1): 5 s doubled each
// time, at most ten minutes.
func Backoff(attempt int) time.Duration {
	const first, longest = 5 * time.Second, 10 * time.Minute
	if attempt < 1 {
		return first
	}
	if attempt > 7 {
		return longest
	}
	return min(first<<(attempt-1), longest)
}
