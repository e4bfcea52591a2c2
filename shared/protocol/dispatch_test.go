package protocol

import "github.com/errand-dev/errand/shared/subagent"

var dispatcherNames = [...]string{"dispatch 1", "dispatch 2"}

// dispatcher takes the steps of dispatch.Start, in its order.
func (m *move) dispatcher(i int) {
	s, who := m.s, dispatcherNames[i]
	d := s.d[i]
	id := m.ids[i]
	name := runIDs[id]
	if d.pc > dispReady && d.pc < dispDone && s.crashes > 0 {
		to := *s
		to.crashes--
		to.d[i] = dispatcher{pc: dispDead}
		m.add(to, Fault, who, "crashes", "")
	}
	to := *s
	switch d.pc {
	case dispReady:
		m.judge(&to, i, s.bone)
		m.add(to, Normal, who, "reads the backbone", "")
	case dispDone, dispRejected, dispDead:
		if s.retries > 0 {
			to.retries--
			to.d[i] = dispatcher{}
			m.add(to, Fault, who, "is tried again", "")
		}
	case dispFailed:
		to.d[i] = dispatcher{}
		m.add(to, Normal, who, "is tried again after its error", "")
	case dispSend:
		to.d[i] = dispatcher{pc: dispWrite, sent: d.copy.epoch + 1, voided: d.voided}
		to.send(d.copy.epoch + 1)
		m.add(to, Normal, who, "sends a tick", "")
	case dispWrite:
		arming := subagent.Arming{By: subagent.At(clock(0).Add(firstRung))}
		if d.sent != 0 {
			arming = subagent.Arming{Sent: int64(d.sent), Due: subagent.At(clock(0).Add(firstRung))}
		}
		o := to.update(func(b subagent.Backbone) (subagent.Backbone, subagent.Outcome) {
			return b.Reserve(name, m.limit, arming, int64(d.voided), clock(0))
		})
		if o == subagent.Apply && s.lost > 0 {
			again := to
			again.lost--
			m.add(again, Fault, who, "reserves "+name+", the answer is lost", "")
		}
		switch o {
		case subagent.Full:
			to.d[i] = dispatcher{pc: dispSurvey, copy: to.bone.reservations(), voided: d.voided}
		case subagent.Stale:
			m.judge(&to, i, to.bone)
		default:
			to.d[i] = dispatcher{pc: dispBegin, copy: to.bone, voided: d.voided}
		}
		m.add(to, Normal, who, "reserves "+name, o.String())
	case dispSurvey:
		for j, g := range d.copy.open {
			r := s.runs[j].rules(j)
			known := g != 0 && r.Status != "" && !(r.Status == subagent.Void && s.runs[j].generation < g)
			to.d[i].gone[j] = known && !r.Outstanding()
			to.d[i].soft[j] = known && r.Outstanding() && !r.HoldsSlot()
		}
		to.d[i].pc = dispPrune
		m.add(to, Normal, who, "surveys the runs at the cap", "")
	case dispPrune:
		gone, softened := d.copy.pick(d.gone), d.copy.pick(d.soft)
		o := to.update(func(b subagent.Backbone) (subagent.Backbone, subagent.Outcome) { return b.Prune(gone, softened) })
		freed := o == subagent.Apply && to.bone.rules().Live() < m.limit
		switch {
		case freed:
			m.judge(&to, i, to.bone)
		case s.runs[id].status > void:
			to.d[i] = dispatcher{pc: dispDone}
		default:
			to.d[i] = dispatcher{pc: dispRejected}
		}
		m.add(to, Normal, who, "prunes", o.String())
	case dispBegin:
		generation := int64(d.copy.open[id])
		next, o := s.runs[id].rules(id).Begin(subagent.Run{ID: name, Status: subagent.Queued, Generation: generation})
		switch {
		case o == subagent.Apply:
			to.runs[id] = runRowOf(next)
			to.d[i] = dispatcher{pc: dispDone}
		case o == subagent.Stale && d.copy.open[id] != s.runs[id].generation:
			// The copy is too old: the same again until the rounds are used up.
			to.d[i] = dispatcher{pc: dispFailed}
		case o == subagent.Stale:
			to.d[i].voided = s.runs[id].generation
			m.judge(&to, i, d.copy)
		case next.Outstanding():
			to.d[i] = dispatcher{pc: dispDone}
		default:
			to.d[i] = dispatcher{pc: dispSettle}
		}
		m.add(to, Normal, who, "writes the row of "+name, o.String())
	case dispSettle:
		to.update(func(b subagent.Backbone) (subagent.Backbone, subagent.Outcome) { return b.Settle(name, 0) })
		to.d[i] = dispatcher{pc: dispDone}
		m.add(to, Normal, who, "gives back the place of "+name, "")
	}
}

// judge looks at a copy of the backbone and decides what the dispatch does next.
func (m *move) judge(to *spine, i int, b bone) {
	d := &to.d[i]
	have := b.open[m.ids[i]]
	switch rules := b.rules(); {
	case have != 0 && have != d.voided:
		*d = dispatcher{pc: dispBegin, copy: b, voided: d.voided}
	case rules.Live() >= m.limit:
		*d = dispatcher{pc: dispSurvey, copy: b.reservations(), voided: d.voided}
	case rules.NeedsTick(clock(0), firstRung):
		*d = dispatcher{pc: dispSend, copy: bone{epoch: b.epoch}, voided: d.voided}
	default:
		*d = dispatcher{pc: dispWrite, voided: d.voided}
	}
}

// reservations is what a survey uses of the copy.
func (b bone) reservations() bone { return bone{open: b.open, soft: b.soft} }

