package simulation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/control"
	"github.com/errand-dev/errand/shared/dispatch"
	"github.com/errand-dev/errand/shared/ingress"
	"github.com/errand-dev/errand/shared/platform"
	"github.com/errand-dev/errand/shared/subagent"
)

// plan is what the seed draws first: how bad the platform is, and how busy.
type plan struct {
	embedded bool
	// hooked: there is a metering hook, and runs may name handlers.
	hooked   bool
	clears   bool
	workers  int
	slots    int
	cap      int
	timeout  time.Duration
	duration time.Duration
	owners   []subagent.Owner
	// waits: runs and turns wait for more than the ends of awaited children.
	waits    bool
	coalesce subagent.Coalescing

	lost, crash, stall, slow, cut, noExtend float64
}

func draw(r *rand.Rand) plan {
	pick := func(v ...float64) float64 { return v[r.IntN(len(v))] }
	p := plan{
		embedded: r.IntN(3) == 0, hooked: r.IntN(2) == 0, clears: r.IntN(8) == 0,
		workers: 2 + r.IntN(3), slots: 1 + r.IntN(6), cap: 1 + r.IntN(5),
		duration: time.Duration(60+r.IntN(600)) * time.Second,
		lost:     pick(0, 0.002, 0.01, 0.03), crash: pick(0, 0.0005, 0.002, 0.006), slow: pick(0, 0, 0.002, 0.01),
		noExtend: pick(0, 0.1, 0.5, 1),
	}
	p.owners = []subagent.Owner{{Tenant: "t1", Conversation: "c1"}}
	if r.IntN(2) == 0 {
		p.owners = append(p.owners, subagent.Owner{Tenant: "t2", Conversation: "c1"})
	}
	if p.embedded {
		p.workers = 1
		p.slots = 20
		return p
	}
	p.stall = pick(0, 0.001, 0.004, 0.01)
	p.cut = pick(0, 0, 0.001, 0.004)
	// No multiple of the heartbeats' periods, which would fall on the same instant.
	p.timeout = time.Duration(pick(0, 60_007, 300_007, 900_007)) * time.Millisecond
	return p
}

// waitful adds waits to the plan of some seeds. What they do is drawn by itself: other
// seeds stay what they are.
func (w *world) waitful(seed uint64) {
	if seed%5 != 0 {
		return
	}
	w.extra = rand.New(rand.NewPCG(seed, 5))
	w.plan.waits = true
	w.plan.coalesce = subagent.Coalescing{Max: w.extra.IntN(5), Window: time.Minute}
}

// wait makes a wait of some instructions.
func (w *world) wait(op *instruction) {
	if !w.plan.waits {
		return
	}
	n := w.extra.IntN(100)
	switch op.Op {
	case "sleep":
		if n < 60 && op.MS < hopeless {
			op.Op = "nap"
		}
	case "dispatch":
		if op.Child.Awaited || n >= 60 {
			return
		}
		op.Then, op.MS = []string{"join", "milestone"}[n%2], 1000+w.extra.Int64N(200_000)
	case "inbox", "cancel":
		if n < 40 {
			op.Op, op.MS = "ask", 1000+w.extra.Int64N(100_000)
		}
	}
}

// answer decides on whatever somebody of the conversation asks.
func (w *world) answer(o subagent.Owner) deed {
	return func(ctx context.Context, p *process) error {
		c, err := p.ledger.Conversation(ctx, o)
		if err != nil {
			return err
		}
		v := w.check.conv(o)
		who, question := control.Asker{Owner: o, Turn: c.Turn}, c.Wait.Signal
		for _, id := range v.order {
			if question == "" {
				who, question = control.Asker{Owner: o, Run: id}, v.runs[id].Wait.Signal
			}
		}
		if question == "" {
			return nil
		}
		err = p.control.Decide(ctx, who, question, agent.Decision{Approved: true})
		if err == nil {
			w.trace.count("answer")
		}
		return ignore(err, agent.ErrNoRun, agent.ErrRunEnded, control.ErrNoTurn, control.ErrNoQuestion)
	}
}

// action is something that a user does, or an outside event.
type action struct {
	at    time.Time
	name  string
	do    func(ctx context.Context, p *process) error
	tries int
	done  *bool
	kill  *process
}

const actionTries = 5

// host is the process that serves the API now: the server itself, or a fresh Lambda.
func (w *world) host(now time.Time) *process {
	if !w.plan.embedded || w.actions[0].kill != nil {
		return &process{}
	}
	for _, p := range w.processes {
		if !p.stalled(now) {
			return p
		}
	}
	return nil
}

