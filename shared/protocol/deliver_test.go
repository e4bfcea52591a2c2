package protocol

import "github.com/errand-dev/errand/shared/subagent"

// send does what delivery.Courier.Deliver does for a row that was read earlier.
func (w *writer) send(to ledger, slot uint8, claims int8, status uint8, class Class, who string) {
	if w.handler {
		// The turn of a handler is named by the claim count, and by the tick if that one
		// is done: a turn that found the claim held must not stand in the way of the next.
		to.created[slot] |= 1 << claims
		if !w.once {
			to.done[slot] &^= 1 << claims
		}
		w.add(to, class, who, "sends the turn of the handler", string(slots[slot]), "")
		return
	}
	for i := range w.couriers {
		if to.c[i].pc == idle {
			to.c[i] = courier{pc: got, slot: slot, told: status}
			w.add(to, class, who, "has a message to deliver", string(slots[slot]), "")
			return
		}
	}
}

var courierNames = [...]string{"courier 1", "courier 2"}

// courier makes the message durable as a turn, then marks the slot. One that is idle
// may be called at once by whoever wrote the row: the fast path.
func (w *writer) courier(i int) {
	s, who := w.s, courierNames[i]
	c := s.c[i]
	if c.pc != idle && s.crashes > 0 {
		to := *s
		to.crashes--
		to.c[i] = courier{}
		w.add(to, Fault, who, "crashes", "", "")
	}
	to := *s
	switch c.pc {
	case idle:
		slot := uint8(finish)
		if s.row.status == interrupted {
			slot = giveUp
		}
		if (s.row.hard() || s.row.status == interrupted) && s.row.state[slot] == 0 {
			to.c[i] = courier{pc: got, slot: slot, told: s.row.status}
			w.add(to, Lucky, who, "is called at once", string(slots[slot]), "")
		}
	case got:
		to.created[c.slot] |= 1
		to.c[i].pc = created
		w.add(to, Normal, who, "accepts the turn", string(slots[c.slot]), "")
	case created:
		next, o := w.run().MarkInjected(slots[c.slot], statuses[c.told], clock(w.clocks[3]))
		if o == subagent.Apply {
			to.put(next)
			if s.lost > 0 {
				again := to
				again.lost--
				w.add(again, Fault, who, "marks, the answer is lost", string(slots[c.slot]), "")
			}
		}
		to.c[i] = courier{}
		w.add(to, Normal, who, "marks "+string(slots[c.slot]), o.String(), "")
	}
}

var headNames = [...]string{"head 1", "head 2"}

// handlerHead calls the handler of a slot in a turn. Any number of heads may be at the
// same turn: the claim alone keeps them apart.
func (w *writer) handlerHead(i int) {
	s, who := w.s, headNames[i]
	h := s.h[i]
	now := clock(w.clocks[i])
	name := slots[h.slot]
	finishTurn := func(to *ledger) {
		to.done[h.slot] |= 1 << h.n
		to.h[i] = head{until: unset}
	}
	if h.pc != idle && s.crashes > 0 {
		to := *s
		to.crashes--
		to.h[i] = head{until: unset}
		w.add(to, Fault, who, "crashes", "", "")
	}
	to := *s
	switch h.pc {
	case idle:
		for slot := range slots {
			for n := range int8(8) {
				if open := s.created[slot] &^ s.done[slot]; open&(1<<n) != 0 {
					to := *s
					to.h[i] = head{pc: got, slot: uint8(slot), n: n, token: s.freshClaim(), until: unset}
					w.add(to, Normal, who, "has the turn of "+string(slots[slot]), "", "")
				}
			}
		}
	case got:
		next, o := w.run().Take(name, tokens[h.token], now, terms)
		if !o.OK() {
			finishTurn(&to)
			w.add(to, Normal, who, "may not deliver "+string(name), o.String(), "")
			return
		}
		if o == subagent.Apply {
			to.put(next)
			if s.lost > 0 {
				again := to
				again.lost--
				w.add(again, Fault, who, "claims "+string(name)+", the answer is lost", "", "")
			}
		}
		to.h[i].pc, to.h[i].until = claimed, rel(next.Claim.Until)
		w.add(to, Normal, who, "claims "+string(name), o.String(), "")
	case claimed:
		if !w.may(i, h.until) {
			to.h[i] = head{until: unset}
			w.add(to, Normal, who, "comes too late to call the handler", "", "")
			return
		}
		bad := ""
		if h.slot == giveUp && s.real {
			bad = "no handler hears of an interruption after the real end"
		}
		to.h[i].pc = inHandler
		to.real = to.real || h.slot == finish
		w.add(to, Normal, who, "calls the handler of "+string(name), "", bad)
	case inHandler:
		if w.may(i, h.until) {
			done := to
			done.h[i].pc = handled
			w.add(done, Normal, who, "is done with the handler", "", "")
			if s.fails > 0 {
				fail := to
				fail.fails--
				fail.h[i].pc = failing
				w.add(fail, Outside, who, "fails in the handler", "", "")
			}
		} else {
			to.h[i].pc = failing
			w.add(to, Normal, who, "stops the handler: its claim runs out", "", "")
			return
		}
		next, o := w.run().RenewClaim(name, tokens[h.token], now, terms)
		if o == subagent.Apply {
			to.put(next)
			to.h[i].until = rel(next.Claim.Until)
		} else {
			to.h[i].pc = failing
		}
		if to != *s {
			w.add(to, Normal, who, "renews the claim", o.String(), "")
		}
	case handled:
		next, o := w.run().Mark(name, tokens[h.token], now)
		if o == subagent.Apply {
			to.put(next)
			if s.lost > 0 {
				again := to
				again.lost--
				w.add(again, Fault, who, "marks, the answer is lost", string(name), "")
			}
		}
		bad := ""
		if s.row.token == h.token && closings[s.row.state[h.slot]] == subagent.Delivered && o != subagent.Mine {
			bad = "a repeated mark finds itself"
		}
		finishTurn(&to)
		w.add(to, Normal, who, "marks "+string(name), o.String(), bad)
	case failing:
		next, o := w.run().Release(name, tokens[h.token], now, terms.Skew)
		if o == subagent.Apply {
			to.put(next)
		}
		finishTurn(&to)
		w.add(to, Normal, who, "releases "+string(name), o.String(), "")
	}
}

