package simulation

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/delivery"
	"github.com/errand-dev/errand/shared/ledger"
	"github.com/errand-dev/errand/shared/platform"
	"github.com/errand-dev/errand/shared/subagent"
)

// checker holds what is stored, and what agents and users have seen, against the
// invariants of the design, section 6. It reads the raw rows as they are written.
type checker struct {
	w      *world
	broken []string
	// actor is the process whose call is under way.
	actor  *process
	convs  map[string]*conversation
	bodies []*body
}

// conversation is what is known of one.
type conversation struct {
	owner subagent.Owner
	dirty bool
	// cleared: from here on only what holds for any state is checked.
	cleared  bool
	row      subagent.Conversation
	backbone subagent.Backbone
	runs     map[string]subagent.Run
	turns    map[string]subagent.Turn
	messages map[int64]ledger.Message
	ids      map[string]int64
	ticks    map[int64]int

	order     []string // of runs, as they came
	accepted  []string
	cancelled map[string]bool
	starting  map[string]int
	tries     map[string]int
	steps     map[string]string
	// toldHard are runs whose real end was told, by any way; heard counts inbox messages.
	toldHard map[string]bool
	heard    map[string]int
	calls    map[string]*body // the last successful call, by delivery id
}

func newChecker(w *world) *checker {
	return &checker{w: w, convs: map[string]*conversation{}}
}

func (c *checker) fail(format string, args ...any) {
	c.broken = append(c.broken, fmt.Sprintf(format, args...))
}

func tenantOf(partition string) string {
	tenant, _, _ := strings.Cut(partition, "/")
	return tenant
}

func (c *checker) conv(o subagent.Owner) *conversation {
	key := o.Tenant + "/" + o.Conversation
	v := c.convs[key]
	if v == nil {
		v = &conversation{owner: o, runs: map[string]subagent.Run{}, turns: map[string]subagent.Turn{}, messages: map[int64]ledger.Message{},
			ids: map[string]int64{}, ticks: map[int64]int{}, cancelled: map[string]bool{}, starting: map[string]int{}, tries: map[string]int{},
			steps: map[string]string{}, toldHard: map[string]bool{}, heard: map[string]int{}, calls: map[string]*body{}}
		c.convs[key] = v
	}
	v.dirty = true
	return v
}

// sorted lists the conversations in a fixed order.
func (c *checker) sorted() []*conversation {
	var all []*conversation
	for _, v := range c.convs {
		all = append(all, v)
	}
	slices.SortFunc(all, func(a, b *conversation) int {
		return strings.Compare(a.owner.Tenant+a.owner.Conversation, b.owner.Tenant+b.owner.Conversation)
	})
	return all
}

func decode[T any](item platform.Item) (value T) {
	if item.Exists() {
		if err := json.Unmarshal(item.Body, &value); err != nil {
			panic(err)
		}
	}
	return value
}

// Wrote implements Observer.
func (c *checker) Wrote(before, after platform.Item) {
	parts := strings.Split(after.Key.Partition, "/")
	if len(parts) != 2 {
		return
	}
	v := c.conv(subagent.Owner{Tenant: parts[0], Conversation: parts[1]})
	kind, id, _ := strings.Cut(after.Key.Sort, "#")
	switch kind {
	case "CONV":
		v.row = decode[subagent.Conversation](after)
		c.conversationChanged(v, decode[subagent.Conversation](before), v.row)
	case "EVENT~BACKBONE":
		v.backbone = decode[subagent.Backbone](after)
		if old := decode[subagent.Backbone](before); v.backbone.Epoch < old.Epoch {
			c.fail("the epoch of %v goes back from %d to %d", v.owner, old.Epoch, v.backbone.Epoch)
		}
	case "RUN":
		if !after.Exists() {
			delete(v.runs, id)
			return
		}
		if !before.Exists() {
			v.order = append(v.order, id)
		}
		if decode[subagent.Run](before).Status == subagent.Void {
			delete(v.cancelled, id) // the name begins anew after a clear
		}
		v.runs[id] = decode[subagent.Run](after)
		c.runChanged(v, decode[subagent.Run](before), v.runs[id])
	case "TURN":
		if !after.Exists() {
			delete(v.turns, id)
			return
		}
		v.turns[id] = decode[subagent.Turn](after)
		c.turnChanged(v, decode[subagent.Turn](before), v.turns[id])
	case "MSG":
		m := decode[ledger.Message](after)
		if after.Exists() {
			c.messageAdded(v, m, before.Exists())
		}
	}
}

