package cases_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/callback"
	"github.com/errand-dev/errand/shared/control"
	"github.com/errand-dev/errand/shared/platform"
	"github.com/errand-dev/errand/shared/subagent"
)

func TestAnApprovalIsWaitedFor(t *testing.T) {
	question := agent.Question{Name: "delete", Title: "Delete 7 files?", Detail: json.RawMessage(`{"files":7}`)}
	for _, c := range []struct {
		name   string
		decide agent.Decision
		want   string
	}{
		{"and given", agent.Decision{Approved: true}, "yes "},
		{"and refused", agent.Decision{Note: "not those"}, "no not those"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(w *world) {
				w.waiter("careful", func(ctx context.Context, r *agent.Run) (string, error) {
					d, err := r.Approve(ctx, question, 0)
					if d.Approved {
						return "yes " + d.Note, err
					}
					return "no " + d.Note, err
				})
				w.start()
				w.dispatch(request("r1", "careful", quietly))
				w.pass(time.Hour)
				w.want("status", w.run("r1").Status, subagent.Waiting)
				w.want("asked", len(w.events("approval.requested", "r1")), 1)
				who := control.Asker{Owner: owner, Run: "r1"}
				w.want("unasked", errors.Is(w.Service.Control.Decide(w.ctx(), who, "other", c.decide), control.ErrNoQuestion), true)
				w.must(w.Service.Control.Decide(w.ctx(), who, "delete", c.decide))
				w.must(w.Service.Control.Decide(w.ctx(), who, "delete", c.decide))
				w.pass(time.Second)
				w.want("result", w.run("r1").Summary, c.want)
				again := w.Service.Control.Decide(w.ctx(), who, "delete", agent.Decision{Approved: !c.decide.Approved})
				w.want("afterwards", errors.Is(again, agent.ErrRunEnded), true)
			})
		})
	}
}

// Two answers at a time: the first stands, the second is told.
func TestTheFirstAnswerStands(t *testing.T) {
	bubble(t, func(w *world) {
		w.waitingChat(func(ctx context.Context, t *agent.Turn) (string, error) {
			d, err := t.Approve(ctx, agent.Question{Name: "ok", Title: "OK?"}, time.Hour)
			return fmt.Sprint(d.Approved), err
		})
		w.open()
		turn := w.say("go")
		w.drain(platform.Turns)
		who := control.Asker{Owner: owner, Turn: turn.ID}
		w.must(w.Service.Control.Decide(w.ctx(), who, "ok", agent.Decision{Approved: true}))
		err := w.Service.Control.Decide(w.ctx(), who, "ok", agent.Decision{})
		w.want("second", errors.Is(err, control.ErrAnswered), true)
		w.drain(platform.Turns)
		w.want("reply", w.turn(turn.ID).Reply.Inline, "true")
	})
}

// An answer that comes after the time for it changes nothing, however often the code runs.
func TestAnAnswerAfterItsTimeIsNone(t *testing.T) {
	bubble(t, func(w *world) {
		w.waiter("careful", func(ctx context.Context, r *agent.Run) (string, error) {
			_, err := r.WaitCallback(ctx, "done", time.Minute)
			if errors.Is(err, agent.ErrSuspended) {
				return "", err
			}
			w.record("timed %v", errors.Is(err, agent.ErrTimedOut))
			return "", r.Sleep(ctx, "nap", time.Hour)
		})
		w.start()
		run := w.dispatch(request("r1", "careful", quietly))
		w.pass(2 * time.Minute)
		target := callback.Target{Owner: owner, Run: "r1", Life: run.Generation, Key: "done"}
		w.must(w.Service.Control.Finish(w.ctx(), target, agent.CallbackResult{Output: json.RawMessage("1")}))
		w.pass(2 * time.Hour)
		w.want("heard", w.called("timed"), []string{"timed true", "timed true"})
	})
}

