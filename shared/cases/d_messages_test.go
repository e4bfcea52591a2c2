package cases_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/delivery"
	"github.com/errand-dev/errand/shared/ledger"
	"github.com/errand-dev/errand/shared/platform"
	"github.com/errand-dev/errand/shared/subagent"
)

// talker replaces the default chat by one that a test can hold in the middle of a turn.
func (w *world) talker() {
	w.Helper()
	w.must(w.agents.AddChat("talker", func(ctx context.Context, t *agent.Turn) (string, error) {
		w.record("begin %s", t.Kind)
		if t.Message == "wait" {
			select {
			case <-w.gate("turn"):
			case <-ctx.Done():
				return "", context.Cause(ctx)
			}
		}
		w.record("end %s", t.Kind)
		return "heard", nil
	}))
	w.agents.DefaultChat = "talker"
}

// D51: while a turn runs, a delivery waits: it never interleaves.
func TestD51ADeliveryWaitsForTheTurnBeforeIt(t *testing.T) {
	for _, notice := range []subagent.Notice{notify, byNote} {
		t.Run(fmt.Sprintf("message %v", notice.Message), func(t *testing.T) {
			bubble(t, func(w *world) {
				w.talker()
				w.start()
				w.say("wait")
				w.dispatch(request("r1", "done", notice))
				w.pass(20 * time.Minute)
				w.want("run", w.run("r1").Status, subagent.Completed)
				w.want("meanwhile", w.called("begin", "end", "note"), []string{"begin user"})
				w.free("turn")
				w.pass(time.Second)
				want := []string{"begin user", "end user", "begin finish", "end finish"}
				if notice.Handler != "" {
					want = []string{"begin user", "end user", "note r1 completed"}
				}
				w.want("order", w.called("begin", "end", "note"), want)
			})
		})
	}
}

// D52: a finish is one message under a deterministic id, with its source, run and status,
// and the agent's reply follows.
func TestD52AFinishIsOneMessageAndAReply(t *testing.T) {
	bubble(t, func(w *world) {
		w.start()
		w.dispatch(request("r1", "done", notify))
		w.pass(time.Second)
		m, found := w.message("detached-finish:r1:completed")
		w.want("found", found, true)
		w.want("role", m.Role, "user")
		w.want("source", m.Source, delivery.DefaultSource)
		w.want("run", m.Run, "r1")
		turn := w.turn("detached-finish:r1:completed")
		w.want("kind", turn.Kind, subagent.FinishTurn)
		w.want("told", turn.Told, subagent.Completed)
		w.want("transcript", w.transcript(), []string{
			`user detached-agent-tool: The background task "done" (run r1) has completed: the result`,
			"assistant agent: heard detached-finish:r1:completed"})
	})
}

// D53: delivered twice: one message with the id, one turn.
func TestD53NotifyingTwiceIsOneMessageAndOneTurn(t *testing.T) {
	bubble(t, func(w *world) {
		w.open()
		w.dispatch(request("r1", "done", notify))
		w.lost("r1")
		w.must(ok(w.finish("r1", completed)))
		row := w.run("r1")
		for i := range 3 {
			w.must(w.courier().Deliver(w.ctx(), delivery.Parcel{Run: row, Slot: subagent.Finish, Attempt: fmt.Sprint(i)}))
			w.pass(6 * time.Minute) // beyond the memory of the queue
		}
		w.drain(platform.Turns)
		w.want("turns", len(w.called("turn")), 1)
		w.want("messages", len(w.transcript()), 2)
	})
}

// D54: a run that ends while the turn that dispatched it still runs: accepted at once,
// told after that turn.
func TestD54ANoticeRaisedInsideATurnComesAfterIt(t *testing.T) {
	bubble(t, func(w *world) {
		w.must(w.agents.AddChat("busy", func(ctx context.Context, turn *agent.Turn) (string, error) {
			w.record("begin %s", turn.Kind)
			defer w.record("end %s", turn.Kind)
			if turn.Kind != subagent.UserTurn {
				return "", nil
			}
			run, err := turn.Dispatch(ctx, agent.Dispatch{RunID: "r1", Agent: "idle", Notice: notify})
			if err != nil {
				return "", err
			}
			_, err = turn.Cancel(ctx, run.ID, "never mind")
			w.record("cancelled %s", w.run("r1").Status)
			return "", err
		}))
		w.agents.DefaultChat = "busy"
		w.start()
		w.say("go")
		w.pass(time.Minute)
		w.want("order", w.called("begin", "end", "cancelled"),
			[]string{"begin user", "cancelled aborted", "end user", "begin finish", "end finish"})
	})
}