// pick returns the reservations of the chosen runs, with their generations.
func (b *bone) pick(chosen [runsOfModel]bool) map[string]int64 {
	return pick(b.open, chosen)
}

func pick(open [runsOfModel]int8, chosen [runsOfModel]bool) map[string]int64 {
	picked := map[string]int64{}
	for i, g := range open {
		if chosen[i] && g != 0 {
			picked[runIDs[i]] = int64(g)
		}
	}
	return picked
}

var tickerNames = [...]string{"tick handler 1", "tick handler 2"}

// ticker takes the steps of reconcile.Tick, in its order.
func (m *move) ticker(i int) {
	s, who := m.s, tickerNames[i]
	t := s.t[i]
	if t.pc != tickIdle && s.crashes > 0 {
		to := *s
		to.crashes--
		to.t[i] = ticker{}
		to.send(t.k)
		m.add(to, Fault, who, "crashes, its tick is delivered again", "")
	}
	if t.pc != tickIdle && s.dups > 0 {
		to := *s
		to.dups--
		to.send(t.k)
		m.add(to, Fault, "queue", "delivers a tick again that is being handled", "")
	}
	to := *s
	read := subagent.Backbone{Version: int64(t.version), Epoch: int64(t.epoch)}
	// written moves on after an update: the tick is acknowledged, or judged on the fresh row.
	written := func(to spine, o subagent.Outcome, what string) {
		if o == subagent.Apply && s.lost > 0 {
			again := to
			again.lost--
			m.add(again, Fault, who, what+", the answer is lost", "")
		}
		if o.OK() {
			to.t[i] = ticker{}
		} else {
			to.look(i, t.k)
		}
		m.add(to, Normal, who, what, o.String())
	}
	switch t.pc {
	case tickIdle:
		for at, n := range s.ticks {
			if n > 0 {
				to := *s
				to.ticks[at]--
				to.look(i, s.bone.epoch+int8(at))
				m.add(to, Normal, who, "receives a tick and reads the backbone", [...]string{"epoch", "epoch+1", "epoch+2", "epoch+3", "epoch+4"}[at])
			}
		}
	case tickFence:
		o := to.update(func(b subagent.Backbone) (subagent.Backbone, subagent.Outcome) { return b.Fence(int64(t.k), read) })
		written(to, o, "passes a disarmed backbone")
	case tickSurvey:
		m.survey(i)
	case tickNext:
		to.send(t.k + 1)
		to.t[i].pc = tickRearm
		m.add(to, Normal, who, "sends the next tick", "")
	case tickDisarm:
		o := to.update(func(b subagent.Backbone) (subagent.Backbone, subagent.Outcome) {
			return b.Disarm(int64(t.k), read, pick(t.open, t.gone))
		})
		written(to, o, "disarms")
	case tickRearm:
		due := subagent.At(clock(0).Add(farAway))
		if m.near {
			due = subagent.At(clock(0).Add(firstRung))
		}
		o := to.update(func(b subagent.Backbone) (subagent.Backbone, subagent.Outcome) {
			return b.Rearm(int64(t.k), read, pick(t.open, t.gone), pick(t.open, t.soft), 1, due)
		})
		written(to, o, "moves the backbone on")
	}
}

func (t *ticker) goneAll() bool {
	for i, g := range t.open {
		if g != 0 && !t.gone[i] {
			return false
		}
	}
	return true
}

// look judges tick k on the backbone as it is now.
func (s *spine) look(i int, k int8) {
	b := s.bone.rules()
	switch {
	case !b.Current(int64(k)):
		s.t[i] = ticker{}
	case !b.Armed:
		s.t[i] = ticker{pc: tickFence, k: k, version: s.bone.version, epoch: s.bone.epoch}
	default:
		s.t[i] = ticker{pc: tickSurvey, k: k, version: s.bone.version, epoch: s.bone.epoch, open: s.bone.open, at: -1}
		s.t[i].advance()
	}
}

// advance goes to the next reservation to look at, or on.
func (t *ticker) advance() {
	for t.at++; int(t.at) < runsOfModel; t.at++ {
		if t.open[t.at] != 0 {
			return
		}
	}
	t.pc, t.at = tickNext, 0
	if t.goneAll() {
		t.pc = tickDisarm
	}
}

// survey looks at one reserved run. A reservation without a row may be young, then it
// is kept, or old, then it is entombed: clocks decide, so both can happen at any time.
func (m *move) survey(i int) {
	s, who := m.s, tickerNames[i]
	t := s.t[i]
	j := int(t.at)
	g := int64(t.open[j])
	to := *s
	row := s.runs[j].rules(j)
	classify := func(to spine, after subagent.Run, note string) {
		switch {
		case after.Status == subagent.Void && after.Generation >= g, after.Status != "" && after.Status != subagent.Void && !after.Outstanding():
			to.t[i].gone[j] = true
		case after.Status != "" && after.Status != subagent.Void && !after.HoldsSlot():
			to.t[i].soft[j] = true
		}
		to.t[i].advance()
		m.add(to, Normal, who, "looks at run "+runIDs[j], note)
	}
	classify(to, row, "as it is")
	reserved := subagent.Reservation{Generation: g, At: subagent.At(clock(0))}
	if (row.Status == "" || row.Status == subagent.Void && row.Generation < g) && reserved.Orphan(clock(old)) {
		next, o := row.Entomb(g, clock(old))
		if o == subagent.Apply {
			to.runs[j] = runRowOf(next)
			row = next
		}
		classify(to, row, "entombs it: "+o.String())
	}
}
