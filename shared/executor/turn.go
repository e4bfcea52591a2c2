package executor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/ledger"
	"github.com/errand-dev/errand/shared/platform"
	"github.com/errand-dev/errand/shared/subagent"
)

// Turn handles a message of the turns queue that was handed out receives times. A nil
// error acknowledges it; a *RetryError says when to deliver it again.
//
// The queue keeps the turns of a conversation in order. It is no lock: a message whose
// holder is slow is handed out again. So the conversation's row is leased to one turn.
func (e *Executor) Turn(ctx context.Context, w ledger.Wake, receives int) error {
	seen, err := e.Ledger.Conversation(ctx, w.Owner)
	if err != nil {
		return err
	}
	turn, err := e.Ledger.Turn(ctx, w.Owner, w.Turn)
	if err != nil {
		return err
	}
	turn.ID = w.Turn
	if turn.Done() || turn.Status == "" {
		// A turn without a row belongs to a conversation that was cleared, if only in part. Its
		// executor may have died before it gave the place back, or have ended a turn that
		// another one then let wait.
		if seen.Turn != turn.ID && !slices.Contains(seen.Parked, turn.ID) {
			return nil
		}
		return e.leavePlace(ctx, turn)
	}
	if seen.Waits(turn.ID) {
		if over, err := e.keepWaiting(ctx, seen, turn); !over || err != nil {
			return err
		}
	}
	h := &hold{Executor: e, turn: turn, token: e.Ledger.Token(), seen: seen, receives: receives}
	if err := h.begin(ctx); err != nil {
		if errors.Is(err, errParked) {
			return nil
		}
		return err
	}
	if over, err := h.isOver(ctx); over || err != nil {
		return err
	}
	// A turn that never had its place has brought down nobody: its receives were spent on
	// a store that failed.
	// Nor is a handler's turn given up: what its handler brings down is counted by the claims of
	// its slot, and this receive has just taken one.
	if h.repeated && h.turn.Mode != subagent.Handle && receives-h.turn.HandOns >= platform.MaxReceives {
		if revived, err := h.revive(ctx); revived || err != nil {
			return err
		}
		return h.giveUp(ctx, fmt.Sprintf("gave up after %d attempts that did not end", receives))
	}
	return h.take(ctx)
}

// isOver reads a doubtful turn again: since it was read, another receive of its message, or
// whoever evicted it, may have ended it. Then it gives the place back.
func (h *hold) isOver(ctx context.Context) (bool, error) {
	if !h.doubtful {
		return false, nil
	}
	turn, err := h.Ledger.Turn(ctx, h.turn.Owner, h.turn.ID)
	if err != nil {
		return false, h.again(ctx, 0, err)
	}
	if turn.Status == "" || turn.Done() {
		turn.ID = h.turn.ID
		return true, h.freePlace(ctx, turn, h.token)
	}
	h.turn = turn
	return false, nil
}

// giveUp ends a turn that has brought down its executor each time, so that it does not
// stand in the way for ever. Its message is shown all the same: nothing accepted is lost.
func (h *hold) giveUp(ctx context.Context, problem string) error {
	switch err := h.superseded(ctx); {
	case errors.Is(err, errSuperseded):
		return h.finish(ctx, subagent.Aborted, "", err.Error())
	case err != nil:
		return err
	}
	if h.turn.Mode != subagent.Handle {
		if _, _, err := h.showAll(ctx); err != nil {
			return err
		}
	}
	return h.finish(ctx, subagent.Error, "", problem)
}

// superseded returns errSuperseded for a turn that tells of a give-up whose run has
// really ended meanwhile. The end's own turn stands behind this one, or was before it:
// nobody must hear "given up" after "completed".
func (h *hold) superseded(ctx context.Context) error {
	if h.turn.Kind != subagent.GiveUpTurn || h.turn.Mode == subagent.Handle {
		return nil
	}
	run, err := h.Ledger.Run(ctx, h.turn.Owner, h.turn.Run)
	if err != nil {
		return err
	}
	if run.Status.Hard() {
		return errSuperseded
	}
	return nil
}

