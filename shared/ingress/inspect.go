package ingress

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/errand-dev/errand/shared/api"
	"github.com/errand-dev/errand/shared/ledger"
	"github.com/errand-dev/errand/shared/subagent"
)

// Run shows one run whole. Errors: agent.ErrNoRun.
func (s *Service) Run(ctx context.Context, o subagent.Owner, id string) (api.Run, error) {
	row, err := s.Control.Run(ctx, o, id)
	if err != nil {
		return api.Run{}, err
	}
	return s.show(ctx, row)
}

// show adds to the row what is kept elsewhere.
func (s *Service) show(ctx context.Context, row subagent.Run) (api.Run, error) {
	view := s.brief(row)
	view.Milestones = []api.Milestone{}
	if row.Milestones > 0 || row.Status == subagent.Running {
		reached, err := s.Ledger.Milestones(ctx, ledger.LifeOf(row), 0)
		if err != nil {
			return view, err
		}
		view.Milestones = viewMilestones(reached)
	}
	if row.Status == subagent.Waiting {
		var err error
		if view.Approvals, err = s.approvals(ctx, ledger.LifeOf(row)); err != nil {
			return view, err
		}
	}
	output, err := s.Ledger.LoadValue(ctx, row.Owner, row.Output)
	if err != nil {
		return view, err
	}
	view.Output = data(json.RawMessage(output))
	views := []api.Run{view}
	err = s.withCosts(ctx, []subagent.Run{row}, views)
	return views[0], err
}

func (s *Service) brief(row subagent.Run) api.Run {
	return viewRun(row, subagent.At(s.Ledger.Now()), s.Ledger.Terms)
}

// ActiveRuns lists runs that have not ended, oldest first. It reads the rows that the
// backbone names, at most subagent.MaxOpen, whatever the limit.
func (s *Service) ActiveRuns(ctx context.Context, o subagent.Owner, after string, limit int) (api.RunPage, error) {
	rows, err := s.Control.Active(ctx, o)
	if err != nil {
		return api.RunPage{}, err
	}
	at, id, err := parseCursor(after)
	if err != nil {
		return api.RunPage{}, err
	}
	place := func(r subagent.Run, at subagent.Time, id string) int {
		return cmp.Or(cmp.Compare(r.DispatchedAt, at), strings.Compare(r.ID, id))
	}
	slices.SortFunc(rows, func(a, b subagent.Run) int { return place(a, b.DispatchedAt, b.ID) })
	rows = slices.DeleteFunc(rows, func(r subagent.Run) bool { return place(r, at, id) <= 0 })
	page := api.RunPage{Runs: []api.Run{}}
	shown := rows[:min(limit, len(rows))]
	for _, row := range shown {
		page.Runs = append(page.Runs, s.brief(row))
	}
	if err := s.withCosts(ctx, shown, page.Runs); err != nil {
		return page, err
	}
	if len(rows) > limit {
		last := rows[limit-1]
		page.Next = strconv.FormatInt(int64(last.DispatchedAt), 10) + ":" + last.ID
	}
	return page, nil
}

func parseCursor(after string) (subagent.Time, string, error) {
	if after == "" {
		return 0, "", nil
	}
	at, id, ok := strings.Cut(after, ":")
	n, err := strconv.ParseInt(at, 10, 64)
	if !ok || err != nil {
		return 0, "", atFault("after", fmt.Errorf("%w: after must be the next of the page before", errInvalidParameter))
	}
	return subagent.Time(n), id, nil
}

