package ingress

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/errand-dev/errand/shared/api"
	"github.com/errand-dev/errand/shared/subagent"
)

// whyPages bounds how much of a conversation's log Why reads.
const whyPages = 40

// Why tells how the run came to where it is: the log's events of it and the times that
// its row keeps. It reads the conversation's log from the beginning, up to 20,000
// events. Errors: agent.ErrNoRun.
func (s *Service) Why(ctx context.Context, o subagent.Owner, id string) (api.Why, error) {
	row, err := s.Control.Run(ctx, o, id)
	if err != nil {
		return api.Why{}, err
	}
	backbone, err := s.Ledger.Backbone(ctx, o)
	if err != nil {
		return api.Why{}, err
	}
	timeline, err := s.timeline(ctx, row)
	if err != nil {
		return api.Why{}, err
	}
	f := forecast{row: row, backbone: backbone, now: subagent.At(s.Ledger.Now()), terms: s.Ledger.Terms}
	return api.Why{RunID: id, Now: f.sentence(), Timeline: timeline}, nil
}

func (s *Service) timeline(ctx context.Context, row subagent.Run) ([]api.Moment, error) {
	var moments []api.Moment
	told := map[string]bool{}
	var after int64
	for range whyPages {
		events, err := s.Ledger.Events(ctx, row.Owner, after, scanPage)
		if err != nil {
			return nil, err
		}
		for _, e := range events {
			after = e.Seq
			if e.Run == row.ID {
				told[e.Type] = true
				moments = append(moments, api.Moment{At: timeOf(e.At), What: e.Type, Detail: detail(e.Data)})
			}
		}
		if len(events) < scanPage {
			break
		}
	}
	for _, fact := range facts(row) {
		// The log can lose an event; the row keeps when it was.
		if fact.at != 0 && !told[fact.event] {
			moments = append(moments, api.Moment{At: timeOf(fact.at), What: fact.event, Detail: fact.detail})
		}
	}
	slices.SortStableFunc(moments, func(a, b api.Moment) int { return a.At.Compare(b.At.Time) })
	return moments, nil
}

type fact struct {
	at     subagent.Time
	event  string
	detail string
}

// facts are what the row itself knows of the run's life, under the names of the events
// that tell the same.
func facts(r subagent.Run) []fact {
	list := []fact{
		{r.DispatchedAt, "run.dispatched", "agent=" + r.Agent},
		{r.StartedAt, "run.started", ""},
		{r.GivenUpAt, "run.given_up", "reason=" + r.Reason},
		{r.EndedAt, "run.ended", "status=" + string(r.Status)},
	}
	for _, slot := range []subagent.Slot{subagent.Finish, subagent.GiveUp} {
		d := r.Delivery(slot)
		if d.State != subagent.Open {
			list = append(list, fact{d.At, "delivery." + string(d.State), "slot=" + string(slot)})
		}
	}
	return list
}

// detail writes an event's data in one line, names sorted.
func detail(raw json.RawMessage) string {
	var fields map[string]any
	if api.Null(raw) || json.Unmarshal(raw, &fields) != nil {
		return string(data(raw))
	}
	parts := make([]string, 0, len(fields))
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		value, ok := fields[name].(string)
		if !ok {
			// It was decoded from JSON, so it encodes.
			encoded, _ := json.Marshal(fields[name])
			value = string(encoded)
		}
		parts = append(parts, name+"="+value)
	}
	return strings.Join(parts, " ")
}

// forecast says what a run waits for and what happens next. It tells what the rules
// will do; it decides nothing.
type forecast struct {
	row      subagent.Run
	backbone subagent.Backbone
	now      subagent.Time
	terms    subagent.Terms
}

func (f forecast) sentence() string {
	r := f.row
	switch {
	case !r.Outstanding():
		return f.settled()
	case r.Status.Live():
		return f.live() + f.bound() + "; " + f.tick() + "."
	case r.Status.Hard():
		return fmt.Sprintf("The run is %s; %s; %s.", r.Status, f.delivery(subagent.Finish), f.tick())
	case r.GiveUp.State == subagent.Open:
		return fmt.Sprintf("The run was given up (%s); %s; %s.", r.Reason, f.delivery(subagent.GiveUp), f.tick())
	case r.Torn:
		return fmt.Sprintf("The run was given up (%s) and has stopped; the tick closes its finish slot silently; %s.", r.Reason, f.tick())
	}
	return fmt.Sprintf("The run was given up (%s) and may still be at work: a late result is delivered until %s, then its finish slot closes as abandoned; %s.",
		r.Reason, clock(r.WatchUntil), f.tick())
}

