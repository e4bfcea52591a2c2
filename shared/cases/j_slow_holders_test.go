package cases_test

import (
	"context"
	"testing"
	"time"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/ingress"
	"github.com/errand-dev/errand/shared/ledger"
	"github.com/errand-dev/errand/shared/platform"
	"github.com/errand-dev/errand/shared/subagent"
)

// A child whose row comes only after its parent's cancel has listed what stands below
// does no step: its executor looks at what is above it first.
func TestAChildWhoseRowComesAfterTheCancelDoesNothing(t *testing.T) {
	bubble(t, func(w *world) {
		w.task("works", func(_ context.Context, r *agent.Run) (any, error) {
			w.record("works %s", r.ID)
			return nil, nil
		})
		w.open()
		w.dispatch(request("top", "idle", quietly))
		top := w.lost("top")
		w.want("top", w.cancel("top", "").Status, subagent.Aborted)
		for id, parent := range map[string]subagent.Run{
			"child":      top,
			"grandchild": {ID: "gone", Parent: "top"},
		} {
			late := request(id, "works", notify)
			late.Parent = &parent
			w.dispatch(late)
		}
		w.drain(platform.Runs)
		w.want("calls", w.called("works"), []string{})
		w.want("child", w.run("child").Status, subagent.Aborted)
		w.want("grandchild", w.run("grandchild").Status, subagent.Aborted)
	})
}

// overtaken adds a chat whose turn loses its place while it works, as if its process had
// stood still for longer than the lease: another executor has the turn when it returns.
func (w *world) overtaken(meanwhile func(t *agent.Turn)) {
	w.Helper()
	w.must(w.agents.AddChat("overtaken", func(ctx context.Context, t *agent.Turn) (string, error) {
		_, outcome, err := w.Ledger.UpdateConversation(ctx, subagent.Conversation{Owner: owner}, func(c subagent.Conversation) (subagent.Conversation, subagent.Outcome) {
			c.Exec = subagent.Lease{Epoch: c.Exec.Epoch + 1, Holder: w.Ledger.Token(), Until: subagent.At(w.Ledger.Now().Add(time.Minute))}
			return c, subagent.Apply
		})
		w.must(err)
		w.must(ok(outcome))
		meanwhile(t)
		return "the slow reply", nil
	}))
}

func (w *world) place() subagent.Conversation {
	w.Helper()
	c, err := w.Ledger.Conversation(w.ctx(), owner)
	w.must(err)
	return c
}

// A holder that was overtaken does not free the place of the one at work now: the next
// turn must wait for that one.
func TestAHolderThatWasOvertakenDoesNotFreeThePlace(t *testing.T) {
	bubble(t, func(w *world) {
		w.overtaken(func(*agent.Turn) {})
		w.open()
		turn, _, err := w.Service.Accept(w.ctx(), ingress.TurnRequest{Owner: owner, Message: "first", Agent: "overtaken"})
		w.must(err)
		w.drain(platform.Turns)
		w.want("the turn in the place", w.place().Turn, turn.ID)
		w.say("second")
		w.drain(platform.Turns)
		w.want("the turn in the place", w.place().Turn, turn.ID)
	})
}

// A holder that was overtaken writes nothing behind its successor's messages.
func TestAHolderThatWasOvertakenWritesNothingBehindItsSuccessor(t *testing.T) {
	bubble(t, func(w *world) {
		w.overtaken(func(t *agent.Turn) {
			_, err := w.Ledger.AddMessage(w.ctx(), owner, ledger.Message{
				Seq: 2, ID: t.ID + ":step", Role: "assistant", Text: subagent.Value{Inline: "of the successor"}, Source: "agent", Turn: t.ID})
			w.must(err)
		})
		w.open()
		_, _, err := w.Service.Accept(w.ctx(), ingress.TurnRequest{Owner: owner, Message: "first", Agent: "overtaken"})
		w.must(err)
		w.drain(platform.Turns)
		w.want("transcript", w.transcript(), []string{"user user: first", "assistant agent: of the successor"})
	})
}
