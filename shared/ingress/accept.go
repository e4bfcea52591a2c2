// Package ingress is the way in: it accepts turns, dispatches runs for the API, and
// answers what users ask about them. Service holds the use cases, Handler the HTTP API
// over it; the same handler serves `errand serve` and the ingress Lambda.
package ingress

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/callback"
	"github.com/errand-dev/errand/shared/control"
	"github.com/errand-dev/errand/shared/dispatch"
	"github.com/errand-dev/errand/shared/ledger"
	"github.com/errand-dev/errand/shared/operator"
	"github.com/errand-dev/errand/shared/subagent"
	"github.com/errand-dev/errand/shared/timetable"
)

// Service is the use cases of the API.
type Service struct {
	Ledger     *ledger.Ledger
	Agents     *agent.Registry
	Dispatcher *dispatch.Dispatcher
	Control    *control.Control
	// Callbacks opens the tokens of callbacks.
	Callbacks *callback.Signer
	Timetable *timetable.Timetable
	// Controls are what operators set for agents.
	Controls *operator.Controls
	Log      *slog.Logger
}

// MaxMessage is the largest message of a turn, in bytes.
const MaxMessage = 256 << 10

// Refusals of a turn. Nothing was written.
var (
	ErrEmptyMessage    = errors.New("the message is empty")
	ErrMessageTooLarge = errors.New("the message is too large")
	ErrKeyReused       = errors.New("this Idempotency-Key was used with another body")
	ErrAgentFixed      = errors.New("the conversation has another agent; it is fixed by the first turn")
	ErrBusy            = errors.New("too many turns of the conversation are waiting")
)

// TurnRequest asks for a turn.
type TurnRequest struct {
	Owner    subagent.Owner
	Message  string
	Agent    string
	Metadata map[string]string
	// Key makes the request repeatable: the same key is the same turn.
	Key string
}

// Accept makes the turn durable and wakes its conversation. replayed reports that the
// same request was accepted before; the wake is then repeated, since a crash may have
// come between the two.
//
// Errors: subagent.ErrInvalidID, agent.ErrUnknownAgent, agent.ErrAgentDisabled,
// agent.ErrInMaintenance, and those above.
func (s *Service) Accept(ctx context.Context, req TurnRequest) (turn subagent.Turn, replayed bool, err error) {
	if err := s.checkTurn(ctx, req); err != nil {
		return turn, false, err
	}
	if err := s.admit(ctx, req); err != nil {
		return turn, false, err
	}
	hash, err := bodyHash(req)
	if err != nil {
		return turn, false, err
	}
	fresh := subagent.Turn{
		Owner: req.Owner, ID: s.turnID(req), Kind: subagent.UserTurn, Status: subagent.Queued, Agent: req.Agent,
		Metadata: req.Metadata, BodyHash: hash, AcceptedAt: subagent.At(s.Ledger.Now()),
	}
	err = s.Ledger.Atomically(ctx, func(l *ledger.Ledger) error {
		if fresh.Message, err = l.StoreValue(ctx, req.Owner, req.Message); err != nil {
			return err
		}
		if turn, replayed, err = l.CreateTurn(ctx, fresh); err != nil {
			return err
		}
		if replayed && turn.BodyHash != hash {
			return ErrKeyReused
		}
		return s.wake(ctx, l, turn, replayed)
	})
	if err == nil && !replayed {
		s.Log.InfoContext(ctx, "accepted turn", "turn_id", turn.ID, "conversation", req.Owner.Conversation, "message_bytes", len(req.Message))
	}
	return turn, replayed, err
}

func (s *Service) wake(ctx context.Context, l *ledger.Ledger, t subagent.Turn, replayed bool) error {
	if t.Done() {
		return nil
	}
	attempt := ""
	if replayed {
		// The queue remembers an id for five minutes: within that the wake is there.
		attempt = "retry-" + l.Now().UTC().Truncate(dedupWindow).Format("150405")
	}
	if err := l.SendTurn(ctx, t, attempt); err != nil || replayed {
		return err
	}
	if err := l.Emit(ctx, t.Owner, l.NewEvent("turn.accepted", "", t.ID, acceptedEvent{t.Kind})); err != nil {
		s.Log.WarnContext(ctx, "events lost", "turn_id", t.ID, "error", err)
	}
	return nil
}

const dedupWindow = 5 * 60 * 1e9

type acceptedEvent struct {
	Kind subagent.TurnKind `json:"kind"`
}

func (s *Service) checkTurn(ctx context.Context, req TurnRequest) error {
	for _, id := range []string{req.Owner.Tenant, req.Owner.Conversation} {
		if err := subagent.CheckID(id); err != nil {
			return err
		}
	}
	switch {
	case strings.TrimSpace(req.Message) == "":
		return ErrEmptyMessage
	case len(req.Message) > MaxMessage:
		return fmt.Errorf("%w: %d bytes, at most %d are allowed", ErrMessageTooLarge, len(req.Message), MaxMessage)
	}
	if _, ok := s.Agents.Chat(req.Agent); !ok && req.Agent != "" {
		return agent.UnknownAgent(req.Agent, s.Agents.Chats())
	}
	return nil
}

// admit refuses a turn for another agent than the conversation's, for one that takes no new
// work, and for a conversation that is too far behind; not if it was accepted before.
func (s *Service) admit(ctx context.Context, req TurnRequest) error {
	c, err := s.Ledger.Conversation(ctx, req.Owner)
	if err != nil {
		return err
	}
	if c.CreatedAt != 0 && req.Agent != "" && c.Agent != req.Agent {
		return fmt.Errorf("%w: it is %q", ErrAgentFixed, c.Agent)
	}
	refusal := s.Controls.Admit(ctx, cmp.Or(c.Agent, req.Agent, s.Agents.DefaultChat))
	if refusal == nil && len(c.Parked) >= subagent.BusyAt {
		refusal = fmt.Errorf("%w: %d wait behind one that waits itself", ErrBusy, len(c.Parked))
	}
	if refusal == nil || req.Key == "" {
		return refusal
	}
	turn, err := s.Ledger.Turn(ctx, req.Owner, s.turnID(req))
	if err != nil || turn.Status != "" {
		return err
	}
	return refusal
}

// turnID is derived from tenant, conversation and key, or fresh without a key.
func (s *Service) turnID(req TurnRequest) string {
	if req.Key == "" {
		return "t-" + s.Ledger.Nonce()
	}
	return "t-" + ledger.Digest(req.Owner.Tenant + "/" + req.Owner.Conversation + "/" + req.Key)[:26]
}

func bodyHash(req TurnRequest) (string, error) {
	body, err := json.Marshal([]any{req.Message, req.Agent, req.Metadata})
	if err != nil {
		return "", fmt.Errorf("encoding the request: %w", err)
	}
	return ledger.Digest(string(body))[:32], nil
}