// milestones registers a task that reaches the named ones, then waits at its gate.
func (w *world) milestones(task string, names ...string) {
	w.Helper()
	w.task(task, func(ctx context.Context, r *agent.Run) (any, error) {
		for _, name := range names {
			if err := r.Milestone(ctx, name, map[string]int{"rows": 7}); err != nil {
				return nil, err
			}
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-w.gate(r.ID):
			return nil, nil
		}
	})
}

// D55: a milestone with react is one message and one turn, however often it is offered.
func TestD55AReactMilestoneIsOneMessageAndOneTurn(t *testing.T) {
	bubble(t, func(w *world) {
		w.milestones("import", "schema-ready")
		w.start()
		w.dispatch(request("r1", "import", subagent.Notice{Milestones: []string{"schema-ready"}, React: true}))
		w.pass(time.Hour)
		stale := w.run("r1")
		stale.MilestonesTold = 0
		if _, err := w.courier().TellMilestones(w.ctx(), stale, "again"); err != nil {
			t.Error(err)
		}
		w.pass(time.Hour)
		w.want("turns", w.called("turn"), []string{
			"turn milestone: The background task \"import\" (run r1) has reached \"schema-ready\".\n{\n  \"rows\": 7\n}"})
		m, _ := w.message("detached-ms:r1:schema-ready")
		w.want("role", m.Role, "user")
		w.want("milestone", m.Milestone, "schema-ready")
		w.want("messages", len(w.transcript()), 2)
	})
}

// D56: a narrated milestone is one line of the assistant and no turn of the agent.
func TestD56ANarratedMilestoneIsALineWithoutATurn(t *testing.T) {
	bubble(t, func(w *world) {
		w.milestones("import", "schema-ready")
		w.start()
		w.dispatch(request("r1", "import", subagent.Notice{Milestones: []string{"schema-ready"}}))
		w.pass(time.Hour)
		w.want("turns", w.called("turn"), []string{})
		m, _ := w.message("detached-ms:r1:schema-ready")
		w.want("role", m.Role, "assistant")
		w.want("messages", len(w.transcript()), 1)
	})
}

// D58: a format that returns nothing suppresses the message; the slot closes.
func TestD58AnEmptyFormatSuppressesTheMessage(t *testing.T) {
	bubble(t, func(w *world) {
		w.milestones("import", "schema-ready")
		w.agents.FormatCompletion = func(agent.Info) string { return "" }
		w.agents.FormatMilestone = func(agent.Info, agent.Milestone) string { return "" }
		w.start()
		w.dispatch(request("r1", "import", subagent.Notice{Message: true, Milestones: []string{"schema-ready"}}))
		w.free("r1")
		w.pass(time.Minute)
		w.want("messages", w.transcript(), []string{})
		w.want("finish", w.run("r1").Finish.State, subagent.Delivered)
	})
}

// D58: a format that panics keeps nothing from its receiver: the plain text is told.
func TestD58AFormatThatPanicsFallsBackToThePlainText(t *testing.T) {
	bubble(t, func(w *world) {
		w.agents.FormatCompletion = func(agent.Info) string { panic("typo") }
		w.start()
		w.dispatch(request("r1", "done", notify))
		w.pass(time.Minute)
		w.want("first message", w.transcript()[0], `user detached-agent-tool: The background task "done" (run r1) has completed: the result`)
	})
}

// D59: a named handler wins over a message.
func TestD59AHandlerWinsOverAMessage(t *testing.T) {
	bubble(t, func(w *world) {
		w.start()
		w.dispatch(request("r1", "done", subagent.Notice{Handler: "note", Message: true, Source: "ui"}))
		w.pass(time.Minute)
		w.want("handler", w.called("note"), []string{"note r1 completed"})
		w.want("messages", w.transcript(), []string{})
		w.want("source", w.run("r1").Notice.Source, "ui")
	})
}

