package subagent_test

import (
	"testing"
	"time"

	"github.com/errand-dev/errand/shared/subagent"
)

const (
	finish = subagent.Finish
	giveUp = subagent.GiveUp
)

// due is a run whose slot may be delivered.
func due(s subagent.Slot) *builder {
	if s == giveUp {
		return run(interrupted)
	}
	return run(completed)
}

func TestTakeForEitherSlot(t *testing.T) {
	take := func(s subagent.Slot, now float64) rule {
		return func(r subagent.Run) (subagent.Run, subagent.Outcome) { return r.Take(s, "me", sec(now), terms) }
	}
	for _, s := range []subagent.Slot{finish, giveUp} {
		taken := func(until float64, n int64, attempts int) func(*subagent.Run) {
			return func(r *subagent.Run) {
				r.Claim = subagent.Claim{Token: "me", Until: at(until), N: n}
				r.Delivery(s).Attempts = attempts
			}
		}
		check(t, []row{
			{name: string(s) + " unclaimed is taken", on: due(s), rule: take(s, 1), want: subagent.Apply, change: taken(61, 1, 1)},
			{name: string(s) + " with a live claim is held", on: due(s).claimed("other", 60), rule: take(s, 1), want: subagent.Held},
			{name: string(s) + " exactly at the end of claim and skew is held", on: due(s).claimed("other", 60), rule: take(s, 65), want: subagent.Held},
			{name: string(s) + " with a lapsed claim is taken over", on: due(s).claimed("other", 60), rule: take(s, 65.001), want: subagent.Apply, change: taken(125.001, 2, 1)},
			{name: string(s) + " with one's own claim is mine with its own end", on: due(s).claimed("me", 60), rule: take(s, 50), want: subagent.Mine},
			{name: string(s) + " in its back-off is held", on: due(s).claimed("", 60), rule: take(s, 65), want: subagent.Held},
			{name: string(s) + " delivered is closed", on: due(s).slot(s, subagent.Delivered), rule: take(s, 1), want: subagent.Closed},
			{name: string(s) + " dead is closed", on: due(s).slot(s, subagent.Dead), rule: take(s, 1), want: subagent.Closed},
			{name: string(s) + " after the last attempt is not due", on: due(s).attempts(s, subagent.MaxAttempts), rule: take(s, 1), want: subagent.NotDue},
			{name: string(s) + " has a last attempt", on: due(s).attempts(s, subagent.MaxAttempts-1), rule: take(s, 1), want: subagent.Apply, change: taken(61, 1, subagent.MaxAttempts)},
			{name: string(s) + " of a running run is not due", on: run(running), rule: take(s, 1), want: subagent.NotDue},
		})
	}
	check(t, []row{
		{name: "give_up after the real end is superseded", on: run(completed), rule: take(giveUp, 1), want: subagent.Superseded},
		{name: "finish of a given-up run is not due", on: run(interrupted), rule: take(finish, 1), want: subagent.NotDue},
		{name: "finish waits for the claim of give_up", on: run(completed).claimed("giver", 60), rule: take(finish, 30), want: subagent.Held},
		{name: "silent is closed", on: run(interrupted).slot(finish, subagent.Silent), rule: take(finish, 1), want: subagent.Closed},
	})
}

func TestAClaimIsItsHoldersAlone(t *testing.T) {
	for _, s := range []subagent.Slot{finish, giveUp} {
		renew := func(r subagent.Run) (subagent.Run, subagent.Outcome) { return r.RenewClaim(s, "me", sec(10), terms) }
		mark := func(r subagent.Run) (subagent.Run, subagent.Outcome) { return r.Mark(s, "me", sec(10)) }
		release := func(r subagent.Run) (subagent.Run, subagent.Outcome) {
			return r.Release(s, "me", sec(10), 5*time.Second)
		}
		check(t, []row{
			{name: string(s) + " is renewed", on: due(s).claimed("me", 60), rule: renew, want: subagent.Apply, again: subagent.Apply, change: func(r *subagent.Run) { r.Claim.Until = at(70) }},
			{name: string(s) + " is never shortened", on: due(s).claimed("me", 90), rule: renew, want: subagent.Apply, again: subagent.Apply},
			{name: string(s) + " of another is not renewed", on: due(s).claimed("other", 60), rule: renew, want: subagent.Stale},
			{name: string(s) + " closed is not renewed", on: due(s).claimed("me", 60).slot(s, subagent.Delivered), rule: renew, want: subagent.Stale},
			{name: string(s) + " is marked and the claim is free", on: due(s).claimed("me", 60), rule: mark, want: subagent.Apply, change: func(r *subagent.Run) {
				*r.Delivery(s) = subagent.Delivery{State: subagent.Delivered, At: at(10)}
				r.Claim.Until = 0
			}},
			{name: string(s) + " of another is not marked", on: due(s).claimed("other", 60), rule: mark, want: subagent.Stale},
			{name: string(s) + " unclaimed is not marked", on: due(s), rule: mark, want: subagent.Stale},
			{name: string(s) + " dead is not marked", on: due(s).claimed("me", 60).slot(s, subagent.Dead), rule: mark, want: subagent.Stale},
			{name: string(s) + " marked by another is stale", on: due(s).claimed("other", 0).slot(s, subagent.Delivered), rule: mark, want: subagent.Stale},
			{name: string(s) + " is released with a back-off", on: due(s).claimed("me", 60).attempts(s, 1), rule: release, want: subagent.Apply, again: subagent.Stale,
				change: func(r *subagent.Run) { r.Claim.Token, r.Claim.Until = "", at(15) }},
			{name: string(s) + " is dead after its last attempt", on: due(s).claimed("me", 60).attempts(s, subagent.MaxAttempts), rule: release, want: subagent.Apply, again: subagent.Stale,
				change: func(r *subagent.Run) {
					r.Claim.Token, r.Claim.Until = "", at(15)
					r.Delivery(s).State, r.Delivery(s).At = subagent.Dead, at(10)
				}},
			{name: string(s) + " of another is not released", on: due(s).claimed("other", 60), rule: release, want: subagent.Stale},
			{name: string(s) + " closed is not released", on: due(s).claimed("me", 60).slot(s, subagent.Delivered), rule: release, want: subagent.Stale},
		})
	}
}

