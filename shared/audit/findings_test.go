package audit_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/errand-dev/errand/shared/api"
	"github.com/errand-dev/errand/shared/audit"
	"github.com/errand-dev/errand/shared/ledger"
	"github.com/errand-dev/errand/shared/schedule"
	"github.com/errand-dev/errand/shared/subagent"
)

var (
	now   = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	terms = subagent.DefaultTerms
)

func ago(d time.Duration) subagent.Time { return subagent.At(now.Add(-d)) }

var (
	long   = ago(time.Hour)
	lately = ago(time.Minute)
	later  = ago(-time.Hour)
)

// conversation has the runs given, each with its place, and a tick to come.
func conversation(runs ...subagent.Run) audit.Rows {
	rows := audit.Rows{Runs: runs, Backbone: subagent.Backbone{Armed: true, Epoch: 7, Due: later, Open: map[string]subagent.Reservation{}}}
	for _, r := range runs {
		if r.Outstanding() {
			rows.Backbone.Open[r.ID] = subagent.Reservation{At: r.DispatchedAt}
		}
	}
	return rows
}

func run(change func(*subagent.Run)) subagent.Run {
	r := subagent.Run{ID: "r", Status: subagent.Running, DispatchedAt: long, Exec: subagent.Lease{Epoch: 1, Holder: "h", Until: ago(-time.Minute)}}
	change(&r)
	return r
}

// dispatched has no executor yet.
func dispatched(at subagent.Time) subagent.Run {
	return run(func(r *subagent.Run) { r.Status, r.DispatchedAt, r.Exec = subagent.Queued, at, subagent.Lease{} })
}

func ended(at subagent.Time) subagent.Run {
	return run(func(r *subagent.Run) { r.Status, r.EndedAt, r.Exec = subagent.Completed, at, subagent.Lease{} })
}

func delivered() subagent.Run {
	r := ended(long)
	r.Finish = subagent.Delivery{State: subagent.Delivered, At: long}
	return r
}

func givenUp(change func(*subagent.Run)) subagent.Run {
	return run(func(r *subagent.Run) {
		r.Status, r.GivenUpAt, r.WatchUntil, r.Exec = subagent.Interrupted, long, later, subagent.Lease{}
		change(r)
	})
}

func told(id string, change func(*subagent.Turn)) subagent.Turn {
	t := subagent.Turn{ID: id, Kind: subagent.FinishTurn, Slot: subagent.Finish, Run: "r", Told: subagent.Completed, Status: subagent.Completed, AcceptedAt: long, EndedAt: long}
	change(&t)
	return t
}

func same(*subagent.Turn) {}

// handling is a turn that calls a handler and has not begun.
func handling(id, run string, slot subagent.Slot) subagent.Turn {
	return subagent.Turn{ID: id, Run: run, Slot: slot, Mode: subagent.Handle, Status: subagent.Queued, AcceptedAt: long}
}

func inMaintenance(r *audit.Rows) {
	r.Runs[0].Agent = "a"
	r.Controls = subagent.Controls{Agents: map[string]subagent.Control{"a": {Maintenance: subagent.AcceptInMaintenance}}}
}