// Sent and Removed implement Observer.
func (c *checker) Sent(m platform.Message) { c.countTick(m, 1) }
func (c *checker) Removed(m platform.Message) {
	c.countTick(m, -1)
}

func (c *checker) countTick(m platform.Message, n int) {
	if m.Queue != platform.Ticks {
		return
	}
	if w, err := ledger.ParseWake(m.Queue, m.Body); err == nil {
		c.conv(w.Owner).ticks[w.Tick] += n
	}
}

// holds reports whether the acting process is the one that made the token.
func (c *checker) holds(token string) bool {
	_, nonce, embedded := strings.Cut(token, "/")
	if !embedded {
		nonce = token
	}
	return c.actor != nil && strings.HasPrefix(nonce, c.actor.String()+"n")
}

func (c *checker) conversationChanged(v *conversation, old, row subagent.Conversation) {
	switch {
	case row.CreatedAt == 0 || old.CreatedAt == 0:
	case row.Exec.Epoch == old.Exec.Epoch && row.Exec.Until > old.Exec.Until && !c.holds(old.Exec.Holder):
		c.fail("%v renews the place of %s, which %s holds", c.actor, row.Turn, old.Exec.Holder)
	case row.Exec.Epoch != old.Exec.Epoch && old.Turn != "" && old.Turn != row.Turn:
		c.fail("turn %s takes the place of %s", row.Turn, old.Turn)
	case row.Exec.Epoch != old.Exec.Epoch && old.Exec.Holder != "":
		c.w.trace.count("turn taken over")
	}
}

func (c *checker) turnChanged(v *conversation, old, t subagent.Turn) {
	if old.Done() && (t.Status != old.Status || t.Problem != old.Problem || t.Reply != old.Reply) {
		c.fail("the ended turn %s changes from %s to %s", t.ID, old.Status, t.Status)
	}
	if old.Done() || !t.Done() {
		return
	}
	switch {
	case strings.Contains(t.Problem, "its message was lost"):
		c.w.trace.count("turn evicted")
	case strings.Contains(t.Problem, "gave up after"):
		c.w.trace.count("turn given up")
	case t.Status == subagent.Aborted:
		c.w.trace.count("turn superseded")
	case t.Status == subagent.Error:
		c.w.trace.count("turn in error")
	}
}

func (c *checker) messageAdded(v *conversation, m ledger.Message, replaced bool) {
	if v.cleared {
		return
	}
	if at, known := v.ids[m.ID]; known || replaced {
		c.fail("message %s is number %d and %d of the conversation", m.ID, at, m.Seq)
	}
	v.messages[m.Seq], v.ids[m.ID] = m, m.Seq
	if m.Seq > 1 && v.messages[m.Seq-1].ID == "" {
		c.fail("message number %d is there and number %d is not", m.Seq, m.Seq-1)
	}
	for seq := m.Seq - 1; seq > 0 && v.messages[seq].Turn != m.Turn; seq-- {
		if seq > 1 && v.messages[seq-1].Turn == m.Turn {
			c.fail("turn %s writes message %d among those of %s", m.Turn, m.Seq, v.messages[seq].Turn)
		}
	}
	if rest, ok := strings.CutPrefix(m.ID, "detached-finish:"); ok && !strings.HasSuffix(m.ID, ":reply") {
		run, status, _ := strings.Cut(rest, ":")
		c.told(v, run, subagent.Status(status), "message")
	}
}

