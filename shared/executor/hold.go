package executor

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/delivery"
	"github.com/errand-dev/errand/shared/ledger"
	"github.com/errand-dev/errand/shared/subagent"
)

// hold is one turn that has its place in the conversation, under a lease: the backend
// of its chat.
type hold struct {
	*Executor
	pad
	agent.Spender
	turn         subagent.Turn
	token        string
	conversation subagent.Conversation
	cancel       context.CancelCauseFunc
	// messages is the number of the newest message known to this turn.
	messages int64
	started  subagent.Time
	// receives is how often the turn's message was handed out.
	receives int

	mu        sync.Mutex
	heartbeat *time.Timer
	// flush writes events that would otherwise wait for the end of a slow turn.
	flush   *time.Timer
	stopped bool
	steps   map[string]ledger.Step
	loaded  bool
	// further: a new step was finished.
	further bool
	// heard is when the turn last finished a step, or was begun here.
	heard time.Time
	// repeated: the turn had the place before, so it may have a journal.
	repeated bool
	// before is when it then got the place.
	before subagent.Time
	// seen is the conversation as it was read before the turn was. If it has changed since,
	// or the turn had the place before, the turn may have ended after we read it: doubtful.
	seen     subagent.Conversation
	doubtful bool

	dispatched int
	// folded are turns that are told together with this one.
	folded []subagent.Turn
	// wait is what the chat waits for, if it does; waited: the turn has waited before.
	wait   subagent.Wait
	waited bool

	// claimed is the slot of a handler's turn, settle writes what came of the call.
	claimed *delivery.Claimed
	settle  func(context.Context, *ledger.Ledger) error
}

// begin takes the place, making room if a turn that nobody works on any more has it. It
// returns errParked if the turn will have its place later, and its message can go.
func (h *hold) begin(ctx context.Context) error {
	for range 3 {
		c, outcome, err := h.enterPlace(ctx)
		if err != nil && outcome.OK() {
			return h.again(ctx, time.Second, err)
		}
		if err != nil {
			return err
		}
		if outcome.OK() {
			h.note(h.Ledger.NewEvent("turn.started", h.turn.Run, h.turn.ID, turnEvent{Kind: h.turn.Kind}))
			return nil
		}
		if !c.Evictable(h.turn.ID, h.Ledger.Now(), h.Ledger.Terms) {
			if parked, err := h.park(ctx, c); err != nil {
				return err
			} else if parked {
				return errParked
			}
			wait := c.Exec.Until.Add(h.Ledger.Terms.Skew).Time().Sub(h.Ledger.Now())
			return &RetryError{After: max(wait, time.Second), Err: fmt.Errorf("turn %s: turn %s has its place", h.turn.ID, c.Turn)}
		}
		if err := h.evict(ctx, c); err != nil {
			return err
		}
	}
	return &RetryError{After: time.Second, Err: fmt.Errorf("turn %s: %w", h.turn.ID, ledger.ErrContended)}
}

// enterPlace takes the place, and for a handler's turn the claim of its slot with it.
// An error with an outcome that is OK came after the place was taken.
func (h *hold) enterPlace(ctx context.Context) (c subagent.Conversation, outcome subagent.Outcome, err error) {
	err = h.Ledger.Atomically(ctx, func(l *ledger.Ledger) error {
		c, outcome, err = l.UpdateConversation(ctx, h.seen, func(c subagent.Conversation) (subagent.Conversation, subagent.Outcome) {
			if c.CreatedAt == 0 {
				c.CreatedAt, c.Agent = subagent.At(l.Now()), h.turn.Agent
				if c.Agent == "" {
					c.Agent = h.Agents.DefaultChat
				}
			}
			h.repeated, h.waited, h.before = c.Turn == h.turn.ID, c.Waits(h.turn.ID), c.BegunAt
			h.doubtful = h.repeated || c.Version != h.seen.Version
			return c.Begin(h.turn.ID, h.token, l.Now(), l.Terms)
		})
		if err != nil || !outcome.OK() {
			return err
		}
		h.conversation, h.messages, h.started = c, c.Messages, subagent.At(l.Now())
		if h.turn.Mode == subagent.Handle {
			h.claimed, err = h.Courier.Take(ctx, l, h.turn)
		}
		return err
	})
	return c, outcome, err
}

// evict ends a turn that has the conversation's place although its message is gone and
// nobody works on it.
func (h *hold) evict(ctx context.Context, c subagent.Conversation) error {
	turn, err := h.Ledger.Turn(ctx, h.turn.Owner, c.Turn)
	if err != nil {
		return err
	}
	if turn.Status == "" || turn.Done() {
		turn.ID = c.Turn
		return h.leavePlace(ctx, turn)
	}
	old := &hold{Executor: h.Executor, turn: turn, token: h.Ledger.Token(), seen: c}
	if err := old.begin(ctx); err != nil {
		return err
	}
	if over, err := old.isOver(ctx); over || err != nil {
		return err
	}
	h.Log.WarnContext(ctx, "turn evicted", "turn_id", c.Turn)
	return old.giveUp(ctx, "its executor died and its message was lost")
}

