package cases_test

import (
	"context"
	"testing"
	"time"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/ledger"
	"github.com/errand-dev/errand/shared/platform"
	"github.com/errand-dev/errand/shared/subagent"
)

// A cancel reaches every run below, also below one that has ended, and the user hears
// of it once: of the root. Handlers and the metering hook are called for each.
func TestACancelledTreeIsToldOnce(t *testing.T) {
	bubble(t, func(w *world) {
		w.dispatcher("middle", "leaf", "idle", notify)
		w.task("root", func(ctx context.Context, r *agent.Run) (any, error) {
			if _, err := r.Dispatch(ctx, agent.Dispatch{RunID: "mid", Agent: "middle"}); err != nil {
				return nil, err
			}
			if _, err := r.Dispatch(ctx, agent.Dispatch{RunID: "handled", Agent: "idle", Notice: byNote}); err != nil {
				return nil, err
			}
			<-ctx.Done()
			return nil, context.Cause(ctx)
		})
		w.start()
		w.dispatch(request("top", "root", notify))
		w.pass(time.Second)
		w.want("the middle has ended", w.run("mid").Status, subagent.Completed)
		w.want("the leaf is at work", w.run("leaf").Status, subagent.Running)
		w.cancel("top", "")
		w.pass(time.Minute)
		for _, id := range []string{"top", "leaf", "handled"} {
			w.want(id, w.run(id).Status, subagent.Aborted)
			w.want(id+" delivered", w.run(id).Finish.State, subagent.Delivered)
		}
		w.want("reason of the leaf", w.run("leaf").Reason, subagent.ReasonAboveCancelled)
		w.want("messages", len(w.transcript()), 2)
		w.want("handler", w.called("note"), []string{"note handled aborted"})
		w.want("armed", w.backbone().Armed, false)
	})
}

// A child whose row comes only after its parent's cancel sees that before its first
// step: no task of the tree begins after the cancel was acknowledged.
func TestAChildThatComesAfterTheCancelDoesNotBegin(t *testing.T) {
	bubble(t, func(w *world) {
		began := false
		w.task("late", func(context.Context, *agent.Run) (any, error) {
			began = true
			return nil, nil
		})
		w.open()
		w.dispatch(request("top", "idle", notify))
		parent := w.lost("top")
		w.cancel("top", "")
		late := request("late", "late", notify)
		late.Parent = &parent
		w.dispatch(late)
		w.drain(platform.Runs)
		w.want("its task began", began, false)
		w.want("status", w.run("late").Status, subagent.Aborted)
		w.want("place", len(w.backbone().Open), 0)
	})
}

// A store that fails in the middle of a run does not end it: it is tried again.
func TestARunWhoseStoreFailsIsTriedAgain(t *testing.T) {
	bubble(t, func(w *world) {
		tries := 0
		w.task("unlucky", func(ctx context.Context, r *agent.Run) (any, error) {
			if tries++; tries == 1 {
				// What the ledger returns when the disk is full or the network is cut.
				_, err := w.Ledger.LoadValue(broken(ctx), owner, subagent.Value{Item: "x"})
				w.want("transient", ledger.IsTransient(err), true)
				return nil, err
			}
			return "the result", nil
		})
		w.start()
		w.dispatch(request("r1", "unlucky", notify))
		w.pass(time.Minute)
		w.want("status", w.run("r1").Status, subagent.Completed)
		w.want("tries", tries, 2)
	})
}

// broken is a context in which every call of the store fails.
func broken(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	return ctx
}