// told notes that the end of a run was told. No give-up may follow a real end.
func (c *checker) told(v *conversation, run string, status subagent.Status, how string) {
	if status.Hard() {
		v.toldHard[run] = true
	} else if status == subagent.Interrupted && v.toldHard[run] && !v.cleared {
		c.fail("run %s: a %s tells of the give-up after the real end", run, how)
	}
}

func (c *checker) runChanged(v *conversation, old, r subagent.Run) {
	count := c.w.trace.count
	if v.cleared && r.Status == subagent.Void {
		return // erased
	}
	switch {
	case r.Status == "":
		c.fail("run %s has a row without a status", r.ID)
	case r.Status == subagent.Void && old.Status != subagent.Void:
		count("tombstone")
	case old.Status.Hard() && (r.Status != old.Status || r.EndedAt != old.EndedAt || r.Output != old.Output || r.Problem != old.Problem):
		c.fail("the end of run %s changes from %s to %s", r.ID, old.Status, r.Status)
	case old.Status == subagent.Interrupted && r.Status.Live():
		c.fail("the given-up run %s is %s again", r.ID, r.Status)
	case r.Exec.Epoch < old.Exec.Epoch:
		c.fail("the epoch of run %s goes back", r.ID)
	}
	c.slotChanged(r, subagent.Finish, old.Finish, r.Finish, old, r)
	c.slotChanged(r, subagent.GiveUp, old.GiveUp, r.GiveUp, old, r)
	if !old.Status.Hard() && r.Status.Hard() {
		count("end " + string(r.Status))
		if old.Status == subagent.Interrupted && r.Status != subagent.Aborted {
			count("late end")
		}
		if r.Reason == subagent.ReasonExecutorLost {
			count("executor lost")
		} else if r.Status != subagent.Aborted && !c.holds(old.Exec.Holder) {
			c.fail("%v ends run %s, which %s holds", c.actor, r.ID, old.Exec.Holder)
		}
	}
	if old.Status.Live() && r.Status == subagent.Interrupted {
		count("give-up " + r.Reason)
	}
	if r.Exec.Epoch == old.Exec.Epoch && old.Exec.Holder != "" && !r.Status.Hard() && r.Exec != old.Exec && !c.holds(old.Exec.Holder) {
		c.fail("%v changes the lease of run %s, which %s holds", c.actor, r.ID, old.Exec.Holder)
	}
	if r.Exec.Epoch > old.Exec.Epoch && old.Exec.Holder != "" {
		count("run taken over")
	}
	if r.Status == subagent.Waiting && old.Status != subagent.Waiting {
		count("suspended")
	}
	if r.MilestonesTold > old.MilestonesTold {
		count("milestone told")
	}
	if r.Torn && !old.Torn {
		count("torn down")
	}
}

func (c *checker) slotChanged(r subagent.Run, slot subagent.Slot, old, d subagent.Delivery, before, after subagent.Run) {
	if d.State == old.State {
		return
	}
	c.w.trace.count("slot " + string(slot) + " " + string(d.State))
	redriven := after.Redrives == before.Redrives+1
	if old.State != subagent.Open && !redriven {
		c.fail("the slot %s of run %s goes from %s to %q", slot, r.ID, old.State, d.State)
	}
}

// after checks the conversations that the last step has changed.
func (c *checker) after() {
	for _, v := range c.sorted() {
		if v.dirty {
			v.dirty = false
			c.backboneHolds(v)
		}
	}
}

// backboneHolds checks that what is outstanding is watched, and the cap.
func (c *checker) backboneHolds(v *conversation) {
	holding := 0
	for _, id := range v.order {
		r, ok := v.runs[id]
		if !ok {
			continue
		}
		if _, reserved := v.backbone.Open[id]; r.Outstanding() && !reserved {
			c.fail("run %s is outstanding (%s) and not reserved", id, r.Status)
		}
		if r.HoldsSlot() {
			holding++
		}
	}
	if holding > c.w.plan.cap {
		c.fail("%d runs are live, the cap is %d", holding, c.w.plan.cap)
	}
	if len(v.backbone.Open) > 0 && !v.backbone.Armed {
		c.fail("%d runs are reserved and the backbone of %v is not armed", len(v.backbone.Open), v.owner)
	}
	if !v.backbone.Armed {
		return
	}
	for k, n := range v.ticks {
		if k >= v.backbone.Epoch && n > 0 {
			return
		}
	}
	c.fail("the backbone of %v is armed at epoch %d and no tick will come", v.owner, v.backbone.Epoch)
}

