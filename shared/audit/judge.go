package audit

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/errand-dev/errand/shared/subagent"
)

// judge collects what Findings reports.
type judge struct {
	Rows
	now, past time.Time
	terms     subagent.Terms
	byID      map[string]subagent.Run
	turnByID  map[string]subagent.Turn
	found     []Finding
}

func (j *judge) add(f Finding, format string, args ...any) {
	f.Problem = fmt.Sprintf(format, args...)
	if f.Remedy == "" {
		f.Remedy = None
	}
	j.found = append(j.found, f)
}

// long reports whether at is set and long ago.
func (j *judge) long(at subagent.Time) bool { return at != 0 && at <= subagent.At(j.past) }

func (j *judge) ago(at subagent.Time) time.Duration { return j.now.Sub(at.Time()).Round(time.Second) }

func (j *judge) backbone() {
	b := j.Backbone
	switch {
	case !b.Armed && len(b.Open) > 0:
		j.add(Finding{Kind: Stopped}, "no tick is armed for %d places; the next dispatch arms one", len(b.Open))
	case b.Armed && j.long(b.Due):
		j.add(Finding{Kind: Overdue, Remedy: Repair}, "tick %d has been due for %v", b.Epoch, j.ago(b.Due))
	}
	for _, id := range slices.Sorted(maps.Keys(b.Open)) {
		place, run := b.Open[id], j.byID[id]
		if !j.long(place.At) {
			continue // its row may be on its way
		}
		if turn, is := subagent.PlacedTurn(id); is {
			j.turnsPlace(turn, place)
			continue
		}
		f := Finding{Kind: Orphan, Run: id, Remedy: j.byTick()}
		switch {
		case run.Status == "" || run.Status == subagent.Void:
			j.add(f, "its place has been taken for %v, and there is no run", j.ago(place.At))
		case !run.Outstanding() && j.long(run.Settled()):
			j.add(f, "its place is still taken %v after it settled", j.ago(run.Settled()))
		}
	}
}

// turnsPlace judges the place of a turn that waits.
func (j *judge) turnsPlace(id string, place subagent.Reservation) {
	turn := j.turnByID[id]
	if turn.Status == "" || turn.Done() && j.long(turn.EndedAt) {
		j.add(Finding{Kind: Orphan, Turn: id, Remedy: j.byTick()}, "its place has been taken for %v, and it does not wait", j.ago(place.At))
	}
}

// byTick is the remedy of what a tick mends, if there can be one.
func (j *judge) byTick() Remedy {
	if j.Backbone.Armed {
		return Repair
	}
	return None
}

func (j *judge) run(r subagent.Run) {
	for _, slot := range []subagent.Slot{subagent.Finish, subagent.GiveUp} {
		// A give-up is owed only until the run has really ended.
		if r.Delivery(slot).State == subagent.Dead && (slot == subagent.Finish || r.Status == subagent.Interrupted) {
			j.add(Finding{Kind: DeadLetter, Run: r.ID, Slot: slot, Remedy: Redrive}, "its %s could not be delivered", noun(slot))
		}
	}
	if !r.Outstanding() {
		return
	}
	remedy := j.byTick()
	if _, placed := j.Backbone.Open[r.ID]; !placed {
		if j.long(r.DispatchedAt) {
			j.add(Finding{Kind: Unplaced, Run: r.ID, Remedy: Cancel}, "it is %s and outstanding without a place in the backbone: no tick looks at it", r.Status)
		}
		remedy = Cancel
	}
	j.overlooked(r, remedy)
}

func noun(s subagent.Slot) string {
	if s == subagent.GiveUp {
		return "give-up"
	}
	return "end"
}

// overlooked asks what a tick of long ago would have done for the run, were it then as it is
// now: by now that should be done.
func (j *judge) overlooked(r subagent.Run, remedy Remedy) {
	f := Finding{Run: r.ID, Remedy: remedy}
	action, _ := subagent.Decide(r, j.past, j.terms)
	switch action {
	case subagent.GiveUpNow:
		f.Kind = OverBudget
		j.add(f, "it is beyond its budget and nobody has given it up")
	case subagent.ResendJob, subagent.FailNow:
		switch {
		case r.Exec.Holder != "":
			f.Kind = LeaseOverrun
			j.add(f, "the lease of its executor (attempt %d) lapsed %v ago", r.Exec.Epoch, j.ago(r.Exec.Until))
		case r.Exec.Epoch == 0 && j.Controls.Holds(r.Agent):
			// It begins when the maintenance of its agent is over.
		default:
			f.Kind = NotStarted
			j.add(f, "no executor has taken it for %v", j.ago(max(r.DispatchedAt, r.Exec.Until)))
		}
	case subagent.Wake:
		if j.over(r.Wait) {
			f.Kind = NotWoken
			j.add(f, "what it waits for has been over for at least %v", Late)
		}
	case subagent.SendFinish, subagent.BuryFinish:
		if j.long(r.EndedAt) && !j.queued(r.ID, subagent.Finish) {
			f.Kind, f.Slot = Undelivered, subagent.Finish
			j.add(f, "its end is not delivered after %v and %d attempts", j.ago(r.EndedAt), r.Finish.Attempts)
		}
	case subagent.SendGiveUp, subagent.BuryGiveUp:
		if j.long(r.GivenUpAt) && !j.queued(r.ID, subagent.GiveUp) {
			f.Kind, f.Slot = Undelivered, subagent.GiveUp
			j.add(f, "its give-up is not delivered after %v and %d attempts", j.ago(r.GivenUpAt), r.GiveUp.Attempts)
		}
	case subagent.Silence, subagent.Stop:
		if j.long(r.GiveUp.At) {
			f.Kind = NotClosed
			j.add(f, "it was given up %v ago and is still watched", j.ago(r.GivenUpAt))
		}
	}
}

