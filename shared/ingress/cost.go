package ingress

import (
	"context"
	"net/http"
	"slices"

	"github.com/errand-dev/errand/shared/api"
	"github.com/errand-dev/errand/shared/ledger"
	"github.com/errand-dev/errand/shared/subagent"
)

func getCost(h *handler, c *call) error {
	id, err := c.pathID("run")
	if err != nil {
		return err
	}
	cost, err := h.RunCost(c.r.Context(), c.owner, id)
	if err != nil {
		return err
	}
	h.ok(c, http.StatusOK, cost)
	return nil
}

// RunCost shows what a run and all below it have cost. The tree of a run with a limit has
// an account; any other is summed over the accounts of its runs, which are looked for among
// all of the conversation. Errors: agent.ErrNoRun.
func (s *Service) RunCost(ctx context.Context, o subagent.Owner, id string) (api.RunCost, error) {
	row, err := s.Control.Run(ctx, o, id)
	if err != nil {
		return api.RunCost{}, err
	}
	life := ledger.LifeOf(row)
	accounts, err := s.Ledger.Accounts(ctx, ledger.OwnAccount(life), ledger.TreeAccount(life))
	if err != nil {
		return api.RunCost{}, err
	}
	own, tree := accounts[0], accounts[1]
	if !row.Status.Live() {
		own = own.Closed()
	}
	view := api.RunCost{RunID: id, Own: viewCost(own)}
	if limit := row.Limit().Plus(tree.Raised); limit.Any() {
		view.MaxTokens, view.MaxUSD = limit.Tokens, limit.Cost
		view.Reserved = viewSpend(tree.Reserved())
	} else if tree, err = s.sumTree(ctx, row, own); err != nil {
		return view, err
	}
	view.Tree = viewCost(tree)
	return view, nil
}

// treePage is how many rows are read at a time to find those below a run.
const treePage = 500

// sumTree adds the accounts of all runs below the run to its own.
func (s *Service) sumTree(ctx context.Context, top subagent.Run, sum subagent.Account) (subagent.Account, error) {
	after := ""
	for {
		rows, err := s.Ledger.ListRuns(ctx, top.Owner, after, treePage)
		if err != nil {
			return sum, err
		}
		below := slices.DeleteFunc(slices.Clone(rows), func(r subagent.Run) bool { return !slices.Contains(r.Lineage(), top.ID) })
		accounts, err := s.accounts(ctx, below)
		if err != nil {
			return sum, err
		}
		for _, a := range accounts {
			sum.Spent, sum.AfterFence = sum.Spent.Plus(a.Spent), sum.AfterFence.Plus(a.AfterFence)
		}
		if len(rows) < treePage {
			return sum, nil
		}
		after = rows[len(rows)-1].ID
	}
}

// accounts reads the runs' own accounts; one that has not started has none.
func (s *Service) accounts(ctx context.Context, rows []subagent.Run) ([]subagent.Account, error) {
	var of []ledger.AccountOf
	for _, r := range rows {
		if r.StartedAt != 0 {
			of = append(of, ledger.OwnAccount(ledger.LifeOf(r)))
		}
	}
	read, err := s.Ledger.Accounts(ctx, of...)
	if err != nil {
		return nil, err
	}
	accounts := make([]subagent.Account, len(rows))
	for i, r := range rows {
		if r.StartedAt != 0 {
			accounts[i], read = read[0], read[1:]
		}
		if !r.Status.Live() {
			accounts[i] = accounts[i].Closed()
		}
	}
	return accounts, nil
}

// withCosts adds to the views of runs what their model calls have cost.
func (s *Service) withCosts(ctx context.Context, rows []subagent.Run, views []api.Run) error {
	accounts, err := s.accounts(ctx, rows)
	if err != nil {
		return err
	}
	for i, a := range accounts {
		views[i].Cost = costIfAny(a)
	}
	return nil
}

// costIfAny is nil for whoever has not asked a model.
func costIfAny(a subagent.Account) *api.Cost {
	if a.Spent == (subagent.Spend{}) {
		return nil
	}
	cost := viewCost(a)
	return &cost
}

func viewCost(a subagent.Account) api.Cost {
	s := a.Spent
	view := api.Cost{
		ModelCalls: s.Calls, InputTokens: s.Prompt(), OutputTokens: s.Output, CacheReadTokens: s.CacheRead, CacheWriteTokens: s.CacheWrite,
		UnpricedCalls: s.Unpriced, UncertainCalls: s.Uncertain, AfterFence: viewSpend(a.AfterFence),
	}
	if s.Unpriced == 0 {
		view.USD = &s.Cost
	}
	return view
}

func viewSpend(s subagent.Spend) *api.Spend {
	if s == (subagent.Spend{}) {
		return nil
	}
	view := api.Spend{ModelCalls: s.Calls, InputTokens: s.Prompt(), OutputTokens: s.Output}
	if s.Unpriced == 0 {
		view.USD = &s.Cost
	}
	return &view
}
