package importer

import (
	"errors"
	"fmt"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// What can be wrong, for callers that branch on it with errors.Is.
var (
	ErrNoFile         = errors.New("no such file")
	ErrNotAFile       = errors.New("not a regular file")
	ErrUnreadable     = errors.New("the file may not be read")
	ErrEmpty          = errors.New("the file is empty")
	ErrNotCSV         = errors.New("the file is not CSV text")
	ErrQuotes         = errors.New("quotation marks do not pair up")
	ErrRowTooLong     = errors.New("a row is too long")
	ErrTooManyColumns = errors.New("too many columns")
	ErrSourceChanged  = errors.New("the file changed while it was being imported")
	ErrBadTable       = errors.New("bad table name")
	ErrDatabase       = errors.New("the database cannot be used")
	ErrDatabaseBusy   = errors.New("the database is in use")
	ErrDiskFull       = errors.New("the disk is full")
	ErrSuperseded     = errors.New("another import of the same table took over")
	ErrCheckFailed    = errors.New("the table is not what was streamed")
)

// Problem is an error that a person who does not program can act on.
type Problem struct {
	// Kind is one of the sentinels above.
	Kind error
	// Line is where in the file the problem is, counted from 1; 0 if it is in no line.
	Line int
	// Cause is the technical error below, if there is one.
	Cause error

	sentence string
}

// Error returns one sentence without technical detail; that is in Cause.
func (p *Problem) Error() string { return p.sentence }

// Unwrap makes errors.Is and errors.As see both the kind and the cause.
func (p *Problem) Unwrap() []error {
	if p.Cause == nil {
		return []error{p.Kind}
	}
	return []error{p.Kind, p.Cause}
}

func problem(kind error, format string, args ...any) *Problem {
	return &Problem{Kind: kind, sentence: fmt.Sprintf(format, args...)}
}

func (p *Problem) because(cause error) *Problem {
	p.Cause = cause
	return p
}

func (p *Problem) at(line int) *Problem {
	p.Line = line
	return p
}

// databaseProblem puts SQLite's result codes into words. Other errors pass.
func databaseProblem(path string, err error) error {
	if _, ok := errors.AsType[*Problem](err); ok {
		return err
	}
	known, ok := errors.AsType[*sqlite.Error](err)
	if !ok {
		return err
	}
	switch known.Code() & 0xff { // the low byte is the kind, the rest is detail
	case sqlite3.SQLITE_FULL:
		return problem(ErrDiskFull, "there is not enough disk space to store the table in %s", path).because(err)
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return problem(ErrDatabaseBusy, "the database %s is in use by another program", path).because(err)
	case sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT:
		return problem(ErrDatabase, "%s is not a SQLite database, or it is damaged", path).because(err)
	case sqlite3.SQLITE_CANTOPEN:
		return problem(ErrDatabase, "the database %s cannot be opened or created", path).because(err)
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM:
		return problem(ErrDatabase, "the database %s may not be written", path).because(err)
	case sqlite3.SQLITE_IOERR:
		return problem(ErrDatabase, "the disk reported an error while writing %s", path).because(err)
	}
	return err
}