// D60: a milestone that was not asked for, or under another spelling, is kept but not told.
func TestD60OnlyTheNamedMilestonesAreTold(t *testing.T) {
	bubble(t, func(w *world) {
		w.milestones("import", "other", "Schema-Ready")
		w.start()
		w.dispatch(request("r1", "import", subagent.Notice{Milestones: []string{"schema-ready"}}))
		w.pass(time.Hour)
		w.want("messages", w.transcript(), []string{})
		reached, err := w.Ledger.Milestones(w.ctx(), ledger.LifeOf(w.run("r1")), 0)
		w.must(err)
		w.want("kept", len(reached), 2)
	})
}

// D61: a milestone is told while the run goes on, before any tick; the ticks add nothing.
func TestD61AMilestoneIsToldWarm(t *testing.T) {
	bubble(t, func(w *world) {
		w.milestones("import", "schema-ready")
		w.start()
		w.dispatch(request("r1", "import", subagent.Notice{Milestones: []string{"schema-ready"}}))
		w.want("at once", len(w.transcript()), 1)
		w.pass(50 * time.Minute)
		w.want("later", len(w.transcript()), 1)
		w.want("status", w.run("r1").Status, subagent.Running)
	})
}

// D61: a milestone whose executor died before it was told is told by the tick.
func TestD61AMilestoneIsToldColdByTheTick(t *testing.T) {
	bubble(t, func(w *world) {
		w.open()
		w.dispatch(request("r1", "idle", subagent.Notice{Milestones: []string{"schema-ready"}}))
		w.lost("r1")
		w.reach("r1", "schema-ready")
		w.tick()
		w.tick()
		w.drain(platform.Turns)
		w.want("messages", w.transcript(), []string{
			"assistant detached-agent-tool: The background task \"idle\" (run r1) has reached \"schema-ready\"."})
	})
}

// D62: a milestone reached just before the end is told, and before the end; also when its
// executor could not tell it.
func TestD62AMilestoneJustBeforeTheEndIsToldBeforeIt(t *testing.T) {
	for _, warm := range []bool{true, false} {
		t.Run(fmt.Sprintf("warm %v", warm), func(t *testing.T) {
			bubble(t, func(w *world) {
				w.milestones("import", "almost")
				notice := subagent.Notice{Message: true, Milestones: []string{"almost"}, React: true}
				if warm {
					w.start()
					w.dispatch(request("r1", "import", notice))
					w.free("r1")
					w.pass(time.Second)
				} else {
					w.open()
					w.dispatch(request("r1", "import", notice))
					w.lost("r1")
					w.reach("r1", "almost")
					w.must(ok(w.finish("r1", completed)))
					w.deliver("r1", subagent.Finish)
				}
				kinds := []string{}
				for _, turn := range w.called("turn") {
					kinds = append(kinds, strings.Fields(turn)[1])
				}
				w.want("turns", kinds, []string{"milestone:", "finish:"})
			})
		})
	}
}

// Section 3.6: the texts of the four ends.
func TestTheDefaultTextsNameRunAndEnd(t *testing.T) {
	bubble(t, func(w *world) {
		w.start()
		w.dispatch(request("a", "done", notify))
		w.dispatch(request("b", "fails", notify))
		w.dispatch(request("c", "idle", notify))
		w.cancel("c", "")
		over := request("d", "idle", notify)
		over.Budget.Max = time.Second
		w.dispatch(over)
		w.pass(10 * time.Minute)
		w.want("turns", w.called("turn"), []string{
			`turn finish: The background task "done" (run a) has completed: the result`,
			`turn finish: The background task "fails" (run b) ended in an error: it broke`,
			`turn finish: The background task "idle" (run c) was cancelled.`,
			`turn give_up: The background task "idle" (run d) ran out of time and was given up.`})
	})
}

// Section 2.3 of the design: the milestone of a nested run goes to the run that
// dispatched it, once, not to the conversation.
func TestNestedAMilestoneGoesToTheRunThatDispatched(t *testing.T) {
	bubble(t, func(w *world) {
		w.milestones("import", "schema-ready")
		w.task("boss", func(ctx context.Context, r *agent.Run) (any, error) {
			_, err := r.Dispatch(ctx, agent.Dispatch{RunID: "r1", Agent: "import", Notice: subagent.Notice{Message: true, Milestones: []string{"schema-ready"}}})
			if err != nil {
				return nil, err
			}
			for _, gate := range []string{"one", "two"} {
				<-w.gate(gate)
				messages, err := r.Inbox(ctx)
				if err != nil {
					return nil, err
				}
				for _, m := range messages {
					w.record("inbox %s from %s, milestone %q", m.ID, m.From, m.Milestone)
				}
			}
			return nil, nil
		})
		w.start()
		w.dispatch(request("boss", "boss", quietly))
		w.pass(time.Minute)
		w.free("one")
		w.pass(time.Minute)
		w.free("r1")
		w.pass(time.Minute)
		w.free("two")
		w.pass(time.Minute)
		w.want("inbox", w.called("inbox"), []string{
			`inbox detached-ms:r1:schema-ready from r1, milestone "schema-ready"`,
			`inbox detached-finish:r1:completed from r1, milestone ""`})
		w.want("messages", w.transcript(), []string{})
	})
}

