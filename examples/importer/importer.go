// Package importer loads a CSV file of any size into a table of a SQLite file.
//
// It reads the file as a stream, so memory does not grow with its size. The
// column types come from a sample at the start, long before the end; what the
// rest of the file says against them is counted and told, never dropped. Rows go
// into a staging table that takes the target's place in one step after it was
// read back and compared with what was streamed. So an import is all or nothing,
// and one that is repeated, after a crash or twice over, ends in the same table.
//
// Begin with Import. What happens to odd input:
//   - An empty value is NULL, quoted or not. Blank lines are skipped.
//   - A row with too few values is padded with NULL and counted.
//   - A row with too many values, a NUL byte, text that is not UTF-8 or a stray
//     quotation mark goes to the table <Table>_rejected, with its line and the reason.
//   - A value that its column's type does not fit is kept as it is and counted as a
//     conflict. If SQLite would silently turn it into another value there (007 into
//     7), the column becomes TEXT instead, and the file is read a second time.
//   - A line break inside a quoted value is stored as one \n, also if it was \r\n.
package importer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Options says what to import, and whom to tell. Source, Database and Table are
// required.
type Options struct {
	// Source is the path of the CSV file: UTF-8, with a header line, separated by
	// comma, semicolon or tab. It must be a regular file.
	Source string
	// Database is the path of the SQLite file. It is created if it is not there.
	Database string
	// Table is replaced, with its indexes, and so is <Table>_rejected.
	Table string
	// SchemaReady, if set, is called once, after the sample and before the first row is stored.
	SchemaReady func(Schema)
	// Report, if set, is called after each batch of rows. The import waits for it.
	Report func(Progress)
	// Now tells the time, for Result.Duration only; nil means time.Now.
	Now func() time.Time
}

// Import loads o.Source into o.Table and returns what it did. After an error the
// table is what it was before. An error that a caller can branch on is a *Problem:
// one plain sentence, matching one of the sentinels of this package. When ctx ends,
// Import stops between two small steps and returns an error that wraps ctx's cause.
func Import(ctx context.Context, o Options) (Result, error) {
	now := o.Now
	if now == nil {
		now = time.Now
	}
	start := now()
	result, err := importFile(ctx, o)
	if err != nil && ctx.Err() != nil {
		return Result{}, fmt.Errorf("the import was stopped: %w", context.Cause(ctx))
	}
	if err != nil {
		return Result{}, err
	}
	result.Duration = now().Sub(start)
	return result, nil
}

func importFile(ctx context.Context, o Options) (Result, error) {
	if err := checkTable(o.Table); err != nil {
		return Result{}, err
	}
	src, err := openSource(o.Source)
	if err != nil {
		return Result{}, err
	}
	defer src.close()
	schema, err := sample(ctx, src, o.Table)
	if err != nil {
		return Result{}, err
	}
	db, err := openDatabase(o.Database)
	if err != nil {
		return Result{}, err
	}
	defer db.Close()
	if o.SchemaReady != nil {
		o.SchemaReady(schema.clone())
	}
	if o.Report == nil {
		o.Report = func(Progress) {}
	}
	j := &job{src: src, db: db, schema: schema, report: o.Report}
	if err := j.run(ctx); err != nil {
		return Result{}, databaseProblem(o.Database, err)
	}
	return j.result(o), nil
}

// sample reads the start of the file and decides the columns and their types.
func sample(ctx context.Context, src *source, table string) (Schema, error) {
	recs, err := src.records(ctx)
	if err != nil {
		return Schema{}, err
	}
	seen := make([]kinds, len(recs.header))
	schema := Schema{Table: table, Separator: string(recs.separator)}
	for schema.SampledRows < sampleRows && recs.offset() < sampleBytes {
		rec, err := recs.next()
		if errors.Is(err, errEnd) {
			break
		}
		if err != nil {
			return Schema{}, err
		}
		if rec.reject != "" {
			continue
		}
		for i, value := range rec.values {
			seen[i] |= classify(value)
		}
		schema.SampledRows++
	}
	for i, name := range columnNames(recs.header) {
		schema.Columns = append(schema.Columns, Column{Name: name, Type: seen[i].columnType()})
	}
	return schema, nil
}

// The sample is bounded in rows, and in bytes for files with very long rows.
const (
	sampleRows  = 1000
	sampleBytes = 4 << 20
)

// job is one import on its way.
type job struct {
	src    *source
	db     database
	schema Schema
	report func(Progress)

	passes  int
	widened []bool
	out     *tally
}

// run loads the file. A column that must be widened makes the first pass useless:
// its rows were stored under the wrong type. That pass then reads on without
// storing, to find every such column, and so there are never more than two.
func (j *job) run(ctx context.Context) error {
	j.widened = make([]bool, len(j.schema.Columns))
	for {
		j.passes++
		again, err := j.pass(ctx)
		if err != nil || !again {
			return err
		}
		if j.passes == 2 {
			return problem(ErrSourceChanged, "the file %s changed while it was being imported", j.src.path)
		}
		for i, w := range j.widened {
			if w {
				j.schema.Columns[i].Type = Text
			}
		}
	}
}

func (j *job) result(o Options) Result {
	r := Result{
		Source: o.Source, Database: o.Database, Table: o.Table,
		Rows: j.out.rows, Rejected: j.out.rejected.Count, Padded: j.out.padded,
		RejectedLines: j.out.rejected.First, Bytes: j.src.size(), Passes: j.passes,
		Schema: j.schema,
	}
	if r.Rejected > 0 {
		r.RejectedTable = rejectedTable(o.Table)
	}
	for i, col := range j.schema.Columns {
		r.Columns = append(r.Columns, ColumnResult{
			Column: col, Nulls: j.out.sums[i].nulls, Checksum: j.out.sums[i].String(),
			Conflicts: j.out.conflicts[i], Widened: j.widened[i],
		})
	}
	return r
}

func checkTable(name string) error {
	lower := strings.ToLower(name)
	switch {
	case strings.TrimSpace(name) == "":
		return problem(ErrBadTable, "the table to import into has no name")
	case strings.HasPrefix(lower, "sqlite_"), strings.ContainsRune(name, 0):
		return problem(ErrBadTable, "%q cannot be the name of a table", name)
	}
	return nil
}

// clone protects the import from a callback that keeps or changes its schema.
func (s Schema) clone() Schema {
	s.Columns = slices.Clone(s.Columns)
	return s
}

// fraction is part/whole between 0 and 1; nothing of nothing is all.
func fraction(part, whole int64) float64 {
	if whole <= 0 {
		return 1
	}
	return min(1, float64(part)/float64(whole))
}
