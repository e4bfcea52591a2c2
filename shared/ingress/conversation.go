package ingress

import (
	"context"
	"fmt"

	"github.com/errand-dev/errand/shared/api"
	"github.com/errand-dev/errand/shared/subagent"
)

// Conversation shows a conversation. It counts rows: one read per thousand turns that
// are kept (30 days), and the rows of its outstanding runs. Errors: ErrNotFound.
func (s *Service) Conversation(ctx context.Context, o subagent.Owner) (api.Conversation, error) {
	view := api.Conversation{ID: o.Conversation}
	row, err := s.Ledger.Conversation(ctx, o)
	if err != nil {
		return view, err
	}
	turns, first, err := s.countTurns(ctx, o, row)
	if err != nil {
		return view, err
	}
	view.Turns = turns
	view.Agent, view.CreatedAt = row.Agent, timeOf(row.CreatedAt)
	if row.CreatedAt == 0 {
		// Its first turn has not begun yet, or there is none.
		view.Agent = first.Agent
		if view.Agent == "" && first.ID != "" {
			view.Agent = s.Agents.DefaultChat
		}
		began := first.AcceptedAt
		run, err := s.firstRun(ctx, o)
		switch {
		case err != nil:
			return view, err
		case first.ID == "" && run.ID == "":
			return view, notThere(o)
		case began == 0 || run.ID != "" && run.DispatchedAt < began:
			began = run.DispatchedAt
		}
		view.CreatedAt = timeOf(began)
	}
	active, err := s.Control.Active(ctx, o)
	view.Runs.Active = len(active)
	return view, err
}

func notThere(o subagent.Owner) error {
	return fmt.Errorf("%w: conversation %s", ErrNotFound, o.Conversation)
}

const listPage = 1000

// countTurns counts the turns that have not ended, and returns the one accepted first.
func (s *Service) countTurns(ctx context.Context, o subagent.Owner, c subagent.Conversation) (n api.TurnCounts, first subagent.Turn, err error) {
	for after := ""; ; {
		page, err := s.Ledger.ListTurns(ctx, o, after, listPage)
		if err != nil {
			return n, first, err
		}
		for _, t := range page {
			after = t.ID
			if first.ID == "" || t.AcceptedAt < first.AcceptedAt {
				first = t
			}
			switch {
			case running(t, c):
				n.Running++
			case !t.Done():
				n.Queued++
			}
		}
		if len(page) < listPage {
			return n, first, nil
		}
	}
}

// firstRun returns a run of the conversation, the oldest of the first few by id; its
// ID is empty if there is none. Tombstones are no runs.
func (s *Service) firstRun(ctx context.Context, o subagent.Owner) (first subagent.Run, err error) {
	for after := ""; ; {
		page, err := s.Ledger.ListRuns(ctx, o, after, listPage)
		if err != nil {
			return first, err
		}
		for _, r := range page {
			after = r.ID
			if r.Status != subagent.Void && (first.ID == "" || r.DispatchedAt < first.DispatchedAt) {
				first = r
			}
		}
		if first.ID != "" || len(page) < listPage {
			return first, nil
		}
	}
}

// exists returns ErrNotFound unless the conversation has a turn or a run.
func (s *Service) exists(ctx context.Context, o subagent.Owner) error {
	row, err := s.Ledger.Conversation(ctx, o)
	if err != nil || row.CreatedAt != 0 {
		return err
	}
	turns, err := s.Ledger.ListTurns(ctx, o, "", 1)
	if err != nil || len(turns) > 0 {
		return err
	}
	run, err := s.firstRun(ctx, o)
	if err == nil && run.ID == "" {
		err = notThere(o)
	}
	return err
}
