package importer

import "time"

// Schema is the table as the sample suggests it, and in a Result as it became.
type Schema struct {
	Table string `json:"table"`
	// Separator is ",", ";" or a tab.
	Separator   string   `json:"separator"`
	SampledRows int      `json:"sampled_rows"`
	Columns     []Column `json:"columns"`
}

// Column is one column of the table. An empty header is named column_N, and a name
// that occurs again gets a number.
type Column struct {
	Name string `json:"name"`
	Type Type   `json:"type"`
}

// Stage is what an import is doing.
type Stage string

// The stages, in their order. Loading begins again if a column has to be widened.
const (
	Loading  Stage = "loading"
	Checking Stage = "checking"
)

// Progress is how far an import has come.
type Progress struct {
	Stage Stage `json:"stage"`
	// Pass is 1, or 2 when the file is read again for a widened column.
	Pass int `json:"pass"`
	// Rows counts the rows stored (Loading) or compared (Checking) so far; a pass that
	// only looks for columns to widen counts the rows it read.
	Rows     int64 `json:"rows"`
	Rejected int64 `json:"rejected"`
	// Bytes is how much of the file was read, of Size.
	Bytes int64 `json:"bytes"`
	Size  int64 `json:"size"`
	// Fraction is how much of this stage and pass is done, from 0 to 1: by bytes while
	// loading, by rows while checking.
	Fraction float64 `json:"fraction"`
}

// Result is what a finished import did.
type Result struct {
	Source   string `json:"source"`
	Database string `json:"database"`
	Table    string `json:"table"`
	// RejectedTable is empty if no row was rejected; there is no such table then.
	RejectedTable string `json:"rejected_table,omitempty"`

	// Rows is how many rows the table has. Rejected rows are not among them.
	Rows     int64 `json:"rows"`
	Rejected int64 `json:"rejected"`
	// RejectedLines are the line numbers of the first rejected rows, at most ten.
	RejectedLines []int `json:"rejected_lines,omitempty"`
	// Padded tells of the rows that had too few values.
	Padded Lines `json:"padded"`

	Bytes    int64         `json:"bytes"`
	Passes   int           `json:"passes"`
	Duration time.Duration `json:"duration_ns"`

	Schema  Schema         `json:"schema"`
	Columns []ColumnResult `json:"columns"`
}

// Conflicts is how many values of all columns do not fit their column's type.
func (r Result) Conflicts() int64 {
	var n int64
	for _, c := range r.Columns {
		n += c.Conflicts.Count
	}
	return n
}

// ColumnResult is what became of one column.
type ColumnResult struct {
	Column
	Nulls int64 `json:"nulls"`
	// Conflicts are values that were kept though the column's type does not fit them.
	Conflicts Lines `json:"conflicts"`
	// Widened says that the sample suggested another type than the TEXT it became.
	Widened bool `json:"widened,omitempty"`
	// Checksum is over all stored values in their order, equal for equal columns.
	Checksum string `json:"checksum"`
}

// Lines counts rows of the file and keeps the line numbers of the first ten.
type Lines struct {
	Count int64 `json:"count"`
	First []int `json:"first,omitempty"`
}

func (l *Lines) add(line int) {
	l.Count++
	if len(l.First) < 10 {
		l.First = append(l.First, line)
	}
}