// showAll adds the turn's message to the transcript, and those of the turns that are told
// together with it.
func (h *hold) showAll(ctx context.Context) (message string, also []agent.Told, err error) {
	if message, err = h.Ledger.LoadValue(ctx, h.turn.Owner, h.turn.Message); err != nil {
		return "", nil, err
	}
	if err := h.fold(ctx); err != nil {
		return "", nil, err
	}
	if err := h.show(ctx, h.turn, message); err != nil {
		return "", nil, err
	}
	also, err = h.showFolded(ctx)
	return message, also, err
}

// show adds the message of a turn to the transcript.
func (h *hold) show(ctx context.Context, t subagent.Turn, text string) error {
	role := "user"
	if t.Mode == subagent.Narrate {
		role = "assistant"
	}
	_, err := h.say(ctx, t, t.ID, role, t.Message, cmp.Or(t.Source, "user"), text)
	return err
}

// leavePlace frees the conversation from a turn that has ended and that nobody works on.
func (e *Executor) leavePlace(ctx context.Context, t subagent.Turn) error {
	return e.freePlace(ctx, t, "")
}

// freePlace does so also for the holder of token.
func (e *Executor) freePlace(ctx context.Context, t subagent.Turn, token string) error {
	left, _, err := e.Ledger.UpdateConversation(ctx, subagent.Conversation{Owner: t.Owner}, func(c subagent.Conversation) (subagent.Conversation, subagent.Outcome) {
		if c.Turn == t.ID && c.Exec.Holder != token && !c.Exec.Free(subagent.At(e.Ledger.Now()), e.Ledger.Terms) {
			return c, subagent.Held
		}
		return c.Leave(t.ID, t.Messages, e.Ledger.Now())
	})
	if err != nil {
		return err
	}
	return e.wakeNext(ctx, e.Ledger, left)
}

// take does what the turn is for, while the place is held.
func (h *hold) take(ctx context.Context) error {
	workCtx, cancel := h.withDeadline(ctx)
	h.start(cancel)
	reply, err := "", agent.ErrLeaseLost
	if !h.Ledger.Terms.Late(h.place().Exec.Until, h.Ledger.Now()) {
		reply, err = h.perform(workCtx)
	}
	h.stop()
	cause := context.Cause(workCtx)
	cancel(nil)
	ctx = context.WithoutCancel(ctx)
	switch {
	case errors.Is(cause, agent.ErrLeaseLost), errors.Is(err, agent.ErrLeaseLost):
		if h.settle != nil {
			// The place is lost, the claim may not be: what the handler did must be kept.
			if err := h.settle(ctx, h.Ledger); err != nil {
				return err
			}
		}
		return &RetryError{Err: fmt.Errorf("turn %s: %w", h.turn.ID, agent.ErrLeaseLost)}
	case errors.Is(cause, agent.ErrSuspended):
		return h.suspend(ctx)
	case err == nil:
		return h.finish(ctx, subagent.Completed, reply, "")
	case errors.Is(err, errSuperseded):
		return h.finish(ctx, subagent.Aborted, "", err.Error())
	case errors.Is(cause, agent.ErrStalled):
		return h.finish(ctx, subagent.Error, "", cause.Error())
	case cause != nil:
		return h.handOn(ctx, cause)
	case agent.IsRetryable(err), ledger.IsTransient(err):
		return h.retry(ctx, err)
	}
	return h.finish(ctx, subagent.Error, "", clip(err.Error(), maxProblem))
}

var errSuperseded = errors.New("superseded by the real end of the run")

func (h *hold) perform(ctx context.Context) (string, error) {
	if h.turn.Mode == subagent.Handle {
		if h.claimed != nil {
			h.settle = h.Courier.Call(ctx, h.claimed)
		}
		return "", nil
	}
	if err := h.superseded(ctx); err != nil {
		return "", err
	}
	message, also, err := h.showAll(ctx)
	if err != nil || h.turn.Mode == subagent.Narrate {
		return "", err
	}
	return h.answer(ctx, message, also)
}