func (w *world) act(p *process) {
	a := w.actions[0]
	w.actions = w.actions[1:]
	if a.kill != nil {
		if !a.kill.dead.Load() {
			w.trace.count("poison")
			w.trace.add(a.kill, call{kind: "CRASH"}, a.name)
			w.kill(a.kill)
		}
		return
	}
	if *a.done {
		return
	}
	if !w.plan.embedded {
		p = w.spawn(false)
	}
	w.trace.add(p, call{kind: "user"}, a.name)
	if a.tries++; a.tries < actionTries {
		again := a
		again.at = time.Now().Add(w.between(time.Second, 40*time.Second))
		w.schedule(again)
	}
	p.busy++
	go func() {
		inv := &invocation{p: p, faults: p.faults, stalls: p.stalls}
		err := a.do(context.WithValue(p.ctx, invocationKey{}, inv), p)
		if err == nil || w.calm && !errors.Is(err, errFault) {
			*a.done = true
		}
		p.busy--
		if !p.worker {
			w.processes = slices.DeleteFunc(w.processes, func(q *process) bool { return p == q })
		}
	}()
}

func (w *world) schedule(a action) {
	w.actions = append(w.actions, a)
	slices.SortStableFunc(w.actions, func(a, b action) int { return a.at.Compare(b.at) })
}

// prepare draws what users do.
func (w *world) prepare() {
	n := 4 + w.rng.IntN(14)
	for i := range n {
		do, name := w.drawAction(i)
		w.schedule(action{at: time.Now().Add(w.between(0, w.plan.duration*2/3)), name: name, do: do, done: new(bool)})
	}
	for range 8 {
		if w.plan.waits {
			o := w.plan.owners[w.extra.IntN(len(w.plan.owners))]
			at := time.Now().Add(time.Duration(w.extra.Int64N(int64(w.plan.duration))))
			w.schedule(action{at: at, name: "answer", do: w.answer(o), done: new(bool)})
		}
	}
}

type deed = func(ctx context.Context, p *process) error

func (w *world) drawAction(i int) (deed, string) {
	o := w.plan.owners[w.rng.IntN(len(w.plan.owners))]
	nth := w.rng.IntN(1000)
	switch r := w.rng.IntN(100); {
	case r < 40 || i == 0:
		script := program{w.drawScript()}
		body, _ := json.Marshal(script)
		req := ingress.TurnRequest{Owner: o, Message: string(body), Key: fmt.Sprint("key", i)}
		return func(ctx context.Context, p *process) error {
			turn, _, err := p.service.Accept(ctx, req)
			if err == nil {
				w.check.accepted(o, turn.ID)
			}
			return err
		}, "accept"
	case r < 60:
		c := w.drawChild(0)
		input, _ := json.Marshal(c.Program)
		req := dispatch.Request{Owner: o, Run: fmt.Sprintf("api%d", w.rng.IntN(6)), Agent: "task", Input: input, Notice: c.notice(), Budget: c.budget()}
		return func(ctx context.Context, p *process) error { return w.start(ctx, p, req) }, "dispatch " + req.Run
	case r < 70:
		return func(ctx context.Context, p *process) error {
			id, ok := w.check.someRun(o, nth)
			if !ok {
				return nil
			}
			run, err := p.control.Cancel(ctx, o, id, "")
			if err == nil {
				w.check.cancelled(o, run.ID, run.Status)
			}
			return ignore(err, agent.ErrNoRun)
		}, "cancel"
	case r < 78:
		return func(ctx context.Context, p *process) error {
			id, ok := w.check.someRun(o, nth)
			if !ok {
				return nil
			}
			err := p.control.FollowUp(ctx, o, id, "and another thing")
			if err == nil {
				w.trace.count("follow-up")
			}
			return ignore(err, agent.ErrNoRun, agent.ErrRunEnded)
		}, "follow up"
	case r < 88:
		return w.redriveDead(o), "redrive"
	case r < 94:
		return func(ctx context.Context, p *process) error { return p.reconciler.Repair(ctx, o) }, "repair"
	case r < 97 || !w.plan.clears:
		queue := platform.Queues[nth%3]
		return func(ctx context.Context, _ *process) error {
			return w.store.Send(context.WithoutCancel(ctx), platform.Message{Queue: queue, Group: "t1", Dedup: fmt.Sprint("poison", i), Body: []byte("{}")})
		}, "poison message to " + queue
	default:
		return func(ctx context.Context, p *process) error {
			w.check.clears(o)
			err := p.control.Clear(ctx, o)
			if err == nil {
				w.trace.count("clear")
			}
			return err
		}, "clear"
	}
}