// messageHead adds the message of a slot to the conversation. It takes the place, reads
// the turn and then the run, and writes at the next number. If another message is
// there, it goes on to the next number only while the place is still its own.
func (w *writer) messageHead(i int) {
	s, who := w.s, headNames[i]
	h := s.h[i]
	now := clock(w.clocks[i])
	name := string(slots[h.slot])
	turn := turnNames[h.slot+1]
	if h.pc != idle && s.crashes > 0 {
		to := *s
		to.crashes--
		to.h[i] = head{until: unset}
		w.add(to, Fault, who, "crashes", "", "")
	}
	to := *s
	switch h.pc {
	case idle:
		for slot := range slots {
			if s.created[slot]&^s.done[slot] != 0 {
				to := *s
				to.h[i] = head{pc: got, slot: uint8(slot), token: s.freshClaim(), until: unset}
				w.add(to, Normal, who, "receives the turn of "+string(slots[slot]), "", "")
			} else if s.done[slot] != 0 && s.conv.turn == uint8(slot+1) {
				to := *s
				to.h[i] = head{pc: leaving, slot: uint8(slot), token: s.freshClaim(), until: unset}
				w.add(to, Normal, who, "receives the ended turn again", string(slots[slot]), "")
			}
		}
	case got:
		next, o := s.conv.conversation().Begin(turn, tokens[h.token], now, terms)
		if !o.OK() {
			to.h[i] = head{until: unset}
			w.add(to, Normal, who, "does not get the place", o.String(), "")
			return
		}
		to.conv = placeOf(next)
		to.h[i].pc, to.h[i].at = begun, int8(next.Messages)
		w.add(to, Normal, who, "takes the place", o.String(), "")
	case begun:
		to.h[i].pc = observed
		if s.done[h.slot] != 0 && !w.hasty {
			to.h[i].pc, to.h[i].at = leaving, 0
		}
		w.add(to, Normal, who, "reads the turn of "+name, "", "")
	case observed:
		to.h[i].pc = writing
		if h.slot == giveUp && s.row.hard() {
			to.h[i].pc = skipping
		}
		w.add(to, Normal, who, "reads the run", string(statuses[s.row.status]), "")
	case writing:
		w.write(i, to)
	case told, skipping:
		if s.done[h.slot] == 0 {
			to.done[h.slot], to.ended[h.slot] = 1, h.at
		}
		to.h[i].pc, to.h[i].at = leaving, 0
		w.add(to, Normal, who, "ends the turn of "+name, "", "")
	case leaving:
		next, _ := s.conv.conversation().Leave(turn, int64(s.ended[h.slot]), clock(0))
		to.conv = placeOf(next)
		to.h[i] = head{until: unset}
		w.add(to, Normal, who, "leaves", "", "")
	}
}

// write adds the message at the number that the head has reached, if that is free.
func (w *writer) write(i int, to ledger) {
	s, who := w.s, headNames[i]
	h := s.h[i]
	name := string(slots[h.slot])
	switch s.log[h.at] {
	case 0, h.slot + 1:
		to.log[h.at] = h.slot + 1
		to.h[i].pc, to.h[i].at = told, h.at+1
		w.add(to, Normal, who, "adds the message of "+name, "", "")
		return
	}
	next, o := s.conv.conversation().Renew(tokens[h.token], clock(w.clocks[i]), terms)
	if o == subagent.Apply {
		to.conv = placeOf(next)
		to.h[i].at++
	} else {
		to.h[i] = head{until: unset}
	}
	w.add(to, Normal, who, "finds another message in its place", o.String(), "")
}

func (p place) conversation() subagent.Conversation {
	return subagent.Conversation{
		Turn: turnNames[p.turn], Messages: int64(p.messages),
		Exec: subagent.Lease{Holder: tokens[p.token], Until: abs(p.until)},
	}
}

func placeOf(c subagent.Conversation) place {
	return place{
		turn: find(turnNames[:], c.Turn), token: find(tokens[:], c.Exec.Holder),
		until: rel(c.Exec.Until), messages: int8(c.Messages),
	}
}

var turnNames = [...]string{"", "finish turn", "give_up turn"}
