package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/control"
	"github.com/errand-dev/errand/shared/ledger"
	"github.com/errand-dev/errand/shared/subagent"
)

// lookAgain is how long follow waits at most before it looks at the rows again.
const lookAgain = time.Second

// follow tells how the work goes until it has ended.
func (p *project) follow(ctx context.Context, yes bool, show func(event)) error {
	told := map[string]bool{}
	for {
		changed, unwatch, _ := p.stack.Ledger.WatchEvents(p.owner)
		done, err := p.look(ctx, yes, told, show)
		if done || err != nil {
			unwatch()
			return err
		}
		again := time.NewTimer(lookAgain)
		select {
		case <-changed:
		case <-again.C:
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		again.Stop()
		unwatch()
		if err != nil {
			return err
		}
	}
}

// look tells what is new.
func (p *project) look(ctx context.Context, yes bool, told map[string]bool, show func(event)) (done bool, err error) {
	row, err := p.stack.Ledger.Run(ctx, p.owner, p.run)
	if err != nil {
		return false, err
	}
	runs, err := p.readers(ctx)
	if err != nil {
		return false, err
	}
	for _, r := range runs {
		if r.Status.Live() || told[r.ID] {
			continue
		}
		o, err := p.outcomeOf(ctx, r)
		if err != nil {
			return false, err
		}
		told[r.ID] = true
		show(event{Type: eventSource, Source: o.Source, Status: r.Status, Claims: len(o.Claims), Refused: len(o.Refused), Reason: o.Reason})
	}
	if !row.Status.Live() {
		return true, p.conclude(ctx, row, runs, show)
	}
	return false, p.answer(ctx, row, yes, show)
}

// answer approves that an older report is replaced, if --yes was given or none is there.
func (p *project) answer(ctx context.Context, row subagent.Run, yes bool, show func(event)) error {
	open, err := p.stack.Ledger.Unanswered(ctx, ledger.LifeOf(row))
	if err != nil || len(open) == 0 {
		return err
	}
	if _, err := os.Stat(p.report); err == nil && !yes {
		return fmt.Errorf("%s is there already; the same command with --yes replaces it, with another --out it stays; nothing is read again", p.report)
	}
	for _, q := range open {
		show(event{Type: eventApproved, Title: q.Title})
		who := control.Asker{Owner: p.owner, Run: p.run}
		if err := p.stack.Service.Control.Decide(ctx, who, q.Name, agent.Decision{Approved: true}); err != nil {
			return err
		}
	}
	return nil
}

// conclude stops readers that nobody waits for any more, and tells the end and what it has cost.
func (p *project) conclude(ctx context.Context, row subagent.Run, runs []subagent.Run, show func(event)) error {
	for _, r := range runs {
		if !r.Status.Live() {
			continue
		}
		if _, err := p.stack.Service.Control.Cancel(ctx, p.owner, r.ID, "nobody waits for it any more"); err != nil {
			return err
		}
	}
	cost, err := p.stack.Service.RunCost(ctx, p.owner, p.run)
	if err != nil {
		return err
	}
	failure := p.failure(row)
	if failure == nil {
		show(event{Type: eventReport, Report: p.report, Summary: row.Summary})
	}
	show(event{Type: eventCost, Cost: &cost.Tree})
	return failure
}

// failure is why there is no report.
func (p *project) failure(row subagent.Run) error {
	if row.Status != subagent.Completed {
		return fmt.Errorf("the researcher ended as %s: %s", row.Status, row.Problem)
	}
	if _, err := os.Stat(p.copyOfReport()); err != nil {
		return errors.New("the researcher has ended without a report; it says: " + row.Summary)
	}
	return nil
}