func TestAMessageIsMarkedForTheStatusItTells(t *testing.T) {
	mark := func(s subagent.Slot, told subagent.Status) rule {
		return func(r subagent.Run) (subagent.Run, subagent.Outcome) { return r.MarkInjected(s, told, sec(10)) }
	}
	delivered := func(s subagent.Slot) func(*subagent.Run) {
		return func(r *subagent.Run) { *r.Delivery(s) = subagent.Delivery{State: subagent.Delivered, At: at(10)} }
	}
	check(t, []row{
		{name: "the end that was told", on: run(completed), rule: mark(finish, completed), want: subagent.Apply, again: subagent.Closed, change: delivered(finish)},
		{name: "the give-up that was told", on: run(interrupted), rule: mark(giveUp, interrupted), want: subagent.Apply, again: subagent.Closed, change: delivered(giveUp)},
		{name: "a give-up that the end has overtaken", on: run(completed), rule: mark(giveUp, interrupted), want: subagent.Superseded},
		{name: "a closed slot", on: run(completed).slot(finish, subagent.Dead), rule: mark(finish, completed), want: subagent.Closed},
	})
}

func TestBuryAndRedrive(t *testing.T) {
	for _, s := range []subagent.Slot{finish, giveUp} {
		bury := func(now float64) rule {
			return func(r subagent.Run) (subagent.Run, subagent.Outcome) { return r.Bury(s, sec(now), terms) }
		}
		redrive := func(r subagent.Run) (subagent.Run, subagent.Outcome) { return r.Redrive(s, 1, sec(10)) }
		last := func() *builder { return due(s).claimed("other", 60).attempts(s, subagent.MaxAttempts) }
		dead := func() *builder {
			return last().slot(s, subagent.Dead).with(func(r *subagent.Run) { r.Redrives = 1 })
		}
		open := func(r *subagent.Run) {
			*r.Delivery(s) = subagent.Delivery{}
			r.Redrives, r.Claim = 2, subagent.Claim{N: 2}
		}
		check(t, []row{
			{name: string(s) + " whose last attempt died is buried", on: last(), rule: bury(65.001), want: subagent.Apply, again: subagent.Closed,
				change: func(r *subagent.Run) { r.Delivery(s).State, r.Delivery(s).At = subagent.Dead, at(65.001) }},
			{name: string(s) + " is not buried exactly at the bound", on: last(), rule: bury(65), want: subagent.NotDue},
			{name: string(s) + " with attempts left is not buried", on: due(s).attempts(s, subagent.MaxAttempts-1), rule: bury(100), want: subagent.NotDue},
			{name: string(s) + " delivered is not buried", on: last().slot(s, subagent.Delivered), rule: bury(100), want: subagent.Closed},
			{name: string(s) + " dead is opened again", on: dead(), rule: redrive, want: subagent.Apply, again: subagent.Stale, change: open},
			{name: string(s) + " is redriven once for one failure", on: dead().with(func(r *subagent.Run) { r.Redrives = 2 }), rule: redrive, want: subagent.Stale},
			{name: string(s) + " delivered is not redriven", on: dead().slot(s, subagent.Delivered), rule: redrive, want: subagent.Closed},
			{name: string(s) + " open is not redriven", on: dead().slot(s, subagent.Open), rule: redrive, want: subagent.Closed},
		})
	}
	redrive := func(r subagent.Run) (subagent.Run, subagent.Outcome) { return r.Redrive(giveUp, 0, sec(10)) }
	check(t, []row{
		{name: "give_up is not redriven after the real end", on: run(completed).slot(giveUp, subagent.Dead), rule: redrive, want: subagent.Superseded},
		{name: "give_up opens an abandoned finish again", on: run(interrupted).slot(giveUp, subagent.Dead).slot(finish, subagent.Abandoned), rule: redrive, want: subagent.Apply, again: subagent.Stale,
			change: func(r *subagent.Run) {
				r.GiveUp, r.Finish = subagent.Delivery{}, subagent.Delivery{}
				r.Redrives, r.Claim.N, r.WatchUntil = 1, 1, at(10)
			}},
	})
}

func TestBackoffDoublesUpToTenMinutes(t *testing.T) {
	want := map[int]time.Duration{0: 5 * time.Second, 1: 5 * time.Second, 2: 10 * time.Second, 4: 40 * time.Second, 7: 320 * time.Second, 8: 10 * time.Minute, 99: 10 * time.Minute}
	for n, d := range want {
		if got := subagent.Backoff(n); got != d {
			t.Errorf("after attempt %d: %v, want %v", n, got, d)
		}
	}
}
