package protocol

import "github.com/errand-dev/errand/shared/subagent"

// What a process of the ledger model is doing.
const (
	idle = iota
	// Executors.
	got
	holding
	inStep
	ended
	tearing
	// Heads of the conversation, calling a handler.
	claimed
	inHandler
	handled
	failing
	// Heads of the conversation, adding a message.
	begun
	observed
	writing
	skipping
	told
	leaving
	// Couriers, ticks, redrives.
	decided
	created
)

// executor works on a job of the run.
type executor struct {
	pc    uint8
	token uint8
	// behind counts who acquired since it did; until is what it knows of its lease.
	behind, until int8
}

// head has a turn that tells of a slot: it calls the handler or adds the message.
type head struct {
	pc    uint8
	slot  uint8
	n     int8
	token uint8
	until int8
	at    int8
}

// courier makes the message of a slot durable as a turn and marks the slot.
type courier struct {
	pc   uint8
	slot uint8
	told uint8
}

// tick has read the row and decided.
type tick struct {
	pc     uint8
	action uint8
	behind int8
	claims int8
	told   uint8
}

// place is the row of the conversation.
type place struct {
	turn     uint8
	token    uint8
	until    int8
	messages int8
}

// ledger is a state of the model: the row of one run, everything that is at work on
// it, and what is left of the budget of mishaps.
type ledger struct {
	row  row
	jobs uint8
	// last is the executor that acquired last, as its index plus one.
	last uint8
	x    [2]executor
	h    [2]head
	c    [2]courier
	t    tick
	// created and done are the turns of a slot, a bit each: bit n is the turn of claim
	// count n of a handler, bit 0 the turn of a message.
	created, done [2]uint8
	// ended is the number of messages at the end of a turn.
	ended [2]int8
	conv  place
	// log is the messages of the conversation: slot+1 each.
	log [3]uint8
	// real: the run's real end reached its handler.
	real    bool
	seen    int8
	pending int8

	crashes, lost, cancels, redrives, fails, hands int8
}

// setup is the size of an exploration.
type setup struct {
	size                                           size
	name                                           string
	executors, heads, couriers                     int
	handler                                        bool
	clocks                                         [4]int8 // executors and heads, the tick, the users
	budget                                         int8
	attempts                                       int8 // left per slot
	crashes, lost, cancels, redrives, fails, hands int8
	// again is how many duplicates of the first job there are.
	again uint8
	// worked begins with executor 1 in its step and the run over its budget.
	worked bool
	// dead begins with a run that has ended and whose finish is dead-lettered, over with
	// one that has ended and is not told yet.
	dead, over bool
	// once: a handler's turn that is done is never sent under another id. hasty: a turn
	// is not read again once its place is taken. Both are mistakes.
	once, hasty bool
}

func (p setup) start() ledger {
	// A queue delivers a job at least once.
	s := ledger{jobs: 1 + p.again, seen: -1, crashes: p.crashes, lost: p.lost, cancels: p.cancels, redrives: p.redrives, fails: p.fails, hands: p.hands}
	s.row = row{status: queued, until: unset, claim: unset, watch: unset, deadline: p.budget}
	left := int8(subagent.MaxAttempts) - p.attempts
	s.row.attempts = [2]int8{left, left}
	for i := range s.x {
		s.x[i].until = unset
	}
	for i := range s.h {
		s.h[i].until = unset
	}
	s.conv.until = unset
	if p.worked {
		lease := int8(terms.Lease.Seconds())
		s.jobs, s.last = p.again, 1
		s.row.status, s.row.acquired, s.row.holder, s.row.until, s.row.deadline = running, true, 1, lease, 0
		s.x[0] = executor{pc: inStep, token: 1, until: lease}
	}
	if p.dead || p.over {
		s.jobs, s.row.status, s.row.acquired, s.row.deadline = 0, completed, true, 0
	}
	if p.dead {
		s.row.state[finish], s.row.attempts[finish], s.real = 2, subagent.MaxAttempts, true
	}
	return s
}

func (p setup) model() Model[ledger] {
	goals := []Goal[ledger]{{Name: "that the finish slot is closed", Via: Normal, Done: func(s *ledger) bool { return s.row.state[finish] != 0 }}}
	if p.heads == 0 {
		goals = nil
	}
	if !p.handler {
		goals = append(goals, Goal[ledger]{Name: "that a delivered real end stands in the conversation", Via: Normal, Done: func(s *ledger) bool {
			return closings[s.row.state[finish]] != subagent.Delivered || s.position(finish) >= 0
		}})
	}
	return Model[ledger]{Start: p.start(), Next: p.next, Check: p.check, Goals: goals}
}

func (s *ledger) position(slot uint8) int {
	for i, m := range s.log {
		if m == slot+1 {
			return i
		}
	}
	return -1
}