// answer lets the conversation's agent take the turn.
func (h *hold) answer(ctx context.Context, message string, also []agent.Told) (string, error) {
	chat, ok := h.Agents.Chat(h.place().Agent)
	if !ok {
		return "", agent.UnknownAgent(h.place().Agent, h.Agents.Chats())
	}
	if err := h.maintained(ctx); err != nil {
		return "", err
	}
	h.Spender = newPurse(h.Executor, ledger.LifeOfTurn(h.turn), h.token, nil, !h.repeated)
	reply, err := agent.Protect(func() (string, error) { return chat(ctx, agent.NewTurn(h.turn, message, also, h)) })
	if err != nil || reply == "" {
		return reply, err
	}
	value, err := h.Ledger.StoreValue(ctx, h.turn.Owner, reply)
	if err != nil {
		return "", err
	}
	said, err := h.say(ctx, h.turn, h.turn.ID+":reply", "assistant", value, "agent", reply)
	if err != nil || said == value {
		return reply, err
	}
	// An earlier attempt has replied already, and its words stand.
	reply, err = h.Ledger.LoadValue(ctx, h.turn.Owner, said)
	if err != nil {
		return "", err
	}
	return reply, nil
}

// say adds a message about a turn to the transcript, at the next number that this turn finds
// free, and returns what is said there: the first text stands.
func (h *hold) say(ctx context.Context, about subagent.Turn, id, role string, value subagent.Value, source, text string) (subagent.Value, error) {
	for {
		if errors.Is(context.Cause(ctx), agent.ErrLeaseLost) {
			return value, agent.ErrLeaseLost
		}
		m := ledger.Message{
			Seq: h.messages + 1, ID: id, Role: role, Text: value, Source: source,
			Run: about.Run, Milestone: about.Milestone, Turn: h.turn.ID, At: subagent.At(h.Ledger.Now()),
		}
		stored, err := h.Ledger.AddMessage(ctx, h.turn.Owner, m)
		if errors.Is(err, ledger.ErrPlaceTaken) {
			// Either we have lost the conversation, or a turn that was evicted still wrote this.
			if err := h.renew(ctx); err != nil {
				return value, err
			}
			h.messages++
			continue
		}
		if err != nil {
			return value, err
		}
		h.messages++
		h.note(h.Ledger.NewEvent("message.added", about.Run, h.turn.ID, added{m.Seq, id, role, source, clip(text, maxShown)}))
		return stored.Text, nil
	}
}

const maxShown = 1000

type added struct {
	Seq    int64  `json:"seq"`
	ID     string `json:"id"`
	Role   string `json:"role"`
	Source string `json:"source"`
	Text   string `json:"text"`
}

// retry counts a failed attempt; after the last one the turn ends in error.
func (h *hold) retry(ctx context.Context, cause error) error {
	turn, outcome, err := h.Ledger.UpdateTurn(ctx, h.turn, subagent.Turn.Fail)
	if err != nil {
		return err
	}
	if outcome == subagent.Apply {
		h.turn = turn
	}
	if h.turn.Failures >= subagent.MaxTurnFailures {
		return h.finish(ctx, subagent.Error, "", clip(cause.Error(), maxProblem))
	}
	return h.again(ctx, subagent.Backoff(h.turn.Failures)/5, cause)
}

// handOn gives the place back because this executor must stop. That is no failure: it does
// not count, and before the queue takes the message for dead the turn gets another one.
func (h *hold) handOn(ctx context.Context, cause error) error {
	fresh := h.receives >= platform.MaxReceives
	if fresh {
		if err := h.takePlace(ctx); err != nil {
			return h.again(ctx, 0, errors.Join(cause, err))
		}
	}
	turn, outcome, err := h.Ledger.UpdateTurn(ctx, h.turn, func(t subagent.Turn) (subagent.Turn, subagent.Outcome) {
		return t.HandOn(fresh, h.gotFurther())
	})
	if err == nil && turn.Stalled() {
		return h.finish(ctx, subagent.Error, "", fmt.Sprintf("it was handed on %d times without finishing a step", turn.Stops))
	}
	if err != nil || outcome != subagent.Apply || !fresh {
		return h.again(ctx, 0, errors.Join(cause, err))
	}
	return h.renewMessage(ctx, turn)
}

// again gives the lease back; the turn keeps its place and is delivered once more.
func (h *hold) again(ctx context.Context, after time.Duration, cause error) error {
	_, _, err := h.Ledger.UpdateConversation(ctx, h.place(), func(c subagent.Conversation) (subagent.Conversation, subagent.Outcome) {
		return c.Yield(h.token)
	})
	return &RetryError{After: after, Err: errors.Join(fmt.Errorf("turn %s: %w", h.turn.ID, cause), err)}
}