// AllRuns lists every run that is kept, in the order of ids.
func (s *Service) AllRuns(ctx context.Context, o subagent.Owner, after string, limit int) (api.RunPage, error) {
	page := api.RunPage{Runs: []api.Run{}}
	var shown []subagent.Run
	if after != "" && checkID(after) != nil {
		return page, atFault("after", fmt.Errorf("%w: after must be the next of the page before", errInvalidParameter))
	}
	for {
		// One more than asked for tells whether there is a next page.
		rows, err := s.Ledger.ListRuns(ctx, o, after, limit+1)
		if err != nil {
			return page, err
		}
		for _, row := range rows {
			if len(page.Runs) == limit && row.Status != subagent.Void {
				page.Next = page.Runs[limit-1].ID
				return page, s.withCosts(ctx, shown, page.Runs)
			}
			if after = row.ID; row.Status != subagent.Void {
				shown, page.Runs = append(shown, row), append(page.Runs, s.brief(row))
			}
		}
		if len(rows) <= limit {
			return page, s.withCosts(ctx, shown, page.Runs)
		}
	}
}

// Turn shows one turn. Errors: ErrNotFound.
func (s *Service) Turn(ctx context.Context, o subagent.Owner, id string) (api.Turn, error) {
	t, err := s.Ledger.Turn(ctx, o, id)
	switch {
	case err != nil:
		return api.Turn{}, err
	case t.Status == "":
		return api.Turn{}, fmt.Errorf("%w: turn %s", ErrNotFound, id)
	}
	return s.showTurn(ctx, t)
}

func (s *Service) showTurn(ctx context.Context, t subagent.Turn) (api.Turn, error) {
	var c subagent.Conversation
	var err error
	if !t.Done() {
		if c, err = s.Ledger.Conversation(ctx, t.Owner); err != nil {
			return api.Turn{}, err
		}
	}
	view := viewTurn(t, c)
	if c.Waits(t.ID) {
		if view.Approvals, err = s.approvals(ctx, ledger.LifeOfTurn(t)); err != nil {
			return view, err
		}
	}
	if view.Reply, err = s.Ledger.LoadValue(ctx, t.Owner, t.Reply); err != nil || !t.Done() {
		return view, err
	}
	accounts, err := s.Ledger.Accounts(ctx, ledger.OwnAccount(ledger.LifeOfTurn(t)))
	if err != nil {
		return view, err
	}
	view.Cost = costIfAny(accounts[0])
	return view, nil
}

// pageBytes is when a page of messages or events ends although its limit is not
// reached: Lambda answers with at most 6 MB.
const pageBytes = 3 << 20

// loaders is how many texts of a page are loaded at a time.
const loaders = 8

// Messages shows the transcript after number after. Errors: ErrNotFound.
func (s *Service) Messages(ctx context.Context, o subagent.Owner, after int64, limit int) (api.MessagePage, error) {
	page := api.MessagePage{Messages: []api.Message{}}
	rows, err := s.Ledger.Messages(ctx, o, after, limit+1)
	if err != nil {
		return page, err
	}
	if len(rows) == 0 {
		return page, s.exists(ctx, o)
	}
	n := fits(rows[:min(limit, len(rows))])
	if n < len(rows) {
		page.Next = strconv.FormatInt(rows[n-1].Seq, 10)
	}
	page.Messages, err = s.openMessages(ctx, o, rows[:n])
	return page, err
}

// fits returns how many of the messages make a page: one at least.
func fits(rows []ledger.Message) int {
	size := 0
	for i, m := range rows {
		if size += m.Text.Size; size > pageBytes && i > 0 {
			return i
		}
	}
	return len(rows)
}

func (s *Service) openMessages(ctx context.Context, o subagent.Owner, rows []ledger.Message) ([]api.Message, error) {
	views := make([]api.Message, len(rows))
	load, ctx := errgroup.WithContext(ctx)
	load.SetLimit(loaders)
	for i, m := range rows {
		views[i] = api.Message{
			Seq: m.Seq, ID: m.ID, Role: m.Role, Text: m.Text.Inline, Source: m.Source,
			RunID: m.Run, Milestone: m.Milestone, CreatedAt: timeOf(m.At),
		}
		if m.Text.Size == len(m.Text.Inline) {
			continue
		}
		load.Go(func() (err error) {
			views[i].Text, err = s.Ledger.LoadValue(ctx, o, m.Text)
			return err
		})
	}
	return views, load.Wait()
}