// queued reports whether the turn that calls the slot's handler stands behind others, as long as
// they take. That nobody begins it is another finding.
func (j *judge) queued(run string, slot subagent.Slot) bool {
	return slices.ContainsFunc(j.Turns, func(t subagent.Turn) bool {
		return t.Run == run && t.Slot == slot && t.Mode == subagent.Handle && !t.Done()
	})
}

// over reports whether the wait has been over for long, as far as the rows of runs tell:
// they do not show signals, nor which milestone was reached.
func (j *judge) over(w subagent.Wait) bool {
	var seen subagent.Seen
	for _, id := range w.Runs {
		if run := j.byID[id]; j.long(run.EndedAt) || j.long(run.GivenUpAt) {
			seen.Ended++
		}
	}
	return !w.IsZero() && w.Over(seen, j.past)
}

// turns looks for a place that is held for nobody, and for turns that wait before a free one.
func (j *judge) turns() {
	c := j.Conversation
	var oldest subagent.Turn
	for _, t := range j.Turns {
		if !t.Done() && (oldest.ID == "" || t.AcceptedAt < oldest.AcceptedAt) {
			oldest = t
		}
	}
	if next, parked := c.Next(); parked && j.turnByID[next].ID != "" {
		oldest = j.turnByID[next] // it goes before the others, whoever is woken
	}
	switch {
	case !c.Wait.IsZero():
		if j.over(c.Wait) {
			j.add(Finding{Kind: NotWoken, Turn: c.Turn, Remedy: j.byTick()}, "what it waits for has been over for at least %v", Late)
		}
	case c.Turn != "" && c.Exec.Holder != "" && j.long(c.Exec.Until):
		j.add(Finding{Kind: StuckTurn, Turn: c.Turn, Remedy: Repair}, "its executor's lease lapsed %v ago, and it keeps the conversation's place", j.ago(c.Exec.Until))
	case oldest.ID != "" && j.long(oldest.AcceptedAt) && c.Exec.Free(subagent.At(j.past), j.terms) && j.idle():
		j.add(Finding{Kind: StuckTurn, Turn: oldest.ID, Run: oldest.Run, Remedy: Repair}, "it has waited for %v before a conversation where nothing goes on", j.ago(oldest.AcceptedAt))
	}
}

// idle reports whether no turn has ended of late: one that waits would have been next.
func (j *judge) idle() bool {
	for _, t := range j.Turns {
		if t.Done() && !j.long(t.EndedAt) {
			return false
		}
	}
	return true
}

func (j *judge) schedules() {
	for _, s := range j.Schedules {
		if s.Lost(j.now) {
			j.add(Finding{Kind: OverdueSchedule, Remedy: Repair}, "schedule %s should have fired %v ago", s.ID, j.ago(s.NextAt))
		}
	}
}

func (j *judge) duplicates() {
	type telling struct {
		run       string
		kind      subagent.TurnKind
		told      subagent.Status
		milestone string
	}
	first := map[telling]string{}
	for _, t := range j.Turns {
		// Each try of a handler is a turn; what is told by a message is told once.
		if t.Run == "" || t.Mode == subagent.Handle {
			continue
		}
		what := telling{t.Run, t.Kind, t.Told, t.Milestone}
		if other, twice := first[what]; twice {
			j.add(Finding{Kind: DuplicateTurn, Run: t.Run, Turn: t.ID}, "it tells what turn %s tells: %s %s%s", other, t.Kind, t.Told, t.Milestone)
			continue
		}
		first[what] = t.ID
	}
	ids, replies := map[string]int64{}, map[string]int64{}
	for _, m := range j.Messages {
		f := Finding{Kind: DuplicateMessage, Run: m.Run, Turn: m.Turn}
		if other, twice := ids[m.ID]; twice {
			j.add(f, "message %d is message %d again", m.Seq, other)
			continue
		}
		ids[m.ID] = m.Seq
		if m.Role != "assistant" || m.Turn == "" {
			continue
		}
		if other, twice := replies[m.Turn]; twice {
			j.add(f, "message %d is a second reply, after message %d", m.Seq, other)
			continue
		}
		replies[m.Turn] = m.Seq
	}
}
