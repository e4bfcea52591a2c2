package cli

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	importagent "github.com/errand-dev/errand/examples/importer/subagent"
	"github.com/errand-dev/errand/shared/delivery"
	"github.com/errand-dev/errand/shared/ledger"
	"github.com/errand-dev/errand/shared/subagent"
)

// report sums up what the rows of the ledger say.
func (p *play) report(ctx context.Context, dir string) (*demoReport, error) {
	runs, err := p.stack.Ledger.ListRuns(ctx, p.owner, "", 0)
	if err != nil {
		return nil, err
	}
	messages, err := p.stack.Ledger.Messages(ctx, p.owner, 0, 0)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(runs, func(a, b subagent.Run) int { return cmp.Compare(a.DispatchedAt, b.DispatchedAt) })
	report := &demoReport{Data: dir, Meanwhile: []demoAnswer{}, Imports: []demoImport{}}
	for _, r := range runs {
		i, err := p.imported(ctx, r, messages)
		if err != nil {
			return nil, err
		}
		report.Imports = append(report.Imports, i)
	}
	return report, p.answers(ctx, report, runs, messages)
}

// imported tells of one run.
func (p *play) imported(ctx context.Context, r subagent.Run, messages []ledger.Message) (demoImport, error) {
	i := demoImport{
		Run: r.ID, Source: r.Notice.Source, Status: r.Status, Problem: r.Problem,
		Executions: r.Exec.Epoch, RunMS: int64(r.EndedAt - r.StartedAt),
	}
	for _, m := range messages {
		if m.ID == delivery.MessageID(r.ID, r.Status) {
			i.Told++
			i.NoticeMS = int64(m.At - r.EndedAt)
		}
	}
	if r.Status != subagent.Completed {
		return i, nil
	}
	output, err := p.stack.Ledger.LoadValue(ctx, p.owner, r.Output)
	if err != nil {
		return i, err
	}
	var out importagent.Output
	if err := json.Unmarshal([]byte(output), &out); err != nil {
		return i, fmt.Errorf("decoding the output of run %s: %w", r.ID, err)
	}
	i.Database, i.Table, i.Rows = out.Database, out.Table, out.Rows
	i.Sample, err = sampleOf(ctx, out.Database, out.Table)
	return i, err
}

// answers times the user's turns: the first one, and those during an import.
func (p *play) answers(ctx context.Context, report *demoReport, runs []subagent.Run, messages []ledger.Message) error {
	question := ""
	for _, m := range messages {
		if m.Run != "" {
			continue
		}
		told, err := p.message(ctx, m)
		if err != nil {
			return err
		}
		switch {
		case m.Role == "user":
			question = told.Text
		case m.Seq == 2:
			report.DispatchMS = *told.AnswerMS
			if report.WaitedMS, err = p.waited(ctx, m.Turn); err != nil {
				return err
			}
		case during(m.At, runs):
			report.Meanwhile = append(report.Meanwhile, demoAnswer{question, *told.AnswerMS})
		}
	}
	return nil
}

// waited adds up how long no process held the turn: from where it began to wait to where it
// was taken up again.
func (p *play) waited(ctx context.Context, turn string) (ms int64, err error) {
	const page = 1000
	var since subagent.Time
	for after := int64(0); ; {
		events, err := p.stack.Ledger.Events(ctx, p.owner, after, page)
		if err != nil || len(events) == 0 {
			return ms, err
		}
		for _, e := range events {
			after = e.Seq
			switch {
			case e.Turn != turn:
			case e.Type == "turn.waiting":
				since = e.At
			case e.Type == "turn.started" && since != 0:
				ms, since = ms+int64(e.At-since), 0
			}
		}
	}
}

func during(at subagent.Time, runs []subagent.Run) bool {
	for _, r := range runs {
		if at >= r.DispatchedAt && at <= r.EndedAt {
			return true
		}
	}
	return false
}

const (
	sampleRows    = 3
	sampleColumns = 6
)

// sampleOf returns the names of the first columns and the first rows of a table.
func sampleOf(ctx context.Context, database, table string) ([][]string, error) {
	db, err := sql.Open("sqlite", database)
	if err != nil {
		return nil, fmt.Errorf("opening the imported database: %w", err)
	}
	defer db.Close()
	rows, err := db.QueryContext(ctx, `SELECT * FROM "`+strings.ReplaceAll(table, `"`, `""`)+`" LIMIT ?`, sampleRows)
	if err != nil {
		return nil, fmt.Errorf("reading the imported table: %w", err)
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		return nil, fmt.Errorf("reading the imported table: %w", err)
	}
	sample := [][]string{names[:min(sampleColumns, len(names))]}
	for rows.Next() {
		values := make([]sql.NullString, len(names))
		into := make([]any, len(names))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			return nil, fmt.Errorf("reading the imported table: %w", err)
		}
		cells := make([]string, len(sample[0]))
		for i := range cells {
			cells[i] = clipped(values[i].String)
		}
		sample = append(sample, cells)
	}
	return sample, rows.Err()
}

// clipped makes a value fit for a cell of the screen.
func clipped(s string) string {
	const widest = 24
	runes := []rune(strings.Join(strings.Fields(s), " "))
	if len(runes) > widest {
		return string(runes[:widest-1]) + "…"
	}
	return string(runes)
}
