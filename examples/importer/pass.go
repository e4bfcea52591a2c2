package importer

import (
	"context"
	"errors"
	"time"
)

// batchRows is how many rows share a transaction and a report.
const batchRows = 1000

// tally is what one pass over the file counted.
type tally struct {
	rows      int64
	padded    Lines
	rejected  Lines
	conflicts []Lines
	sums      []checksum
}

func newTally(columns int) *tally {
	return &tally{conflicts: make([]Lines, columns), sums: make([]checksum, columns)}
}

// pass reads the whole file once and, if all goes well, replaces the target. It
// reports true if a column must be widened and the file read again; nothing of this
// pass is left in the database then, nor after an error.
func (j *job) pass(ctx context.Context) (again bool, err error) {
	recs, err := j.src.records(ctx)
	if err != nil {
		return false, err
	}
	st, err := j.db.newStaging(ctx, j.schema)
	if err != nil {
		return false, err
	}
	defer func() {
		if err != nil {
			err = j.abandon(ctx, st, err)
		}
	}()
	j.out = newTally(len(j.schema.Columns))
	if again, err = j.load(ctx, recs, st); err != nil {
		return false, err
	}
	if err := j.src.unchanged(recs.offset()); err != nil || again {
		return again, err
	}
	if err := j.check(ctx, st); err != nil {
		return false, err
	}
	return false, st.replace(ctx, j.out.rejected.Count)
}

// load streams the rows into the staging table, up to the first one that needs a
// wider column. From there on it only looks for more such columns.
func (j *job) load(ctx context.Context, recs *records, st *staging) (widen bool, err error) {
	values := make([]any, len(j.schema.Columns))
	for n := 1; ; n++ {
		rec, err := recs.next()
		if errors.Is(err, errEnd) {
			break
		}
		if err != nil {
			return false, err
		}
		if n%batchRows == 0 {
			if err := st.commit(); err != nil {
				return false, err
			}
			j.reportLoading(recs)
		}
		if rec.reject == "" && !j.convert(rec, values) && !widen {
			widen = true
			if err := st.discard(ctx); err != nil {
				return false, err
			}
		}
		if err := j.keep(ctx, st, rec, values, !widen); err != nil {
			return false, err
		}
	}
	if err := st.commit(); err != nil {
		return false, err
	}
	j.reportLoading(recs)
	return widen, nil
}

// convert fills values with what the row's values are stored as. It reports false if
// a column must be widened.
func (j *job) convert(rec record, values []any) bool {
	ok := true
	for i, s := range rec.values {
		v, f := stored(j.schema.Columns[i].Type, s)
		values[i] = v
		switch f {
		case conflicts:
			j.out.conflicts[i].add(rec.line)
		case widens:
			j.widened[i] = true
			ok = false
		}
	}
	return ok
}

// keep counts one row, and stores it if store is true.
func (j *job) keep(ctx context.Context, st *staging, rec record, values []any, store bool) error {
	if rec.reject != "" {
		j.out.rejected.add(rec.line)
		if store {
			return st.reject(ctx, rec)
		}
		return nil
	}
	j.out.rows++
	if rec.padded {
		j.out.padded.add(rec.line)
	}
	if !store {
		return nil
	}
	for i, v := range values {
		j.out.sums[i].add(v)
	}
	return st.add(ctx, values)
}

func (j *job) reportLoading(recs *records) {
	size := j.src.size()
	j.report(Progress{
		Stage: Loading, Pass: j.passes, Rows: j.out.rows, Rejected: j.out.rejected.Count,
		Bytes: recs.offset(), Size: size, Fraction: fraction(recs.offset(), size),
	})
}

// cleanupTime bounds the dropping of a staging table after ctx has ended.
const cleanupTime = 10 * time.Second

// abandon drops the staging tables and says why the pass failed. If another import
// dropped them first, that is the reason, whatever SQLite made of it.
func (j *job) abandon(ctx context.Context, st *staging, cause error) error {
	cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTime)
	defer cancel()
	st.rollback()
	if st.dropped {
		return cause
	}
	there, err := st.exists(cleanup)
	if err == nil && !there && ctx.Err() == nil {
		return problem(ErrSuperseded, "another import of the table %s took over", j.schema.Table).because(cause)
	}
	// A failure here adds nothing to the cause: the next import drops what is left.
	_ = st.discard(cleanup)
	return cause
}
