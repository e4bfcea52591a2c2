package protocol

import (
	"slices"
	"time"

	"github.com/errand-dev/errand/shared/subagent"
)

// What a process of the backbone model is doing.
const (
	// Dispatchers.
	dispReady = iota
	dispSend
	dispWrite
	dispSurvey
	dispPrune
	dispBegin
	dispSettle
	dispDone
	dispRejected
	dispFailed
	dispDead
)

const (
	// Handlers of ticks.
	tickIdle = iota
	tickFence
	tickSurvey
	tickNext
	tickRearm
	tickDisarm
)

// Statuses of a run, as far as the backbone is concerned.
const (
	noRow = iota
	void
	live
	soft
	settled
)

// Numbers of ticks are relative to the epoch, which is always epochNow; versions and
// generations are ranks. So histories that differ by a shift are one state.
const epochNow = 8

const runsOfModel = 2

var runIDs = [runsOfModel]string{"a", "b"}

// bone is the backbone, or the copy of one. A generation of zero means no reservation.
type bone struct {
	armed   bool
	soon    bool
	epoch   int8
	version int8
	open    [runsOfModel]int8
	soft    [runsOfModel]bool
}

type runRow struct{ status, generation int8 }

type dispatcher struct {
	pc     uint8
	copy   bone
	sent   int8
	voided int8
	// gone and soft are what a survey at the cap has seen.
	gone, soft [runsOfModel]bool
}

type ticker struct {
	pc         uint8
	k          int8
	version    int8
	epoch      int8
	open       [runsOfModel]int8
	gone, soft [runsOfModel]bool
	at         int8
}

const numbers = 5

type spine struct {
	bone  bone
	runs  [runsOfModel]runRow
	ticks [numbers]int8
	d     [2]dispatcher
	t     [2]ticker
	// missing: the platform has lost a tick.
	missing bool

	crashes, dups, losses, lost, retries, repairs int8
}

// conversation is the size of an exploration of the backbone.
type conversation struct {
	size                                          size
	name                                          string
	ids                                           []int
	limit                                         int
	tickers                                       int
	crashes, dups, losses, lost, retries, repairs int8
	// near: the next tick is always soon enough for a dispatch. soften: runs are given up.
	near, soften bool
}

const (
	firstRung = 5 * time.Second
	farAway   = 30 * time.Second
	old       = 30
)

func (p conversation) model() Model[spine] {
	s := spine{crashes: p.crashes, dups: p.dups, losses: p.losses, lost: p.lost, retries: p.retries, repairs: p.repairs}
	s.bone = bone{epoch: epochNow, version: 1}
	for i := range s.d {
		if i >= len(p.ids) {
			s.d[i].pc = dispDone
		}
	}
	return Model[spine]{Start: s, Next: p.next, Check: p.check, Goals: []Goal[spine]{
		{Name: "that every dispatch ends", Via: Normal | Outside, Done: func(s *spine) bool { return s.dispatched() }},
		{Name: "that nothing is left when nothing is outstanding", Via: Normal | Outside, Done: func(s *spine) bool {
			return s.dispatched() && !s.bone.armed && s.bone.open == [runsOfModel]int8{} && s.alive() == 0
		}},
		{Name: "that one live tick is left", Via: Normal, Done: func(s *spine) bool { return s.alive() <= 1 }},
	}}
}

func (s *spine) dispatched() bool {
	return s.d[0].pc >= dispDone && s.d[1].pc >= dispDone && s.d[0].pc != dispFailed && s.d[1].pc != dispFailed
}

// alive counts the live ticks, queued or being handled.
func (s *spine) alive() int {
	n := 0
	for _, queued := range s.ticks {
		n += int(queued)
	}
	for _, t := range s.t {
		if t.pc != tickIdle && t.k >= s.bone.epoch {
			n++
		}
	}
	return n
}

func (p conversation) check(s *spine) string {
	holding := 0
	for i, r := range s.runs {
		if r.status == live {
			holding++
		}
		if (r.status == live || r.status == soft) && s.bone.open[i] == 0 {
			return "an outstanding run is in open"
		}
	}
	switch {
	case holding > p.limit:
		return "the cap is never exceeded"
	case s.bone.open != [runsOfModel]int8{} && !s.bone.armed:
		return "open not empty means armed"
	case s.bone.armed && s.alive() == 0 && !s.missing:
		return "armed means that a tick with a number at or above the epoch is queued or being handled"
	}
	return ""
}

func (b *bone) rules() subagent.Backbone {
	x := subagent.Backbone{Armed: b.armed, Epoch: int64(b.epoch), Version: int64(b.version), Open: map[string]subagent.Reservation{}}
	if b.armed {
		x.Due = subagent.At(clock(0).Add(farAway))
		if b.soon {
			x.Due = subagent.At(clock(0).Add(firstRung))
		}
	}
	for i, g := range b.open {
		if g != 0 {
			x.Open[runIDs[i]] = subagent.Reservation{Generation: int64(g), At: subagent.At(clock(0)), Soft: b.soft[i]}
		}
	}
	return x
}

func boneOf(x subagent.Backbone, version int8) bone {
	b := bone{armed: x.Armed, epoch: int8(x.Epoch), version: version}
	b.soon = x.Armed && x.Due <= subagent.At(clock(0).Add(firstRung))
	for i, id := range runIDs {
		if r, ok := x.Open[id]; ok {
			b.open[i], b.soft[i] = int8(r.Generation), r.Soft
		}
	}
	return b
}

