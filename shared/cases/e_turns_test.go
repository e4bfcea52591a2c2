package cases_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/ingress"
	"github.com/errand-dev/errand/shared/platform"
	"github.com/errand-dev/errand/shared/subagent"
)

func (w *world) accept(message, key string) (subagent.Turn, bool, error) {
	return w.Service.Accept(w.ctx(), ingress.TurnRequest{Owner: owner, Message: message, Key: key})
}

// E63 and E64: an accepted turn is durable and not executed inline; it goes from queued
// over running to completed, with its times.
func TestE63AnAcceptedTurnIsDurableAndRunsLater(t *testing.T) {
	bubble(t, func(w *world) {
		w.talker()
		w.open()
		turn := w.say("wait")
		w.want("answer", turn.Status, subagent.Queued)
		w.want("inline", w.called("begin"), []string{})
		w.want("stored", w.turn(turn.ID).Status, subagent.Queued)
		w.pass(time.Second)
		begun := time.Now()
		w.work()
		w.pass(time.Minute)
		w.want("at work", w.called("begin"), []string{"begin user"})
		w.free("turn")
		w.pass(time.Second)
		done := w.turn(turn.ID)
		w.want("status", done.Status, subagent.Completed)
		w.want("reply", done.Reply.Inline, "heard")
		w.want("accepted", done.AcceptedAt, turn.AcceptedAt)
		w.want("started", done.StartedAt, subagent.At(begun))
		w.want("ended", done.EndedAt, subagent.At(begun.Add(time.Minute)))
	})
}

// E65 and E66: the same key is the same turn, also for two first requests at a time.
func TestE65TheSameKeyIsTheSameTurn(t *testing.T) {
	bubble(t, func(w *world) {
		w.start()
		var mu sync.Mutex
		ids, fresh := map[string]bool{}, 0
		var requests sync.WaitGroup
		for range 5 {
			requests.Go(func() {
				turn, replayed, err := w.accept("hello", "key-1")
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				ids[turn.ID] = true
				if !replayed {
					fresh++
				}
			})
		}
		requests.Wait()
		w.pass(time.Minute)
		w.want("ids", len(ids), 1)
		w.want("fresh", fresh, 1)
		w.want("turns", w.called("turn"), []string{"turn user: hello"})
		again, replayed, err := w.accept("hello", "key-1")
		w.must(err)
		w.want("replayed", replayed, true)
		w.want("as it stands", again.Status, subagent.Completed)
	})
}

// E67 and E68: an empty message is refused before anything is written; a key used for
// another message is an error.
func TestE67BadTurnsAreRefused(t *testing.T) {
	bubble(t, func(w *world) {
		w.open()
		if _, _, err := w.accept("  ", "key-1"); !errors.Is(err, ingress.ErrEmptyMessage) {
			t.Errorf("empty message: %v", err)
		}
		w.want("sent", len(w.take(platform.Turns)), 0)
		_, _, err := w.accept("hello", "key-1")
		w.must(err)
		if _, _, err := w.accept("another", "key-1"); !errors.Is(err, ingress.ErrKeyReused) {
			t.Errorf("reused key: %v", err)
		}
	})
}

// E71: turns of a conversation run in order, one at a time; those of others do not wait.
func TestE71TurnsRunInOrder(t *testing.T) {
	bubble(t, func(w *world) {
		w.start()
		for i := range 20 {
			w.say(fmt.Sprint(i))
		}
		w.pass(time.Second)
		want := []string{}
		for i := range 20 {
			want = append(want, fmt.Sprintf("turn user: %d", i))
		}
		w.want("order", w.called("turn"), want)
	})
}

// E72: clearing a conversation drops what waits in it.
func TestE72ClearingDropsWaitingTurns(t *testing.T) {
	bubble(t, func(w *world) {
		w.open()
		w.say("one")
		w.must(w.Service.Control.Clear(w.ctx(), owner))
		w.drain(platform.Turns)
		w.want("turns", w.called("turn"), []string{})
	})
}