type turnEvent struct {
	Kind   subagent.TurnKind `json:"kind"`
	Status subagent.Status   `json:"status,omitempty"`
}

// finish ends the turn, then gives the place back.
func (h *hold) finish(ctx context.Context, status subagent.Status, reply, problem string) error {
	value, err := h.Ledger.StoreValue(ctx, h.turn.Owner, reply)
	if err != nil {
		return err
	}
	h.note(h.Ledger.NewEvent("turn.completed", h.turn.Run, h.turn.ID, turnEvent{h.turn.Kind, status}))
	events := h.notes()
	return h.Ledger.Atomically(ctx, func(l *ledger.Ledger) error {
		if h.settle != nil {
			if err := h.settle(ctx, l); err != nil {
				return err
			}
		}
		// Before the turn's own end: whoever finds that it has ended looks no further.
		if err := h.endFolded(ctx, l, status, problem); err != nil {
			return err
		}
		ended, outcome, err := l.UpdateTurn(ctx, h.turn, func(t subagent.Turn) (subagent.Turn, subagent.Outcome) {
			if t.StartedAt == 0 {
				t.StartedAt = h.started
			}
			return t.Finish(status, value, problem, h.messages, l.Now())
		})
		if err != nil {
			return err
		}
		if outcome == subagent.Absent {
			// The conversation was cleared while we worked.
			return l.EraseTurn(ctx, h.turn.Owner, h.turn.ID, h.place().Messages)
		}
		left, _, err := l.UpdateConversation(ctx, h.place(), func(c subagent.Conversation) (subagent.Conversation, subagent.Outcome) {
			if c.Turn == ended.ID && c.Exec.Holder != h.token {
				// We have lost the place: whoever has it now for this turn is at work still.
				return c, subagent.Stale
			}
			return c.Leave(ended.ID, ended.Messages, l.Now())
		})
		if err != nil {
			return err
		}
		if err := h.followOn(ctx, l, left); err != nil {
			return err
		}
		if err := l.Emit(ctx, h.turn.Owner, events...); err != nil {
			h.Log.WarnContext(ctx, "events lost", "turn_id", h.turn.ID, "error", err)
		}
		return nil
	})
}

// place is the conversation's row as this turn knows it: the heartbeat renews it.
func (h *hold) place() subagent.Conversation {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.conversation
}

// renew extends the lease, or returns agent.ErrLeaseLost.
func (h *hold) renew(ctx context.Context) error {
	c, outcome, err := h.Ledger.UpdateConversation(ctx, h.place(), func(c subagent.Conversation) (subagent.Conversation, subagent.Outcome) {
		return c.Renew(h.token, h.Ledger.Now(), h.Ledger.Terms)
	})
	if err != nil {
		return err
	}
	if !outcome.OK() {
		return agent.ErrLeaseLost
	}
	h.mu.Lock()
	h.conversation = c
	h.mu.Unlock()
	return nil
}

func (h *hold) beat() {
	ctx, done := context.WithTimeout(context.Background(), h.Ledger.Terms.BeatTimeout())
	defer done()
	err := h.renew(ctx)
	h.mu.Lock()
	defer h.mu.Unlock()
	pause, stop := h.Ledger.Terms.Beat(h.conversation.Exec.Until, err != nil, h.Ledger.Now())
	if stop || errors.Is(err, agent.ErrLeaseLost) {
		h.cancel(agent.ErrLeaseLost)
		return
	}
	if h.Ledger.Now().Sub(h.heard) >= subagent.DefaultNoProgressBudget {
		// Its place stays ours until it has stopped and its end is written.
		h.cancel(agent.ErrStalled)
	}
	if !h.stopped {
		h.heartbeat.Reset(pause)
	}
}

// showAfter is how long the events of a turn may wait to be written with its end.
const showAfter = 500 * time.Millisecond

// start begins heartbeat and flush.
func (h *hold) start(cancel context.CancelCauseFunc) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.cancel, h.heard = cancel, h.Ledger.Now()
	h.heartbeat = time.AfterFunc(h.Ledger.Terms.FirstBeat(h.conversation.Exec.Until, h.Ledger.Now()), h.beat)
	h.flush = time.AfterFunc(showAfter, func() { h.emit(context.Background(), h.turn.Owner, h.notes()...) })
}

func (h *hold) stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stopped = true
	h.heartbeat.Stop()
	h.flush.Stop()
}

func (h *hold) gotFurther() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.further
}