func (r *runRow) rules(i int) subagent.Run {
	x := subagent.Run{ID: runIDs[i], Generation: int64(r.generation)}
	switch r.status {
	case void:
		x.Status = subagent.Void
	case live:
		x.Status = subagent.Queued
	case soft:
		x.Status = subagent.Interrupted
	case settled:
		x.Status = subagent.Completed
		x.Finish.State = subagent.Delivered
	}
	return x
}

func runRowOf(x subagent.Run) runRow {
	r := runRow{generation: int8(x.Generation)}
	switch {
	case x.Status == "":
		r.status = noRow
	case x.Status == subagent.Void:
		r.status = void
	case !x.Outstanding():
		r.status = settled
	case x.HoldsSlot():
		r.status = live
	default:
		r.status = soft
	}
	return r
}

// move builds the edges of one state.
type move struct {
	conversation
	s   *spine
	out []Edge[spine]
}

func (p conversation) next(s *spine, out []Edge[spine]) []Edge[spine] {
	m := move{p, s, out}
	for i := range p.ids {
		m.dispatcher(i)
	}
	for i := range p.tickers {
		m.ticker(i)
	}
	m.runs()
	m.queue()
	return m.out
}

func (m *move) add(to spine, class Class, who, what, note string) {
	to.normalise()
	if to != *m.s {
		m.out = append(m.out, Edge[spine]{To: to, Step: Step{who, what, note}, Class: class})
	}
}

// update applies a rule to the backbone as ledger.UpdateBackbone does: on the fresh row.
func (s *spine) update(rule func(subagent.Backbone) (subagent.Backbone, subagent.Outcome)) subagent.Outcome {
	next, o := rule(s.bone.rules())
	if o == subagent.Apply {
		s.bone = boneOf(next, s.bone.version+1)
	}
	return o
}

func (s *spine) send(k int8) {
	if at := k - s.bone.epoch; at >= 0 && at < numbers {
		s.ticks[at] = min(s.ticks[at]+1, 3)
	}
}

// normalise shifts the epoch back to epochNow and turns versions into ranks. Stale
// ticks have no effect and are dropped.
func (s *spine) normalise() {
	if shift := s.bone.epoch - epochNow; shift != 0 {
		s.bone.epoch = epochNow
		var ticks [numbers]int8
		for i := range s.ticks {
			if at := i - int(shift); at >= 0 && at < numbers {
				ticks[at] = s.ticks[i]
			}
		}
		s.ticks = ticks
		for i := range s.d {
			if d := &s.d[i]; d.pc < dispDone && d.pc != dispReady {
				d.copy.epoch = max(d.copy.epoch-shift, 0)
				if d.sent != 0 {
					d.sent = max(d.sent-shift, 1)
				}
			}
		}
		for i := range s.t {
			if t := &s.t[i]; t.pc != tickIdle {
				t.k, t.epoch = max(t.k-shift, 0), max(t.epoch-shift, 0)
			}
		}
	}
	var versions [24]*int8
	n := 0
	keep := func(v *int8) {
		if *v != 0 {
			versions[n] = v
			n++
		}
	}
	keep(&s.bone.version)
	for i := range runsOfModel {
		keep(&s.bone.open[i])
		keep(&s.runs[i].generation)
	}
	for i := range s.d {
		d := &s.d[i]
		d.copy.version = 0
		keep(&d.voided)
		for j := range runsOfModel {
			keep(&d.copy.open[j])
		}
	}
	for i := range s.t {
		keep(&s.t[i].version)
		for j := range runsOfModel {
			keep(&s.t[i].open[j])
		}
	}
	used := versions[:n]
	slices.SortFunc(used, func(a, b *int8) int { return int(*a) - int(*b) })
	rank, last := int8(0), int8(0)
	for _, v := range used {
		if *v != last {
			rank, last = rank+1, *v
		}
		*v = rank
	}
}

// runs end by themselves; whoever closes a slot may also settle its reservation.
func (m *move) runs() {
	for i, r := range m.s.runs {
		to := *m.s
		switch r.status {
		case live:
			if m.soften {
				to.runs[i].status = soft
				m.add(to, Outside, "run "+runIDs[i], "is given up", "")
			}
			to.runs[i].status = settled
			m.add(to, Outside, "run "+runIDs[i], "ends and is delivered", "")
		case soft:
			to.runs[i].status = settled
			m.add(to, Outside, "run "+runIDs[i], "is settled", "")
		case settled:
			if o := to.update(func(b subagent.Backbone) (subagent.Backbone, subagent.Outcome) { return b.Settle(runIDs[i], 0) }); o == subagent.Apply {
				m.add(to, Lucky, "courier", "closes the reservation of "+runIDs[i], "")
			}
		}
	}
}

// queue is the platform's side: duplicates, losses and their repair, and time.
func (m *move) queue() {
	s := m.s
	for i, n := range s.ticks {
		if n == 0 {
			continue
		}
		if s.dups > 0 {
			to := *s
			to.dups--
			to.send(s.bone.epoch + int8(i))
			m.add(to, Fault, "queue", "duplicates a tick", "")
		}
		if s.losses > 0 {
			to := *s
			to.losses--
			to.ticks[i]--
			to.missing = true
			m.add(to, Fault, "queue", "loses a tick", "")
		}
	}
	if s.bone.armed && !s.bone.soon {
		to := *s
		to.bone.soon = true
		m.add(to, Normal, "time", "passes", "")
	}
	if s.bone.armed && (s.repairs > 0 || s.alive() == 0) {
		to := *s
		class := Normal
		if s.alive() > 0 {
			to.repairs--
			class = Fault
		}
		to.missing = to.missing && s.alive() > 0
		to.send(s.bone.epoch)
		m.add(to, class, "repair", "sends the tick of the epoch", "")
	}
}