// TestEachKindOfDamageIsNamed plants one damage after the other. What is written after the
// kind is the run, the slot, the turn and the remedy.
func TestEachKindOfDamageIsNamed(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for name, test := range map[string]struct {
		rows audit.Rows
		want string
	}{
		"a place without a row": {change(conversation(), func(r *audit.Rows) { r.Backbone.Open["r"] = subagent.Reservation{At: long} }), "orphan r repair"},
		"a place of a tombstone": {change(conversation(run(func(r *subagent.Run) { r.Status = subagent.Void })), func(r *audit.Rows) {
			r.Backbone.Open["r"] = subagent.Reservation{At: long}
		}), "orphan r repair"},
		"a place of a run that has settled": {change(conversation(delivered()), func(r *audit.Rows) { r.Backbone.Open["r"] = subagent.Reservation{At: long} }), "orphan r repair"},
		"a run without a place":             {change(conversation(run(nothing)), noPlaces), "unplaced r cancel"},
		"an end without a place":            {change(conversation(ended(long)), noPlaces), "unplaced r cancel, undelivered r finish cancel"},
		"an end that nobody was told of":    {conversation(ended(long)), "undelivered r finish repair"},
		"an end whose last try died": {conversation(change(ended(long), func(r *subagent.Run) {
			r.Finish.Attempts, r.Claim = subagent.MaxAttempts, subagent.Claim{Token: "t", Until: long}
		})), "undelivered r finish repair"},
		"a give-up that nobody was told of": {conversation(givenUp(func(*subagent.Run) {})), "undelivered r give_up repair"},
		"an end that could not be delivered": {conversation(change(ended(long), func(r *subagent.Run) {
			r.Finish = subagent.Delivery{State: subagent.Dead, At: long}
		})), "dead-letter r finish redrive"},
		"a give-up that could not be delivered": {conversation(givenUp(func(r *subagent.Run) {
			r.GiveUp = subagent.Delivery{State: subagent.Dead, At: long}
		})), "dead-letter r give_up redrive"},
		"a tick that does not come":   {change(conversation(run(nothing)), func(r *audit.Rows) { r.Backbone.Due = long }), "overdue-backbone repair"},
		"places and no tick":          {change(conversation(run(nothing)), func(r *audit.Rows) { r.Backbone.Armed = false }), "stopped-backbone none"},
		"an executor that died":       {conversation(run(func(r *subagent.Run) { r.Exec.Until = long })), "lease-overrun r repair"},
		"the last executor that died": {conversation(run(func(r *subagent.Run) { r.Exec.Until, r.Lost = long, terms.MaxExecutions })), "lease-overrun r repair"},
		"a job that was lost":         {conversation(dispatched(long)), "not-started r repair"},
		"a job that was lost in maintenance, after the run had begun": {change(conversation(change(dispatched(long), func(r *subagent.Run) { r.Exec.Epoch = 1 })), inMaintenance), "not-started r repair"},
		"an end whose handler's turn is over": {change(conversation(ended(long)), func(r *audit.Rows) {
			r.Turns = []subagent.Turn{change(handling("h", "r", subagent.Finish), func(t *subagent.Turn) { t.Status, t.EndedAt = subagent.Completed, long })}
		}), "undelivered r finish repair"},
		"an end beside another's handler": {change(conversation(ended(long)), func(r *audit.Rows) {
			r.Conversation = subagent.Conversation{Turn: "t", Wait: subagent.Wait{Signal: "s"}}
			r.Turns = []subagent.Turn{handling("h", "other", subagent.Finish), handling("g", "r", subagent.GiveUp)}
		}), "undelivered r finish repair"},
		"a run beyond its deadline": {conversation(run(func(r *subagent.Run) { r.Deadline = ago(20 * time.Minute) })), "over-budget r repair"},
		"a run that fell silent": {conversation(run(func(r *subagent.Run) {
			r.Silence, r.LastSignal = time.Minute.Milliseconds(), long
		})), "over-budget r repair"},
		"a parent that was not woken": {conversation(
			run(func(r *subagent.Run) {
				r.Status, r.Wait, r.Exec = subagent.Waiting, subagent.Wait{Runs: []string{"child"}, Need: 1}, subagent.Lease{}
			}),
			change(delivered(), func(r *subagent.Run) { r.ID = "child" })), "not-woken r repair"},
		"a run whose time has come": {conversation(run(func(r *subagent.Run) {
			r.Status, r.Wait, r.Exec = subagent.Waiting, subagent.Wait{Until: long}, subagent.Lease{}
		})), "not-woken r repair"},
		"a turn whose time has come": {change(conversation(), func(r *audit.Rows) {
			r.Conversation = subagent.Conversation{Turn: "t", Wait: subagent.Wait{Until: long}}
			r.Turns = []subagent.Turn{{ID: "t", Status: subagent.Queued, AcceptedAt: long}}
			r.Backbone.Open[subagent.TurnPlace("t")] = subagent.Reservation{At: long}
		}), "not-woken t repair"},
		"a place of a turn that has ended": {change(conversation(), func(r *audit.Rows) {
			r.Turns = []subagent.Turn{{ID: "t", Status: subagent.Completed, AcceptedAt: long, EndedAt: long}}
			r.Backbone.Open[subagent.TurnPlace("t")] = subagent.Reservation{At: long}
		}), "orphan t repair"},
		"a watch that has no end": {conversation(givenUp(func(r *subagent.Run) {
			r.WatchUntil, r.GiveUp = ago(30*time.Minute), subagent.Delivery{State: subagent.Delivered, At: long}
		})), "not-closed r repair"},
		"a turn that nobody begins": {change(conversation(), func(r *audit.Rows) {
			r.Turns = []subagent.Turn{{ID: "t", Status: subagent.Queued, AcceptedAt: long}}
		}), "stuck-turn t repair"},
		"a turn that was parked and not woken": {change(conversation(), func(r *audit.Rows) {
			r.Conversation = subagent.Conversation{Parked: []string{"u"}}
			r.Turns = []subagent.Turn{{ID: "t", Status: subagent.Queued, AcceptedAt: ago(2 * time.Hour)}, {ID: "u", Status: subagent.Queued, AcceptedAt: long}}
		}), "stuck-turn u repair"},
		"a turn whose executor died": {change(conversation(), func(r *audit.Rows) {
			r.Conversation = subagent.Conversation{Turn: "t", Exec: subagent.Lease{Holder: "h", Until: long}}
		}), "stuck-turn t repair"},
		"a schedule whose timer was lost": {change(conversation(), func(r *audit.Rows) {
			r.Schedules = []schedule.Schedule{{ID: "s", Enabled: true, Generation: "g", NextAt: long}, {ID: "late", Enabled: true, Generation: "g", NextAt: lately}}
		}), "overdue-schedule repair"},
		"two turns of one end": {change(conversation(delivered()), func(r *audit.Rows) {
			r.Turns = []subagent.Turn{told("a", same), told("b", same)}
		}), "duplicate-turn r b none"},
		"two turns of one milestone": {change(conversation(delivered()), func(r *audit.Rows) {
			milestone := func(t *subagent.Turn) { t.Kind, t.Told, t.Milestone = subagent.MilestoneTurn, "", "half" }
			r.Turns = []subagent.Turn{told("a", milestone), told("b", milestone)}
		}), "duplicate-turn r b none"},
		"two replies to one turn": {change(conversation(), func(r *audit.Rows) {
			r.Messages = []ledger.Message{{Seq: 1, ID: "a", Role: "assistant", Turn: "t"}, {Seq: 2, ID: "b", Role: "assistant", Turn: "t"}}
		}), "duplicate-message t none"},
		"one message twice": {change(conversation(), func(r *audit.Rows) {
			r.Messages = []ledger.Message{{Seq: 1, ID: "a", Role: "user", Turn: "t"}, {Seq: 2, ID: "a", Role: "user", Turn: "t"}}
		}), "duplicate-message t none"},
	} {
		var got []string
		for _, f := range audit.Findings(test.rows, now, terms) {
			seen[string(f.Kind)] = true
			got = append(got, strings.Join(strings.Fields(strings.Join([]string{string(f.Kind), f.Run, string(f.Slot), f.Turn, string(f.Remedy)}, " ")), " "))
			if f.Problem == "" || strings.Contains(f.Problem, "%!") {
				t.Errorf("%s: the problem is %q", name, f.Problem)
			}
		}
		if diff := cmp.Diff(test.want, strings.Join(got, ", ")); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
	for _, kind := range audit.Kinds() {
		if !seen[string(kind)] {
			t.Errorf("nothing here is %s", kind)
		}
	}
}

func TestWhatIsOnItsWayIsNoDamage(t *testing.T) {
	t.Parallel()
	for name, rows := range map[string]audit.Rows{
		"nothing at all":                 {},
		"a run at work":                  conversation(run(nothing)),
		"a run just dispatched":          conversation(dispatched(lately)),
		"a place taken just now":         change(conversation(), func(r *audit.Rows) { r.Backbone.Open["r"] = subagent.Reservation{At: lately} }),
		"a run whose place went unread":  change(conversation(dispatched(lately)), noPlaces),
		"a run just ended":               conversation(ended(lately)),
		"a delivered run":                conversation(delivered()),
		"an end that is being delivered": conversation(change(ended(long), func(r *subagent.Run) { r.Claim = subagent.Claim{Token: "t", Until: later} })),
		"a run just given up":            conversation(givenUp(func(r *subagent.Run) { r.GivenUpAt = lately })),
		"a run given up and watched": conversation(givenUp(func(r *subagent.Run) {
			r.GiveUp = subagent.Delivery{State: subagent.Delivered, At: long}
		})),
		"a give-up that was overtaken": conversation(change(delivered(), func(r *subagent.Run) { r.GiveUp.State = subagent.Dead })),
		"an executor that just died":   conversation(run(func(r *subagent.Run) { r.Exec.Until = lately })),
		"a run in a back-off":          conversation(run(func(r *subagent.Run) { r.Exec = subagent.Lease{Epoch: 3, Until: later} })),
		"a deadline just passed":       conversation(run(func(r *subagent.Run) { r.Deadline = lately })),
		"a parent whose child works": conversation(
			run(func(r *subagent.Run) {
				r.Status, r.Wait, r.Exec = subagent.Waiting, subagent.Wait{Runs: []string{"child"}, Need: 1}, subagent.Lease{}
			}),
			run(func(r *subagent.Run) { r.ID = "child" })),
		"a tick of the near future": change(conversation(run(nothing)), func(r *audit.Rows) { r.Backbone.Due = lately }),
		"a tombstone":               conversation(run(func(r *subagent.Run) { r.Status = subagent.Void })),
		"a turn that waits for others": change(conversation(), func(r *audit.Rows) {
			r.Turns = []subagent.Turn{{ID: "a", Status: subagent.Completed, AcceptedAt: long, EndedAt: lately}, {ID: "b", Status: subagent.Queued, AcceptedAt: long}}
		}),
		"a turn at work": change(conversation(), func(r *audit.Rows) {
			r.Conversation = subagent.Conversation{Turn: "a", Exec: subagent.Lease{Holder: "h", Until: later}}
			r.Turns = []subagent.Turn{{ID: "a", Status: subagent.Queued, AcceptedAt: long}, {ID: "b", Status: subagent.Queued, AcceptedAt: long}}
		}),
		"a turn that waits for a signal, and one behind it": change(conversation(), func(r *audit.Rows) {
			r.Conversation = subagent.Conversation{Turn: "t", Wait: subagent.Wait{Signal: "s"}, Parked: []string{"u"}}
			r.Turns = []subagent.Turn{{ID: "t", Status: subagent.Queued, AcceptedAt: long}, {ID: "u", Status: subagent.Queued, AcceptedAt: long}}
			r.Backbone.Open[subagent.TurnPlace("t")] = subagent.Reservation{At: long}
		}),
		"a handler behind a turn that waits": change(conversation(ended(long)), func(r *audit.Rows) {
			r.Conversation = subagent.Conversation{Turn: "t", Wait: subagent.Wait{Signal: "s"}, Parked: []string{"h"}}
			r.Turns = []subagent.Turn{{ID: "t", Status: subagent.Queued, AcceptedAt: long}, handling("h", "r", subagent.Finish)}
		}),
		"the same of a give-up": change(conversation(givenUp(func(*subagent.Run) {})), func(r *audit.Rows) {
			r.Conversation = subagent.Conversation{Turn: "t", Exec: subagent.Lease{Holder: "h", Until: later}}
			r.Turns = []subagent.Turn{{ID: "t", Status: subagent.Queued, AcceptedAt: long}, handling("h", "r", subagent.GiveUp)}
		}),
		"a run that waits for the end of its agent's maintenance": change(conversation(dispatched(long)), inMaintenance),
		"a give-up and the end": change(conversation(delivered()), func(r *audit.Rows) {
			r.Turns = []subagent.Turn{told("a", same), told("b", func(t *subagent.Turn) {
				t.Kind, t.Slot, t.Told = subagent.GiveUpTurn, subagent.GiveUp, subagent.Interrupted
			})}
		}),
		"a handler that was tried twice": change(conversation(delivered()), func(r *audit.Rows) {
			handle := func(t *subagent.Turn) { t.Mode = subagent.Handle }
			r.Turns = []subagent.Turn{told("a", handle), told("b", handle)}
		}),
		"a question and its answer": change(conversation(), func(r *audit.Rows) {
			r.Messages = []ledger.Message{{Seq: 1, ID: "a", Role: "user", Turn: "t"}, {Seq: 2, ID: "b", Role: "assistant", Turn: "t"}, {Seq: 3, ID: "c", Role: "assistant", Turn: "u"}}
		}),
	} {
		for _, f := range audit.Findings(rows, now, terms) {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

func TestTheAPIKnowsEveryKindOfFinding(t *testing.T) {
	t.Parallel()
	field, _ := reflect.TypeFor[api.Finding]().FieldByName("Kind")
	var kinds []string
	for _, kind := range audit.Kinds() {
		kinds = append(kinds, string(kind))
	}
	if diff := cmp.Diff(strings.Join(kinds, ","), field.Tag.Get("enum")); diff != "" {
		t.Error(diff)
	}
}

func change[T any](value T, with func(*T)) T { with(&value); return value }

func nothing(*subagent.Run) {}

func noPlaces(r *audit.Rows) { r.Backbone.Open = nil }