func (c *checker) armed() bool {
	return slices.ContainsFunc(c.sorted(), func(v *conversation) bool { return v.backbone.Armed })
}

// body is a piece of user code at work.
type body struct {
	c      *checker
	p      *process
	kind   string
	key    string
	stalls int
	faults int
	// stubborn code ignores the end of its context.
	stubborn bool
}

func (c *checker) enter(inv *invocation, kind string, o subagent.Owner, id string) *body {
	v, p := c.conv(o), inv.p
	v.tries[id]++
	b := &body{c: c, p: p, kind: kind, key: kind + " " + o.Tenant + "/" + o.Conversation + "/" + id, stalls: inv.stalls, faults: p.faults}
	if kind == "chat" {
		b.key = kind + " " + o.Tenant + "/" + o.Conversation
	}
	for _, other := range c.bodies {
		// After a clear an id begins anew: the code of the run that had it stops at its next
		// step or heartbeat, and until then writes nothing.
		if other.key == b.key && !other.disturbed() && !b.disturbed() && !v.cleared {
			c.fail("%s runs in %v and in %v at a time", b.key, other.p, p)
		}
	}
	c.bodies = append(c.bodies, b)
	return b
}

// disturbed: it stood still since its message was received, or does not listen, so that
// nobody could stop it in time.
func (b *body) disturbed() bool { return b.stubborn || b.p.stalls != b.stalls || b.p.dead.Load() }

func (b *body) leave(error) {
	b.c.bodies = slices.DeleteFunc(b.c.bodies, func(x *body) bool { return x == b })
}

// tries is how often the code of a turn was called.
func (c *checker) tries(o subagent.Owner, id string) int { return c.conv(o).tries[id] }

// handlerBody is a handler at work.
type handlerBody struct {
	*body
	v  *conversation
	id string
}

func (c *checker) enterHandler(inv *invocation, d agent.Delivery) handlerBody {
	v := c.conv(d.Run.Owner)
	c.told(v, d.Run.ID, d.Run.Status, "handler")
	if d.Attempt > 1 {
		c.w.trace.count("handler tried again")
	}
	b := handlerBody{c.enter(inv, "handler", d.Run.Owner, d.Run.ID), v, d.ID}
	// A process that stands still between its last look at the clock and the call cannot know
	// that another has called meanwhile.
	if last := v.calls[d.ID]; last != nil && last.faults == last.p.faults && !last.p.dead.Load() && !b.disturbed() {
		c.fail("handler of %s is called again after it succeeded", d.ID)
	}
	if v.calls[d.ID] != nil {
		c.w.trace.count("handler called again")
	}
	return b
}

func (b handlerBody) leave(err error) {
	b.body.leave(err)
	if err == nil && b.stalls == b.p.stalls {
		b.v.calls[b.id] = b.body
	}
}

// died forgets the user code of a process.
func (c *checker) died(p *process) {
	c.bodies = slices.DeleteFunc(c.bodies, func(b *body) bool { return b.p == p })
}

// stepStarts checks that no step of a cancelled run, or of its descendants, starts.
func (c *checker) stepStarts(run *agent.Run) {
	v := c.conv(run.Owner)
	for id := run.ID; id != ""; id = v.runs[id].Parent {
		if v.cancelled[id] {
			c.fail("a step of %s starts after the cancel of %s was acknowledged", run.ID, id)
		}
	}
}