func (w *world) redriveDead(o subagent.Owner) deed {
	return func(ctx context.Context, p *process) error {
		for _, id := range w.check.deadSlots(o) {
			if _, err := p.control.Redrive(ctx, o, id, ""); err != nil {
				return ignore(err, control.ErrNothingToRedrive, agent.ErrNoRun)
			}
			w.trace.count("redrive")
		}
		return nil
	}
}

func ignore(err error, these ...error) error {
	for _, this := range these {
		if errors.Is(err, this) {
			return nil
		}
	}
	return err
}

// start dispatches by the API and holds the answer against the rows.
func (w *world) start(ctx context.Context, p *process, req dispatch.Request) error {
	inv := invocationOf(ctx)
	w.check.starts(req.Owner, req.Run, 1)
	row, known, err := p.dispatcher.Start(ctx, req)
	w.check.starts(req.Owner, req.Run, -1)
	if _, full := errors.AsType[*agent.CapError](err); full {
		w.trace.count("cap reached")
		w.check.rejected(req.Owner, req.Run, inv)
		return err
	}
	if err == nil && known {
		w.trace.count("dispatched again")
	}
	if err == nil {
		w.check.dispatched(req.Owner, row)
	}
	return err
}

func (w *world) drawScript() []instruction {
	var do []instruction
	for i := range 1 + w.rng.IntN(3) {
		switch r := w.rng.IntN(100); {
		case r < 60:
			c := w.drawChild(0)
			c.Key = fmt.Sprint("k", i)
			do = append(do, instruction{Op: "dispatch", Child: &c})
		case r < 75:
			do = append(do, instruction{Op: "sleep", MS: w.rng.Int64N(90_000)})
		case r < 85:
			do = append(do, instruction{Op: "cancel"})
		case r < 88:
			do = append(do, instruction{Op: "fail"})
		case r < 94:
			do = append(do, instruction{Op: "retry", N: 1 + w.rng.Int64N(6)})
		default:
			do = append(do, instruction{Op: "crash", N: 1 + w.rng.Int64N(7)})
		}
	}
	for i := range do {
		w.wait(&do[i])
	}
	return do
}

func (w *world) drawChild(depth int) child {
	r := w.rng
	c := child{Message: r.IntN(3) > 0, MaxMS: []int64{5_000, 30_000, 90_000, 300_000, 600_000, -1}[r.IntN(6)]}
	if r.IntN(4) == 0 {
		c.SilenceMS = []int64{3_000, 20_000, 60_000}[r.IntN(3)]
	}
	if w.plan.hooked && r.IntN(2) == 0 {
		c.Handler = "h-" + []string{"ok", "fails-1", "fails-3", "always", "slow-30000", "slow-80000", "crash-1", "crash-20"}[r.IntN(8)]
	}
	if r.IntN(3) == 0 {
		c.Milestones, c.React = []string{"half"}, r.IntN(2) == 0
	}
	finite := c.MaxMS > 0
	for i := range 1 + r.IntN(5) {
		op := w.drawInstruction(depth, i, finite)
		w.wait(&op)
		c.Program.Do = append(c.Program.Do, op)
	}
	return c
}

func (w *world) drawInstruction(depth, i int, finite bool) instruction {
	r := w.rng
	switch n := r.IntN(100); {
	case n < 25:
		return instruction{Op: "step", MS: r.Int64N(20_000)}
	case n < 40:
		return instruction{Op: "sleep", MS: r.Int64N(100_000)}
	case n < 50:
		return instruction{Op: "progress", Name: "on"}
	case n < 58:
		return instruction{Op: "milestone", Name: []string{"half", "other"}[r.IntN(2)]}
	case n < 74 && depth < 2:
		c := w.drawChild(depth + 1)
		c.Key = fmt.Sprint("c", i)
		if c.Awaited = r.IntN(3) == 0; c.Awaited {
			c.Message, c.Handler, c.Milestones = false, "", nil
		}
		return instruction{Op: "dispatch", Child: &c}
	case n < 84:
		return instruction{Op: "inbox"}
	case n < 86:
		return instruction{Op: "fail"}
	case n < 90:
		return instruction{Op: "retry", N: 1 + r.Int64N(3)}
	case n < 93:
		return instruction{Op: "crash", N: 1 + r.Int64N(2)}
	case n < 94:
		return instruction{Op: "crash", N: 1000}
	case n < 97:
		return instruction{Op: "stubborn", MS: r.Int64N(200_000)}
	case finite:
		return instruction{Op: "sleep", MS: hopeless}
	}
	return instruction{Op: "step", MS: 10}
}