// check judges a state.
func (p setup) check(s *ledger) string {
	fin, gu := closings[s.row.state[finish]], closings[s.row.state[giveUp]]
	if (fin == subagent.Silent || fin == subagent.Abandoned) && gu == subagent.Open {
		return "finish closes silently or as abandoned only after give_up is closed"
	}
	if fin == subagent.Delivered && !s.row.hard() {
		return "a finish is delivered only of a hard end"
	}
	if p.within(s, 0) && p.within(s, 1) {
		return "two executors never act at once within their leases"
	}
	if p.calling(s, 0) && p.calling(s, 1) {
		return "the handlers of a run never overlap within their claims"
	}
	i, f := s.position(giveUp), s.position(finish)
	if f >= 0 && i > f {
		return "no interrupted message stands after the real end"
	}
	seen := [2]int{}
	for _, m := range s.log {
		if m > 0 {
			seen[m-1]++
		}
	}
	if seen[0] > 1 || seen[1] > 1 {
		return "a slot has one message"
	}
	if !p.handler {
		for slot := range slots {
			if closings[s.row.state[slot]] == subagent.Delivered && s.created[slot] == 0 {
				return "a slot is marked only after its turn is durable"
			}
		}
	}
	return ""
}

// within: the executor is in a step and knows no reason to stop.
func (p setup) within(s *ledger, i int) bool {
	x := &s.x[i]
	return x.pc == inStep && p.may(i, x.until)
}

func (p setup) calling(s *ledger, i int) bool {
	h := &s.h[i]
	return h.pc == inHandler && p.may(i, h.until)
}

// may: by its own clock a holder is not past the margin of its lease. What it does just
// before the bound counts as done at it: a unit is as long as the margin.
func (p setup) may(i int, until int8) bool { return until != unset && p.clocks[i] <= until-1 }

// writer builds the edges of one state.
type writer struct {
	setup
	s   *ledger
	out []Edge[ledger]
}

func (p setup) next(s *ledger, out []Edge[ledger]) []Edge[ledger] {
	w := writer{p, s, out}
	w.wait()
	for i := range p.executors {
		w.executor(i)
	}
	for i := range p.heads {
		if p.handler {
			w.handlerHead(i)
		} else {
			w.messageHead(i)
		}
	}
	for i := range p.couriers {
		w.courier(i)
	}
	w.tick()
	w.users()
	return w.out
}

func (w *writer) add(to ledger, class Class, who, what, note, bad string) {
	if bad == "" {
		bad = changed(&w.s.row, &to.row)
	}
	w.out = append(w.out, Edge[ledger]{To: to, Step: Step{who, what, note}, Class: class, Bad: bad})
}

// changed judges every write of the row.
func changed(before, after *row) string {
	switch {
	case before.hard() && after.status != before.status:
		return "a hard end never changes"
	case after.status == queued && before.status != queued:
		return "no run becomes queued again"
	case before.state != after.state && after.redrives == before.redrives && (before.state[finish] != 0 && after.state[finish] != before.state[finish] || before.state[giveUp] != 0 && after.state[giveUp] != before.state[giveUp]):
		return "a closed slot changes by a redrive only"
	}
	return ""
}

// put writes the row that a rule returned. An acquisition leaves every other executor
// one behind.
func (s *ledger) put(x subagent.Run) {
	for i := range s.x {
		if n := x.Exec.Epoch - newest; s.x[i].pc != idle && n > 0 && s.row.acquired {
			s.x[i].behind = min(s.x[i].behind+int8(n), 3)
		}
	}
	if n := x.Exec.Epoch - newest; s.t.pc == decided && n > 0 {
		s.t.behind = min(s.t.behind+int8(n), 3)
	}
	s.row = rowOf(x)
}

func (w *writer) run() subagent.Run { return w.s.row.run(w.budget) }

// wait lets one unit of time pass.
func (w *writer) wait() {
	to := *w.s
	to.row.pass()
	for i := range to.x {
		to.x[i].until = passed(to.x[i].until)
	}
	for i := range to.h {
		to.h[i].until = passed(to.h[i].until)
	}
	to.conv.until = passed(to.conv.until)
	if to != *w.s {
		w.add(to, Normal, "time", "passes", "", "")
	}
}

var executorNames = [...]string{"executor 1", "executor 2"}