// Section 2 of the design: what a run leaves unread, or comes after its end, goes to the
// nearest living ancestor, at last to the conversation, with the path told.
func TestNestedTheNearestLivingAncestorHears(t *testing.T) {
	bubble(t, func(w *world) {
		w.milestones("import", "half")
		w.dispatcher("mid", "leaf", "import", subagent.Notice{Message: true, Milestones: []string{"half"}})
		w.task("top", func(ctx context.Context, r *agent.Run) (any, error) {
			if _, err := r.Dispatch(ctx, agent.Dispatch{RunID: "middle", Agent: "mid", Notice: quietly}); err != nil {
				return nil, err
			}
			<-w.gate("top")
			messages, err := r.Inbox(ctx)
			for _, m := range messages {
				w.record("inbox %s: %s", m.ID, m.Text)
			}
			return nil, err
		})
		w.start()
		w.dispatch(request("top", "top", quietly))
		w.pass(time.Minute)
		w.want("middle", w.run("middle").Status, subagent.Completed)
		w.free("top")
		w.pass(time.Minute)
		w.want("top's inbox", w.called("inbox"), []string{
			"inbox detached-ms:leaf:half: The background task \"import\" (run leaf) has reached \"half\".\n{\n  \"rows\": 7\n}\nIt was dispatched by run middle, which has ended."})
		w.free("leaf")
		w.pass(time.Minute)
		w.want("turns", w.called("turn"), []string{
			"turn finish: The background task \"import\" (run leaf) has completed.\nIt was dispatched by run middle, which has ended."})
	})
}

// The same for messages that came into the inbox and were not read before the end.
func TestNestedUnreadMessagesAreHandedOn(t *testing.T) {
	bubble(t, func(w *world) {
		w.milestones("import", "half")
		w.task("boss", func(ctx context.Context, r *agent.Run) (any, error) {
			_, err := r.Dispatch(ctx, agent.Dispatch{RunID: "r1", Agent: "import", Notice: subagent.Notice{Message: true, Milestones: []string{"half"}}})
			<-w.gate("boss")
			return nil, errors.Join(err)
		})
		w.start()
		w.dispatch(request("boss", "boss", quietly))
		w.free("r1")
		w.pass(time.Minute)
		w.want("before", w.transcript(), []string{})
		w.must(w.Service.Control.FollowUp(w.ctx(), owner, "boss", "nobody reads this"))
		w.free("boss")
		w.pass(time.Minute)
		w.want("messages", w.transcript(), []string{
			"assistant detached-agent-tool: The background task \"import\" (run r1) has reached \"half\".\n{\n  \"rows\": 7\n}\nIt was dispatched by run boss, which has ended.",
			"user detached-agent-tool: The background task \"import\" (run r1) has completed.\nIt was dispatched by run boss, which has ended.",
			"assistant agent: heard detached-finish:r1:completed"})
		w.want("unread follow-ups told", len(w.events("run.followup_unread", "boss")), 1)
	})
}

// Section 2 of the design: a nested run's handler is one of the agent that dispatched it,
// whatever the child's own agent has under that name.
func TestNestedTheHandlerIsTheDispatchersOwn(t *testing.T) {
	bubble(t, func(w *world) {
		w.handler("boss.told", func(context.Context, agent.Delivery) error { return nil })
		w.handler("done.told", func(context.Context, agent.Delivery) error { return nil })
		w.handler("told", func(context.Context, agent.Delivery) error { return nil })
		w.dispatcher("boss", "r1", "done", subagent.Notice{Handler: "told"})
		w.start()
		w.dispatch(request("boss", "boss", subagent.Notice{Handler: "told"}))
		w.pass(time.Minute)
		got := w.called("boss.told", "done.told", "told")
		slices.Sort(got)
		w.want("handlers", got, []string{"boss.told r1 completed", "told boss completed"})
	})
}
