// Package audit looks at the rows of a conversation for what the protocols promise never to
// be, or never for long: places without runs and runs without places, ends that nobody was
// told of, leases that lapsed long ago, a backbone whose tick does not come, one thing told
// twice. Findings judges rows and decides nothing; Auditor reads them, and sends the wakes
// that mend what a lost message has left behind. Neither writes a row.
package audit

import (
	"context"
	"slices"

	"github.com/errand-dev/errand/shared/ledger"
	"github.com/errand-dev/errand/shared/reconcile"
	"github.com/errand-dev/errand/shared/subagent"
)

// Auditor audits conversations.
type Auditor struct {
	Ledger *ledger.Ledger
}

// Report is what an audit found, and how many rows it looked at.
type Report struct {
	Findings              []Finding
	Runs, Turns, Messages int
}

// Audit reads every row of the conversation. If it finds anything it reads them once more,
// and reports what is still there: what only looked like damage, because another was
// writing, is gone by then.
func (a *Auditor) Audit(ctx context.Context, o subagent.Owner) (Report, error) {
	report, _, err := a.look(ctx, o)
	if err != nil || len(report.Findings) == 0 {
		return report, err
	}
	again, _, err := a.look(ctx, o)
	if err != nil {
		return report, err
	}
	again.Findings = slices.DeleteFunc(again.Findings, func(f Finding) bool {
		return !slices.ContainsFunc(report.Findings, f.same)
	})
	return again, nil
}

// same reports whether both are about the same thing; how long ago it was may differ.
func (f Finding) same(other Finding) bool {
	f.Problem, other.Problem = "", ""
	return f == other
}

// Sent is what a repair has sent.
type Sent struct {
	// Tick is the number of the tick, zero if the backbone is not armed.
	Tick int64
	// Turn was woken, if it is not empty.
	Turn string
	// Timers is how many schedules were sent theirs.
	Timers int
}

// Repair sends a tick of the conversation's backbone, if that is armed, wakes the turn that
// stands still, if one does, and sends schedules the timers that they have lost. It writes nothing: what is sent is a hint, and one too
// many costs a message.
func (a *Auditor) Repair(ctx context.Context, o subagent.Owner) (sent Sent, err error) {
	report, rows, err := a.look(ctx, o)
	if err != nil {
		return sent, err
	}
	ticker := reconcile.Reconciler{Ledger: a.Ledger}
	if err := ticker.Repair(ctx, o); err != nil {
		return sent, err
	}
	if rows.Backbone.Armed {
		sent.Tick = rows.Backbone.Epoch
	}
	for _, f := range report.Findings {
		if f.Kind != StuckTurn {
			continue
		}
		stuck := slices.IndexFunc(rows.Turns, func(t subagent.Turn) bool { return t.ID == f.Turn })
		if stuck < 0 {
			continue // it holds the place, and has no row: whoever comes next evicts it
		}
		if err := a.Ledger.SendTurn(ctx, rows.Turns[stuck], "repair-"+a.Ledger.Nonce()); err != nil {
			return sent, err
		}
		sent.Turn = f.Turn
	}
	for _, s := range rows.Schedules {
		if !s.Lost(a.Ledger.Now()) {
			continue
		}
		if err := a.Ledger.SendTimer(ctx, o, s.Timer(), 0); err != nil {
			return sent, err
		}
		sent.Timers++
	}
	return sent, nil
}

// page is how many rows are read at once.
const page = 1000

func (a *Auditor) look(ctx context.Context, o subagent.Owner) (report Report, rows Rows, err error) {
	// The backbone first: what takes a place later is too young to be judged.
	if rows.Backbone, err = a.Ledger.Backbone(ctx, o); err != nil {
		return report, rows, err
	}
	if rows.Conversation, err = a.Ledger.Conversation(ctx, o); err != nil {
		return report, rows, err
	}
	if rows.Controls, err = a.Ledger.Controls(ctx); err != nil {
		return report, rows, err
	}
	rows.Runs, err = all(func(last subagent.Run) ([]subagent.Run, error) { return a.Ledger.ListRuns(ctx, o, last.ID, page) })
	if err != nil {
		return report, rows, err
	}
	rows.Turns, err = all(func(last subagent.Turn) ([]subagent.Turn, error) { return a.Ledger.ListTurns(ctx, o, last.ID, page) })
	if err != nil {
		return report, rows, err
	}
	rows.Messages, err = all(func(last ledger.Message) ([]ledger.Message, error) { return a.Ledger.Messages(ctx, o, last.Seq, page) })
	if err != nil {
		return report, rows, err
	}
	if rows.Schedules, err = a.Ledger.Schedules(ctx, o); err != nil {
		return report, rows, err
	}
	report.Findings = Findings(rows, a.Ledger.Now(), a.Ledger.Terms)
	report.Turns, report.Messages = len(rows.Turns), len(rows.Messages)
	for _, r := range rows.Runs {
		if r.Status != subagent.Void {
			report.Runs++
		}
	}
	return report, rows, nil
}

// all reads pages until one is not full; next gets the last row of the page before.
func all[T any](next func(last T) ([]T, error)) (rows []T, err error) {
	var last T
	for {
		read, err := next(last)
		if err != nil {
			return nil, err
		}
		rows = append(rows, read...)
		if len(read) < page {
			return rows, nil
		}
		last = read[len(read)-1]
	}
}
