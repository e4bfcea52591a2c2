package executor

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/delivery"
	"github.com/errand-dev/errand/shared/ledger"
	"github.com/errand-dev/errand/shared/subagent"
)

// foldStep journals which turns are told together with this one: executed again, it tells
// the same.
const foldStep = "#fold"

// foldBatches is how far back the log is searched for turns that stand behind this one.
const foldBatches = 256

// fold finds the turns that are told together with this one. The log only hints at them, and
// one that it has lost is told by itself.
func (h *hold) fold(ctx context.Context) error {
	if !h.Coalesce.Busy(h.turn, h.place()) {
		return nil
	}
	raw, err := h.Step(ctx, foldStep, func(ctx context.Context) (json.RawMessage, error) {
		behind, err := h.behind(ctx)
		if err != nil {
			return nil, err
		}
		ids := []string{}
		for _, t := range h.Coalesce.Fold(h.turn, behind) {
			ids = append(ids, t.ID)
		}
		return json.Marshal(ids)
	})
	if err != nil {
		return err
	}
	var ids []string
	if err := json.Unmarshal(raw, &ids); err != nil {
		return fmt.Errorf("decoding the journal: %w", err)
	}
	h.folded, err = h.Ledger.Turns(ctx, h.turn.Owner, ids)
	return err
}

// behind lists turns that tell of ends of runs and were accepted after this one, in their
// order: none if the log has grown too long since to see the next of them, for no other must
// be told before that.
func (h *hold) behind(ctx context.Context) ([]subagent.Turn, error) {
	events, complete, err := h.Ledger.EventsSince(ctx, h.turn.Owner, h.turn.AcceptedAt, foldBatches)
	if err != nil || !complete {
		return nil, err
	}
	var ids []string
	for _, e := range events {
		var data delivery.TurnEvent
		if e.Type == "turn.accepted" && json.Unmarshal(e.Data, &data) == nil && data.Kind == subagent.FinishTurn {
			ids = append(ids, e.Turn)
		}
	}
	return h.Ledger.Turns(ctx, h.turn.Owner, ids)
}

// showFolded adds the messages of the folded turns to the transcript, behind this turn's own,
// and returns what the agent is told of them.
func (h *hold) showFolded(ctx context.Context) ([]agent.Told, error) {
	var told []agent.Told
	for _, t := range h.folded {
		text, err := h.Ledger.LoadValue(ctx, t.Owner, t.Message)
		if err != nil {
			return nil, err
		}
		if err := h.show(ctx, t, text); err != nil {
			return nil, err
		}
		told = append(told, agent.Told{Run: t.Run, Status: t.Told, Message: text, Source: t.Source})
	}
	return told, nil
}

// endFolded ends the folded turns together with this one.
func (h *hold) endFolded(ctx context.Context, l *ledger.Ledger, status subagent.Status, problem string) error {
	for _, t := range h.folded {
		_, outcome, err := l.UpdateTurn(ctx, t, func(t subagent.Turn) (subagent.Turn, subagent.Outcome) {
			return t.FoldInto(h.turn.ID, status, problem, l.Now())
		})
		if err != nil {
			return err
		}
		if outcome == subagent.Apply {
			if err := l.Emit(ctx, t.Owner, l.NewEvent("turn.completed", t.Run, t.ID, foldedEvent{t.Kind, status, h.turn.ID})); err != nil {
				h.Log.WarnContext(ctx, "events lost", "turn_id", t.ID, "error", err)
			}
		}
	}
	return nil
}

type foldedEvent struct {
	Kind   subagent.TurnKind `json:"kind"`
	Status subagent.Status   `json:"status"`
	Into   string            `json:"into"`
}