func TestACallbackEndsTheWait(t *testing.T) {
	for _, c := range []struct {
		name   string
		result agent.CallbackResult
		want   string
	}{
		{"with an output", agent.CallbackResult{Output: json.RawMessage(`{"rows":3}`)}, `{"rows":3}`},
		{"with an error", agent.CallbackResult{Error: "no such file"}, "the callback reports: no such file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(w *world) {
				w.waiter("outside", func(ctx context.Context, r *agent.Run) (string, error) {
					token, err := r.Callback(ctx, "done")
					if err != nil {
						return "", err
					}
					w.record("token %s", token)
					out, err := r.WaitCallback(ctx, "done", 0)
					if failed, ok := errors.AsType[*agent.CallbackError](err); ok {
						return failed.Error(), nil
					}
					return string(out), err
				})
				w.start()
				w.dispatch(request("r1", "outside", quietly))
				w.pass(time.Minute)
				token := strings.TrimPrefix(w.called("token")[0], "token ")
				signer := &callback.Signer{Ledger: w.Ledger}
				_, err := signer.Open(w.ctx(), token[:len(token)-2]+"AA")
				w.want("forged", errors.Is(err, callback.ErrToken), true)
				target, err := signer.Open(w.ctx(), token)
				w.must(err)
				half := 0.5
				w.must(w.Service.Control.Report(w.ctx(), target, &subagent.Progress{Fraction: &half, At: subagent.At(w.Ledger.Now())}, nil))
				w.want("progress", *w.run("r1").Progress.Fraction, 0.5)
				w.must(w.Service.Control.Finish(w.ctx(), target, c.result))
				w.pass(time.Second)
				w.want("result", w.run("r1").Summary, c.want)
				w.want("same token", w.called("token"), []string{"token " + token, "token " + token})
			})
		})
	}
}

// Clearing a conversation ends its waits, and a token of before is void.
func TestAClearEndsWaits(t *testing.T) {
	bubble(t, func(w *world) {
		w.waiter("outside", func(ctx context.Context, r *agent.Run) (string, error) {
			_, err := r.WaitCallback(ctx, "done", 0)
			return "", err
		})
		w.waitingChat(func(ctx context.Context, t *agent.Turn) (string, error) {
			if err := dispatched(ctx, t, "r1", "outside"); err != nil {
				return "", err
			}
			_, err := t.Await(ctx, "r1")
			return "", err
		})
		w.start()
		w.say("go")
		w.say("two")
		w.pass(time.Second)
		old := callback.Target{Owner: owner, Run: "r1", Life: w.run("r1").Generation, Key: "done"}
		w.must(w.Service.Control.Clear(w.ctx(), owner))
		w.pass(time.Hour)
		err := w.Service.Control.Finish(w.ctx(), old, agent.CallbackResult{})
		w.want("token", errors.Is(err, callback.ErrToken), true)
		w.want("messages", w.transcript(), []string{})
		w.want("armed", w.backbone().Armed, false)
		again := w.say("hello")
		w.pass(time.Second)
		w.want("again", w.turn(again.ID).Status, subagent.Completed)
		w.dispatch(request("r1", "outside", quietly))
		w.pass(time.Second)
		err = w.Service.Control.Finish(w.ctx(), old, agent.CallbackResult{})
		w.want("token of another life", errors.Is(err, callback.ErrToken), true)
		w.want("untouched", w.run("r1").Status, subagent.Waiting)
	})
}

func TestTheAnswerThatComesBetweenTheLookAndTheWaitIsSeen(t *testing.T) {
	bubble(t, func(w *world) {
		w.waitingChat(func(ctx context.Context, t *agent.Turn) (string, error) {
			d, err := t.Approve(ctx, agent.Question{Name: "ok", Title: "OK?"}, time.Hour)
			if errors.Is(err, agent.ErrSuspended) {
				who := control.Asker{Owner: owner, Turn: t.ID}
				w.must(w.Service.Control.Decide(w.ctx(), who, "ok", agent.Decision{Approved: true}))
			}
			return fmt.Sprint(d.Approved), err
		})
		w.open()
		turn := w.say("go")
		r, _ := w.receive(platform.Turns)
		w.must(w.Executor.Turn(w.ctx(), w.wakeOf(r), r.Receives))
		w.must(w.Receiver().Acknowledge(w.ctx(), r))
		w.want("wakes, of the answer and of the look", len(w.take(platform.Turns)), 2)
		w.want("waits", w.turn(turn.ID).Status, subagent.Queued)
	})
}