// E73 and E77: a turn whose process was killed goes on from its journal: what a step has
// done is not done again, its message is there once.
func TestE73AKilledTurnGoesOnFromItsJournal(t *testing.T) {
	bubble(t, func(w *world) {
		w.must(w.agents.AddChat("steps", func(ctx context.Context, turn *agent.Turn) (string, error) {
			tool, err := agent.Step(ctx, turn, "tool", func(context.Context) (string, error) {
				w.record("tool called")
				return "42", nil
			})
			if err != nil {
				return "", err
			}
			select {
			case <-w.gate("turn"):
			case <-ctx.Done():
				return "", context.Cause(ctx)
			}
			return "the tool says " + tool, nil
		}))
		w.agents.DefaultChat = "steps"
		w.start()
		w.say("hello")
		w.pass(time.Second)
		w.kill()
		w.work()
		w.pass(time.Second)
		w.free("turn")
		w.pass(time.Minute)
		w.want("tool", w.called("tool"), []string{"tool called"})
		w.want("transcript", w.transcript(), []string{"user user: hello", "assistant agent: the tool says 42"})
	})
}

// A turn that is handed on by any number of restarts has not failed: it is answered in the
// end, once.
func TestATurnSurvivesManyRestarts(t *testing.T) {
	bubble(t, func(w *world) {
		w.talker()
		w.start()
		turn := w.say("wait")
		for range 12 {
			w.pass(time.Minute)
			w.restart()
		}
		w.free("turn")
		w.pass(time.Minute)
		w.want("status", w.turn(turn.ID).Status, subagent.Completed)
		w.want("transcript", w.transcript(), []string{"user user: wait", "assistant agent: heard"})
		w.say("next")
		w.pass(time.Second)
		w.want("messages", len(w.transcript()), 4)
	})
}

// A turn that takes its process down each time has failed, and is given up; the next one
// runs.
func TestATurnThatKillsItsProcessIsGivenUp(t *testing.T) {
	bubble(t, func(w *world) {
		w.talker()
		w.start()
		turn := w.say("wait")
		for range 10 {
			w.pass(time.Minute)
			w.kill()
			w.work()
		}
		w.pass(time.Minute)
		w.want("status", w.turn(turn.ID).Status, subagent.Error)
		w.say("next")
		w.pass(time.Second)
		w.want("transcript", w.transcript(), []string{"user user: wait", "user user: next", "assistant agent: heard"})
	})
}

// A turn that was handed out often, but never began because the store failed, is not
// given up: it is taken.
func TestATurnWhoseStoreFailedIsTakenAtItsLastReceive(t *testing.T) {
	bubble(t, func(w *world) {
		w.talker()
		w.open()
		turn := w.say("hello")
		wakes := w.take(platform.Turns)
		w.must(w.Executor.Turn(w.ctx(), wakes[0], platform.MaxReceives))
		w.want("status", w.turn(turn.ID).Status, subagent.Completed)
		w.want("transcript", w.transcript(), []string{"user user: hello", "assistant agent: heard"})
	})
}

// E74: the repeated request of a waiting turn wakes it again when its message was lost.
func TestE74ARepeatedRequestWakesAWaitingTurn(t *testing.T) {
	bubble(t, func(w *world) {
		w.open()
		_, _, err := w.accept("hello", "key-1")
		w.must(err)
		w.take(platform.Turns)
		w.pass(10 * time.Minute)
		_, _, err = w.accept("hello", "key-1")
		w.must(err)
		w.drain(platform.Turns)
		w.want("turns", w.called("turn"), []string{"turn user: hello"})
	})
}

// E75: a turn that cannot be read ends in a visible dead letter and stops nobody.
func TestE75AMalformedMessageEndsAsADeadLetter(t *testing.T) {
	bubble(t, func(w *world) {
		w.start()
		sender, found := w.Receiver().(platform.Sender)
		if !found {
			t.Fatal("the embedded platform cannot send")
		}
		for _, queue := range []string{platform.Turns, platform.Runs} {
			w.must(sender.Send(w.ctx(), platform.Message{Queue: queue, Group: "bad", Dedup: "bad", Body: []byte(`{"not":`)}))
		}
		w.say("hello")
		w.pass(24 * time.Hour)
		for _, queue := range []string{platform.Turns, platform.Runs} {
			dead, err := w.Receiver().DeadLetters(w.ctx(), queue, 10)
			w.must(err)
			w.want("dead letters of "+queue, len(dead), 1)
		}
		w.want("turns", w.called("turn"), []string{"turn user: hello"})
	})
}