// stepIs checks that a step has one result, whoever asks, and that it is the run's own: an
// id may begin anew after a clear.
func (c *checker) stepIs(run *agent.Run, key, value string) {
	v := c.conv(run.Owner)
	life := fmt.Sprintf("/%d", run.StartedAt.UnixMilli())
	key = run.ID + life + "/" + key
	if before, known := v.steps[key]; known && before != value {
		c.fail("step %s was %s and is %s", key, before, value)
	}
	if !strings.HasSuffix(value, life) {
		c.fail("step %s is %s, the result of another run that had the id", key, value)
	}
	v.steps[key] = value
}

// heard checks what a run reads in its inbox.
func (c *checker) heard(run *agent.Run, m agent.Message) {
	if m.From == "" {
		return
	}
	v := c.conv(run.Owner)
	c.w.trace.count("inbox message of a child")
	if rest, ok := strings.CutPrefix(m.ID, "detached-finish:"); ok {
		child, status, _ := strings.Cut(rest, ":")
		c.told(v, child, subagent.Status(status), "inbox message")
	}
}

func (c *checker) accepted(o subagent.Owner, turn string) {
	v := c.conv(o)
	v.accepted = append(v.accepted, turn)
}

func (c *checker) cancelled(o subagent.Owner, run string, status subagent.Status) {
	if status == subagent.Aborted {
		c.w.trace.count("cancel")
		c.conv(o).cancelled[run] = true
	}
}

func (c *checker) clears(o subagent.Owner) { c.conv(o).cleared = true }

func (c *checker) starts(o subagent.Owner, run string, n int) { c.conv(o).starting[run] += n }

// rejected checks that a refused dispatch has left nothing behind.
func (c *checker) rejected(o subagent.Owner, run string, inv *invocation) {
	v := c.conv(o)
	_, reserved := v.backbone.Open[run]
	if r, ok := v.runs[run]; v.starting[run] == 0 && inv.faults == inv.p.faults && (reserved || ok && r.Status != subagent.Void) {
		c.fail("the rejected dispatch of %s left something behind (reserved %v, row %v)", run, reserved, ok)
	}
}

func (c *checker) dispatched(o subagent.Owner, row subagent.Run) {
	v := c.conv(o)
	if _, ok := v.runs[row.ID]; !ok && !v.cleared {
		c.fail("run %s was dispatched and has no row", row.ID)
	}
}

// invocationEnded checks that a real result, written without any fault, is not hidden.
func (c *checker) invocationEnded(inv *invocation) {
	if inv.ended == "" || inv.faults != inv.p.faults || inv.p.dead.Load() {
		return
	}
	v := c.conv(inv.owner)
	r := v.runs[inv.ended]
	if !v.cleared && r.Exec.Epoch == inv.epoch && !r.Status.Hard() && r.Finish.State == subagent.Open {
		c.fail("run %s returned a result and is %s", r.ID, r.Status)
	}
}

// someRun names one of the runs that were ever dispatched.
func (c *checker) someRun(o subagent.Owner, nth int) (string, bool) {
	order := c.conv(o).order
	if len(order) == 0 {
		return "", false
	}
	return order[nth%len(order)], true
}

func (c *checker) deadSlots(o subagent.Owner) []string {
	v := c.conv(o)
	var dead []string
	for _, id := range v.order {
		if r := v.runs[id]; r.Finish.State == subagent.Dead || r.GiveUp.State == subagent.Dead {
			dead = append(dead, id)
		}
	}
	return dead
}

// final checks what must be true when nothing is left to do.
func (c *checker) final() {
	for _, v := range c.sorted() {
		if len(v.backbone.Open) > 0 || v.backbone.Armed {
			c.fail("at the end %d runs of %v are reserved", len(v.backbone.Open), v.owner)
		}
		for _, id := range v.order {
			if r, ok := v.runs[id]; ok {
				c.runSettled(v, r)
			}
		}
		if v.cleared {
			continue
		}
		for _, id := range v.accepted {
			if t := v.turns[id]; !t.Done() && !c.isDeadLetter(v.owner, id) {
				c.fail("turn %s was accepted and is %q", id, t.Status)
			}
		}
		c.turnsShown(v)
	}
}

