// Package importagent turns package importer into a background subagent, and adds a
// scripted conversation agent that sends it on its way. It is the example to copy
// from: Task shows how a task reads its input, tells of its progress, reaches a
// milestone and ends; Chat shows how a conversation dispatches it, waits for that milestone
// and hears of the end.
package importagent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"
	"unicode"

	"github.com/errand-dev/errand/examples/importer"
	"github.com/errand-dev/errand/shared/agent"
)

// Names under which Register adds the task and the chat, and the milestone of the task.
const (
	Name        = "importer"
	ChatName    = "import-chat"
	SchemaReady = "schema-ready"
)

// Options of the task.
type Options struct {
	// Root, if set, is the only folder that the task reads and writes in: relative paths
	// begin there, and a path that leads out of it, also through a symbolic link, is
	// refused. Without it the task reads and writes whatever the process may, so set it
	// on every server.
	Root string
	// Folder is where the database of an import goes whose input names none, as
	// <table>.sqlite: one file per table, so that imports do not wait for each other.
	// Empty means Root or, without one, the working folder.
	Folder string
}

// Input says what to import.
type Input struct {
	// Source is the path of the CSV file.
	Source string `json:"source"`
	// Database is the path of the SQLite file; it is in Options.Folder if empty.
	Database string `json:"database,omitempty"`
	// Table is replaced; it is named after the file if empty.
	Table string `json:"table,omitempty"`
}

// Output is the run's output. Its String is the run's summary.
type Output struct {
	importer.Result
	DurationMS int64 `json:"duration_ms"`
}

// String tells the import in one sentence.
func (o Output) String() string {
	text := fmt.Sprintf("Imported %s into the table %s of %s (%s)", count(o.Rows, "row"), o.Table, o.Database, count(int64(len(o.Columns)), "column"))
	if o.Rejected == 0 {
		return text + "; no row was rejected."
	}
	return fmt.Sprintf("%s; %s rejected, see the table %s.", text, wereOf(o.Rejected), o.RejectedTable)
}

// Schema is the data of the milestone schema-ready: names and types.
type Schema struct {
	Source  string            `json:"source"`
	Table   string            `json:"table"`
	Columns []importer.Column `json:"columns"`
	// Count is the number of columns. A table with very many is told only in part.
	Count int `json:"column_count"`
}

// Task returns the subagent. Executed again after a crash it imports again from the
// start: the importer puts the new table in the old one's place at the very end, so
// the result is the same however often that happens.
func Task(o Options) agent.Task {
	return func(ctx context.Context, run *agent.Run) (any, error) {
		var in Input
		if err := run.Input(&in); err != nil {
			return nil, err
		}
		if in.Source == "" {
			return nil, errors.New("the input names no file; give its path as \"source\"")
		}
		in.Table = cmp.Or(in.Table, tableName(in.Source))
		in.Database = cmp.Or(in.Database, filepath.Join(o.Folder, in.Table+".sqlite"))
		name := filepath.Base(in.Source)
		if err := o.confine(&in); err != nil {
			return nil, err
		}
		return load(ctx, run, in, name)
	}
}

// load imports the file and tells how it goes.
func load(ctx context.Context, run *agent.Run, in Input, name string) (any, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	result, err := importer.Import(ctx, importer.Options{
		Source: in.Source, Database: in.Database, Table: in.Table,
		SchemaReady: func(s importer.Schema) {
			// A milestone that cannot be kept stops the import; it is tried again later.
			if err := run.Milestone(ctx, SchemaReady, milestone(name, s)); err != nil {
				stop(agent.Retryable(err))
			}
		},
		Report: func(p importer.Progress) {
			// A report that is refused ends ctx if it must; one that is lost costs nothing.
			_ = run.Progress(ctx, progress(name, p))
		},
	})
	if errors.Is(err, importer.ErrDatabaseBusy) {
		return nil, agent.Retryable(err)
	}
	if err != nil {
		return nil, err
	}
	return Output{Result: result, DurationMS: result.Duration.Round(time.Millisecond).Milliseconds()}, nil
}

// loadingShare is how much of an import's time goes into loading; the rest is the check.
const loadingShare = 0.85

func progress(name string, p importer.Progress) agent.Progress {
	fraction := p.Fraction * loadingShare
	phase := string(p.Stage)
	switch {
	case p.Stage == importer.Checking:
		fraction = loadingShare + p.Fraction*(1-loadingShare)
	case p.Pass > 1:
		phase += " again"
	}
	// All of an importer.Progress encodes.
	data, _ := json.Marshal(p)
	return agent.Progress{Fraction: &fraction, Phase: phase, Message: count(p.Rows, "row") + " of " + name, Data: data}
}

// maxSchema keeps the data of the milestone, in bytes, well below what a milestone may carry.
const maxSchema = 32 << 10

func milestone(name string, s importer.Schema) Schema {
	told := Schema{Source: name, Table: s.Table, Columns: s.Columns, Count: len(s.Columns)}
	size := 0
	for i, c := range s.Columns {
		// Escaped, a character takes at most six bytes.
		if size += 6*len(c.Name) + 40; size > maxSchema {
			told.Columns = s.Columns[:i]
			break
		}
	}
	return told
}

// tableName makes a name that needs no quoting in most tools.
func tableName(source string) string {
	base := filepath.Base(source)
	name := strings.Map(func(r rune) rune {
		if r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) {
			return r
		}
		return '_'
	}, strings.TrimSuffix(base, filepath.Ext(base)))
	if name == "" || unicode.IsDigit([]rune(name)[0]) || strings.HasPrefix(strings.ToLower(name), "sqlite_") {
		return "t_" + name
	}
	return name
}
