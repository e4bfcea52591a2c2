package importer

import (
	"context"
	"fmt"
	"math"
	"strings"
)

// checksum runs over the values of one column in their order: FNV-1a with a mark of
// the type before each value. It is the same on every machine.
type checksum struct {
	nulls int64
	hash  uint64
}

const (
	fnvOffset = 14695981039346656037
	fnvPrime  = 1099511628211
)

func (c *checksum) byte(b byte) { c.hash = (c.hash ^ uint64(b)) * fnvPrime }

func (c *checksum) word(w uint64) {
	for range 8 {
		c.byte(byte(w))
		w >>= 8
	}
}

// add takes a value as SQLite holds it: nil, int64, float64 or string.
func (c *checksum) add(v any) {
	if c.hash == 0 {
		c.hash = fnvOffset
	}
	switch v := v.(type) {
	case nil:
		c.nulls++
		c.byte(0)
	case int64:
		c.byte(1)
		c.word(uint64(v))
	case float64:
		c.byte(2)
		c.word(math.Float64bits(v))
	case string:
		c.byte(3)
		for i := range len(v) {
			c.byte(v[i])
		}
		c.word(uint64(len(v))) // or "ab","c" would equal "a","bc"
	default:
		c.byte(4)
	}
}

func (c checksum) String() string { return fmt.Sprintf("%016x", c.hash) }

// check reads the staging tables back and compares them with what was streamed:
// the rows, the rejected rows, and for each column its NULLs and its checksum.
func (j *job) check(ctx context.Context, st *staging) error {
	got := newTally(len(j.schema.Columns))
	if err := st.each(ctx, func(values []any) {
		for i, v := range values {
			got.sums[i].add(v)
		}
		if got.rows++; got.rows%(10*batchRows) == 0 {
			j.reportChecking(got.rows)
		}
	}); err != nil {
		return err
	}
	j.reportChecking(got.rows)
	rejected, err := st.rejected(ctx)
	if err != nil {
		return err
	}
	if got.rows != j.out.rows || rejected != j.out.rejected.Count {
		return problem(ErrCheckFailed, "%d rows and %d rejected rows were read, but the database has %d and %d",
			j.out.rows, j.out.rejected.Count, got.rows, rejected)
	}
	for i, c := range j.schema.Columns {
		if got.sums[i] != j.out.sums[i] {
			return problem(ErrCheckFailed, "column %s is not in the database as it was read from the file", c.Name)
		}
	}
	return nil
}

func (j *job) reportChecking(rows int64) {
	size := j.src.size()
	j.report(Progress{
		Stage: Checking, Pass: j.passes, Rows: rows, Rejected: j.out.rejected.Count,
		Bytes: size, Size: size, Fraction: fraction(rows, j.out.rows),
	})
}

// each calls fn with every stored row in its order. values is reused.
func (s *staging) each(ctx context.Context, fn func(values []any)) error {
	columns := make([]string, len(s.schema.Columns))
	values := make([]any, len(columns))
	targets := make([]any, len(columns))
	for i, c := range s.schema.Columns {
		// The plus changes nothing but hides the declared type, for which the driver
		// would turn dates and booleans into Go's own types.
		columns[i] = "+" + quote(c.Name)
		targets[i] = &values[i]
	}
	rows, err := s.db.QueryContext(ctx, "SELECT "+strings.Join(columns, ", ")+" FROM "+quote(s.name)+" ORDER BY rowid")
	if err != nil {
		return fmt.Errorf("reading the table back: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := rows.Scan(targets...); err != nil {
			return fmt.Errorf("reading the table back: %w", err)
		}
		fn(values)
	}
	return rows.Err()
}

func (s *staging) rejected(ctx context.Context) (n int64, err error) {
	err = s.db.QueryRowContext(ctx, "SELECT count(*) FROM "+quote(rejectedTable(s.name))).Scan(&n)
	return n, err
}