// E76: an error or panic of the agent ends the turn as an error with its text; one that
// asks for another try gets it, four in all.
func TestE76AFailingTurnEndsAsAnError(t *testing.T) {
	bubble(t, func(w *world) {
		w.must(w.agents.AddChat("sad", func(_ context.Context, turn *agent.Turn) (string, error) {
			w.record("try %s", turn.Message)
			switch turn.Message {
			case "panic":
				panic("oh")
			case "again":
				return "", agent.Retryable(errors.New("not now"))
			}
			return "", errors.New("never")
		}))
		w.agents.DefaultChat = "sad"
		w.start()
		for message, want := range map[string]string{"no": "never", "again": "not now"} {
			turn := w.say(message)
			w.pass(time.Hour)
			w.want(message, w.turn(turn.ID).Status, subagent.Error)
			w.want(message, w.turn(turn.ID).Problem, want)
		}
		w.want("panic", w.turn(w.say("panic").ID).Status, subagent.Error)
		tries := map[string]int{}
		for _, call := range w.called("try") {
			tries[call]++
		}
		if tries["try no"] != 1 || tries["try panic"] != 1 || tries["try again"] != subagent.MaxTurnFailures {
			t.Errorf("tries: %v", tries)
		}
	})
}

// E76: an ended turn is never ended again.
func TestE76AnEndedTurnStaysAsItIs(t *testing.T) {
	bubble(t, func(w *world) {
		w.start()
		turn := w.say("hello")
		w.pass(time.Second)
		_, outcome, err := w.Ledger.UpdateTurn(w.ctx(), subagent.Turn{Owner: owner, ID: turn.ID}, func(t subagent.Turn) (subagent.Turn, subagent.Outcome) {
			return t.Finish(subagent.Error, subagent.Value{}, "late", 9, w.Ledger.Now())
		})
		w.must(err)
		w.want("late end", outcome, subagent.Ended)
	})
}

// A turn that has the conversation's place although its message is gone gives way: its
// own message is shown all the same, and the next turn runs.
func TestATurnWhoseMessageIsLostIsShownAndGivesWay(t *testing.T) {
	bubble(t, func(w *world) {
		w.open()
		lost := w.say("first")
		w.take(platform.Turns)
		token := w.Ledger.Token()
		_, outcome, err := w.Ledger.UpdateConversation(w.ctx(), subagent.Conversation{Owner: owner}, func(c subagent.Conversation) (subagent.Conversation, subagent.Outcome) {
			c.CreatedAt, c.Agent = subagent.At(w.Ledger.Now()), "chat"
			return c.Begin(lost.ID, token, w.Ledger.Now(), w.Ledger.Terms)
		})
		w.must(errors.Join(err, ok(outcome)))
		w.say("second")
		w.pass(2 * time.Minute)
		w.drain(platform.Turns)
		w.want("lost turn", w.turn(lost.ID).Status, subagent.Error)
		w.want("turns", w.called("turn"), []string{"turn user: second"})
		if got := w.transcript(); len(got) != 3 || got[0] != "user user: first" || got[1] != "user user: second" {
			t.Errorf("transcript: %q", got)
		}
	})
}

// A handler's turn that ended without its claim does not keep the slot from delivery.
func TestAHandlersTurnThatEndedUnclaimedIsSentAgain(t *testing.T) {
	bubble(t, func(w *world) {
		w.open()
		w.dispatch(request("r1", "done", byNote))
		w.lost("r1")
		w.must(ok(w.finish("r1", completed)))
		w.tick()
		for _, wake := range w.take(platform.Turns) {
			_, _, err := w.Ledger.UpdateTurn(w.ctx(), subagent.Turn{Owner: owner, ID: wake.Turn}, func(t subagent.Turn) (subagent.Turn, subagent.Outcome) {
				return t.Finish(subagent.Error, subagent.Value{}, "gave up", 0, w.Ledger.Now())
			})
			w.must(err)
		}
		w.tick()
		w.drain(platform.Turns)
		w.want("handler", w.called("note"), []string{"note r1 completed"})
		w.want("finish", w.run("r1").Finish.State, subagent.Delivered)
	})
}