func (w *writer) executor(i int) {
	s, who := w.s, executorNames[i]
	x := s.x[i]
	now := clock(w.clocks[i])
	newest := s.last == uint8(i+1)
	epoch := int64(newestEpoch - x.behind)
	become := func(to *ledger, pc uint8) {
		if pc == idle {
			to.x[i] = executor{until: unset}
			return
		}
		to.x[i].pc = pc
	}
	refused := func(o subagent.Outcome) uint8 {
		if o == subagent.TornDown {
			return tearing
		}
		return idle
	}
	if x.pc != idle && s.crashes > 0 {
		to := *s
		to.crashes--
		become(&to, idle)
		w.add(to, Fault, who, "crashes", "", "")
	}
	stale := func(o subagent.Outcome) string {
		if o == subagent.Apply && !newest {
			return "a stale holder writes nothing"
		}
		return ""
	}
	switch x.pc {
	case idle:
		if s.jobs == 0 {
			return
		}
		to := *s
		to.jobs--
		to.x[i] = executor{pc: got, token: s.freshLease(), until: unset}
		w.add(to, Normal, who, "receives the job", "", "")
	case got:
		next, o := w.run().Acquire(tokens[x.token], now, terms)
		to := *s
		if !o.OK() {
			become(&to, idle)
			w.add(to, Normal, who, "cannot acquire", o.String(), "")
			return
		}
		bad := ""
		if o == subagent.Apply {
			if s.row.status == interrupted || s.row.hard() {
				bad = "nothing is executed after a give-up or an end"
			}
			to.put(next)
			to.last = uint8(i + 1)
			if s.lost > 0 {
				again := to
				again.lost--
				again.x[i].behind = 0
				w.add(again, Fault, who, "acquires, the answer is lost", "", bad)
			}
		}
		to.x[i].behind, to.x[i].until = 0, rel(next.Exec.Until)
		if o == subagent.Mine {
			to.x[i].until = to.row.until
		}
		become(&to, holding)
		w.add(to, Normal, who, "acquires", o.String(), bad)
	case holding:
		next, o := w.run().StartStep(epoch, now, terms, false)
		to := *s
		bad := stale(o)
		if o == subagent.Apply {
			if s.row.status == interrupted || s.row.hard() {
				bad = "no step starts after a give-up or an end"
			}
			to.put(next)
			to.x[i].until = rel(next.Exec.Until)
			become(&to, inStep)
		} else {
			become(&to, refused(o))
		}
		w.add(to, Normal, who, "starts a step", o.String(), bad)
		w.handOn(i, epoch, stale)
	case inStep:
		to := *s
		become(&to, ended)
		w.add(to, Normal, who, "has the result", "", "")
		next, o := w.run().StartStep(epoch, now, terms, true)
		to = *s
		if o == subagent.Apply {
			to.put(next)
			to.x[i].until = rel(next.Exec.Until)
		} else {
			become(&to, refused(o))
		}
		if to != *s {
			w.add(to, Normal, who, "renews", o.String(), stale(o))
		}
	case ended:
		next, o := w.run().End(epoch, subagent.Result{Status: subagent.Completed}, 0, now)
		to := *s
		bad := stale(o)
		if newest && !s.row.hard() && s.row.state[finish] == 0 && o != subagent.Apply {
			bad = "a real end is never lost while finish is open"
		}
		if o == subagent.Apply {
			to.put(next)
			if s.lost > 0 {
				again := to
				again.lost--
				w.add(again, Fault, who, "writes the end, the answer is lost", "", bad)
			}
		}
		if s.row.status == completed && newest && o != subagent.Mine {
			bad = "a repeated end finds itself"
		}
		become(&to, idle)
		w.add(to, Normal, who, "writes the end", o.String(), bad)
	case tearing:
		next, o := w.run().TearDown(epoch)
		to := *s
		bad := stale(o)
		if o == subagent.Apply {
			if next.Status != subagent.Interrupted || find(closings[:], next.Finish.State) != s.row.state[finish] {
				bad = "a teardown is not a second end"
			}
			to.put(next)
		}
		become(&to, idle)
		w.add(to, Normal, who, "confirms the teardown", o.String(), bad)
	}
}

const newestEpoch = int8(newest)

// handOn gives the lease back for another executor to go on.
func (w *writer) handOn(i int, epoch int64, stale func(subagent.Outcome) string) {
	s := w.s
	if s.hands == 0 {
		return
	}
	next, o := w.run().HandOn(epoch, clock(w.clocks[i]), true, 0, subagent.Wait{})
	if o != subagent.Apply {
		return
	}
	to := *s
	to.hands--
	to.put(next)
	to.jobs = max(to.jobs, 1)
	to.x[i] = executor{until: unset}
	w.add(to, Outside, executorNames[i], "hands the run on", o.String(), stale(o))
}

// freshLease returns a token that nobody holds or remembers.
func (s *ledger) freshLease() uint8 {
	for t := uint8(1); ; t++ {
		if t != s.row.holder && t != s.x[0].token && t != s.x[1].token {
			return t
		}
	}
}

func (s *ledger) freshClaim() uint8 {
	for t := uint8(1); ; t++ {
		if t != s.row.token && t != s.conv.token && t != s.h[0].token && t != s.h[1].token {
			return t
		}
	}
}