func (c *checker) runSettled(v *conversation, r subagent.Run) {
	if r.Outstanding() {
		c.fail("at the end run %s is outstanding: %s", r.ID, r.Status)
	}
	if v.cleared || r.Notice.Handler != "" || !r.Notice.Message || r.Awaited || r.Reason == subagent.ReasonAboveCancelled {
		return
	}
	for slot, status := range map[subagent.Slot]subagent.Status{subagent.Finish: r.Status, subagent.GiveUp: subagent.Interrupted} {
		if r.Delivery(slot).State != subagent.Delivered || slot == subagent.GiveUp && r.Status.Hard() {
			continue // of the latter, the message may have been superseded
		}
		id := delivery.MessageID(r.ID, status)
		_, said := v.ids[id]
		inboxes := c.inboxes(v, id)
		switch {
		case r.Parent == "" && !said:
			c.fail("run %s is told as %s and its message is not there", r.ID, status)
		case r.Parent != "" && !said && len(inboxes) == 0:
			c.fail("run %s of %s is told as %s and nobody has its message", r.ID, r.Parent, status)
		}
		if r.Parent != "" && !said && !c.someoneRead(v, id, inboxes) {
			c.fail("run %s is told as %s, and the run that has its message ended without reading it", r.ID, status)
		}
	}
}

// inboxes lists the runs that have the message in their inbox, with its number.
func (c *checker) inboxes(v *conversation, id string) map[string]int {
	found := map[string]int{}
	for _, run := range v.order {
		for n := range v.runs[run].Inbox {
			key := platform.Key{Partition: v.owner.Tenant + "/" + v.owner.Conversation + "/" + run, Sort: fmt.Sprintf("INBOX#%d#%016d", v.runs[run].Generation, n)}
			if decode[ledger.InboxMessage](c.w.store.get(key)).ID == id {
				found[run] = n
			}
		}
	}
	return found
}

// someoneRead reports whether one of the runs has read the message, or was cancelled,
// after which nobody wants it.
func (c *checker) someoneRead(v *conversation, id string, inboxes map[string]int) bool {
	for run, n := range inboxes {
		if r := v.runs[run]; r.InboxRead > n || r.Status == subagent.Aborted {
			return true
		}
	}
	return false
}

// turnsShown checks that each ended turn's message is in the transcript, once, and that
// the turn's reply is the one that the transcript has.
func (c *checker) turnsShown(v *conversation) {
	ids := make([]string, 0, len(v.turns))
	for id := range v.turns {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		t := v.turns[id]
		if !t.Done() {
			// Nobody needs the turn of a handler whose slot another closed, nor that of a
			// give-up that the real end has overtaken.
			run := v.runs[t.Run]
			owed := t.Mode != subagent.Handle && !(t.Kind == subagent.GiveUpTurn && run.Status.Hard()) && v.runs[run.Parent].Status != subagent.Aborted
			if owed && !c.isDeadLetter(v.owner, id) {
				c.fail("at the end turn %s is %s", id, t.Status)
			}
			continue
		}
		if t.Mode == subagent.Handle || t.Status == subagent.Aborted {
			continue
		}
		if _, ok := v.ids[id]; !ok {
			c.fail("turn %s ended as %s (%s) and its message is not in the transcript", id, t.Status, t.Problem)
		}
		if seq, ok := v.ids[id+":reply"]; ok && t.Status == subagent.Completed && t.Reply.Inline != v.messages[seq].Text.Inline {
			c.fail("turn %s replied %q, the transcript says %q", id, t.Reply.Inline, v.messages[seq].Text.Inline)
		}
	}
}

// isDeadLetter reports whether the turn's message is a visible dead letter.
func (c *checker) isDeadLetter(o subagent.Owner, turn string) bool {
	return slices.ContainsFunc(c.w.store.queues[platform.Turns].dead, func(m *message) bool {
		w, err := ledger.ParseWake(platform.Turns, m.Body)
		return err == nil && w.Owner == o && w.Turn == turn
	})
}