func (f forecast) settled() string {
	r := f.row
	switch r.Finish.State {
	case subagent.Delivered:
		return fmt.Sprintf("The run is %s and its end was delivered at %s; nothing more happens.", r.Status, clock(r.Finish.At))
	case subagent.Dead:
		return fmt.Sprintf("The run is %s, but delivering its end failed %d times; redrive delivers it again.", r.Status, r.Finish.Attempts)
	case subagent.Abandoned:
		return fmt.Sprintf("The run was given up (%s) and no result came until %s; nothing more happens.", r.Reason, clock(r.Finish.At))
	}
	return fmt.Sprintf("The run is %s and closed; nobody is owed a message; nothing more happens.", r.Status)
}

func (f forecast) live() string {
	r := f.row
	switch {
	case r.Status == subagent.Waiting:
		return "The run " + waitsFor(r.Wait) + " and holds no process; that wakes it, or a tick if the wake was lost"
	case r.Exec.Holder != "" && !r.Exec.Free(f.now, f.terms):
		return fmt.Sprintf("The run is executing (attempt %d), lease held until %s and renewed while its executor lives", r.Exec.Epoch, clock(r.Exec.Until))
	case r.Exec.Holder != "":
		return fmt.Sprintf("The executor of attempt %d has not renewed its lease since %s; the next tick sends the job again", r.Exec.Epoch, clock(r.Exec.Until))
	case r.Exec.Until > f.now:
		return fmt.Sprintf("The run failed %d times in a row and is tried again at %s", r.Lost, clock(r.Exec.Until))
	}
	return "The run waits for an executor; its job is queued, and a tick sends it again if it was lost"
}

// waitsFor says what a wait is for.
func waitsFor(w subagent.Wait) string {
	text := "waits"
	switch {
	case w.Signal != "":
		text += " for the answer to " + w.Signal
	case w.Milestone != "":
		text += fmt.Sprintf(" for milestone %s of run %s", w.Milestone, w.Runs[0])
	case len(w.Runs) == 1:
		text += " for run " + w.Runs[0]
	case len(w.Runs) > 1:
		text += fmt.Sprintf(" for %d of the runs %s", w.Need, strings.Join(w.Runs, ", "))
	}
	if w.Until != 0 {
		text += ", until " + clock(w.Until) + " at the latest,"
	}
	return text
}

// bound says until when the run is waited for.
func (f forecast) bound() string {
	text := ""
	if f.row.Deadline != 0 {
		text = "; it is given up at " + clock(f.row.Deadline)
	}
	if f.row.Silence > 0 && f.row.LastSignal != 0 && !f.row.Exec.Free(f.now, f.terms) {
		quiet := f.row.LastSignal + subagent.Time(f.row.Silence)
		text += "; without a new signal it is given up at " + clock(quiet)
	}
	return text
}

func (f forecast) delivery(slot subagent.Slot) string {
	d := f.row.Delivery(slot)
	switch {
	case claimed(f.row, slot, f.now, f.terms):
		return fmt.Sprintf("%s is open, claim held until %s (attempt %d of %d)", slot, clock(f.row.Claim.Until), d.Attempts, subagent.MaxAttempts)
	case !f.row.Claim.Free(f.now, f.terms):
		return fmt.Sprintf("%s is open, attempt %d failed, the next one comes after %s", slot, d.Attempts, clock(f.row.Claim.Until))
	}
	return fmt.Sprintf("%s is open, its delivery is on its way", slot)
}

func (f forecast) tick() string {
	_, reserved := f.backbone.Open[f.row.ID]
	switch {
	case f.backbone.Armed && reserved:
		return fmt.Sprintf("next tick due %s", clock(f.backbone.Due))
	case f.backbone.Armed:
		return "no tick looks at it, since it has no reservation"
	}
	return "no tick is armed"
}

func clock(t subagent.Time) string { return t.Time().Format("2006-01-02T15:04:05.000Z") }