func (w *writer) tick() {
	s := w.s
	now := clock(w.clocks[2])
	if s.t.pc == idle {
		action, _ := subagent.Decide(w.run(), now, terms)
		if action == subagent.Keep || action == subagent.Forget {
			return
		}
		to := *s
		to.t = tick{pc: decided, action: uint8(action), claims: s.row.claims, told: s.row.status}
		w.add(to, Normal, "tick", "reads the row and decides", action.String(), "")
		return
	}
	to := *s
	to.t = tick{}
	act := func(next subagent.Run, o subagent.Outcome, bad string) {
		if o == subagent.Apply {
			to.put(next)
			if s.lost > 0 {
				again := to
				again.t = s.t
				again.lost--
				w.add(again, Fault, "tick", "acts, the answer is lost", subagent.Action(s.t.action).String(), bad)
			}
		}
		w.add(to, Normal, "tick", subagent.Action(s.t.action).String(), o.String(), bad)
	}
	r := w.run()
	switch action := subagent.Action(s.t.action); action {
	case subagent.GiveUpNow:
		next, o := r.Interrupt(subagent.ReasonBudget, r, now, terms)
		act(next, o, "")
	case subagent.FailNow:
		epoch := int64(newestEpoch - s.t.behind)
		next, o := r.Fail(subagent.ReasonExecutorLost, "", epoch, now)
		bad := ""
		if o == subagent.Apply && w.legit() {
			bad = "a run is not failed under a holder that is within its lease"
		}
		act(next, o, bad)
	case subagent.ResendJob:
		to.jobs = max(to.jobs, 1)
		w.add(to, Normal, "tick", "resends the job", "", "")
	case subagent.SendFinish, subagent.SendGiveUp:
		slot := uint8(finish)
		if action == subagent.SendGiveUp {
			slot = giveUp
		}
		w.send(to, slot, s.t.claims, s.t.told, Normal, "tick")
	case subagent.BuryFinish, subagent.BuryGiveUp:
		slot := subagent.Finish
		if action == subagent.BuryGiveUp {
			slot = subagent.GiveUp
		}
		next, o := r.Bury(slot, now, terms)
		bad := ""
		if o == subagent.Apply && (w.calling(s, 0) || w.calling(s, 1)) {
			bad = "no slot is buried under a handler that is within its claim"
		}
		act(next, o, bad)
	case subagent.Silence:
		next, o := r.CloseSilently(now)
		bad := ""
		if o == subagent.Apply && w.legit() {
			bad = "a run is not closed silently under a holder that is within its lease"
		}
		act(next, o, bad)
	case subagent.Stop:
		next, o := r.StopWatching(now, terms)
		bad := ""
		if o == subagent.Apply && w.legit() {
			bad = "a run is not abandoned under a holder that is within its lease"
		}
		act(next, o, bad)
	}
}

// legit: the newest holder may still act by its own clock.
func (w *writer) legit() bool {
	for i := range w.executors {
		if x := &w.s.x[i]; w.s.last == uint8(i+1) && x.pc >= holding && x.pc <= ended && w.may(i, x.until) {
			return true
		}
	}
	return false
}

// users cancel and redrive.
func (w *writer) users() {
	s := w.s
	if s.cancels > 0 {
		next, o := w.run().Cancel("", clock(w.clocks[3]))
		to := *s
		to.cancels--
		if o == subagent.Apply {
			to.put(next)
			w.add(to, Outside, "user", "cancels", o.String(), "")
			if s.lost > 0 {
				to.cancels++
				to.lost--
				w.add(to, Fault, "user", "cancels, the answer is lost", "", "")
			}
		} else if s.row.status == aborted && o != subagent.Mine {
			w.add(to, Outside, "user", "cancels again", o.String(), "a repeated cancel finds itself")
		}
	}
	for slot := range slots {
		if closings[s.row.state[slot]] == subagent.Dead && s.redrives > 0 && s.pending == 0 {
			to := *s
			to.redrives--
			to.seen, to.pending = s.row.redrives, 2
			w.add(to, Outside, "two users", "see a dead slot", string(slots[slot]), "")
		}
		if s.pending == 0 {
			continue
		}
		next, o := w.run().Redrive(slots[slot], int(s.seen), clock(w.clocks[3]))
		to := *s
		bad := ""
		if o == subagent.Apply {
			if s.row.redrives != s.seen {
				bad = "two redrives of one failure are one"
			}
			to.put(next)
			// As few attempts as at the start, to keep the model small.
			to.row.attempts[slot] = int8(subagent.MaxAttempts) - w.attempts
		}
		if to.pending--; to.pending == 0 {
			to.seen = -1
		}
		w.add(to, Normal, "a user", "redrives "+string(slots[slot]), o.String(), bad)
	}
}
