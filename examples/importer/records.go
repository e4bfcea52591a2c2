package importer

import (
	"bufio"
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// headSize is how much of the file is looked at to tell the dialect, in bytes.
const headSize = 64 << 10

// errEnd is returned by next after the last record.
var errEnd = errors.New("end of file")

// records reads the rows of a source from its start.
type records struct {
	header    []string
	separator rune

	csv   *csv.Reader
	guard *guard
	mark  int64 // length of the UTF-8 mark, which the CSV reader does not see
}

// record is one row. Its values are reused by the next call of next, not their bytes.
type record struct {
	line   int
	values []string // as many as the header has, unless rejected
	padded bool
	reject string // the reason, if the row cannot be stored
}

// records begins at the start of the file and reads the header.
func (s *source) records(ctx context.Context) (*records, error) {
	if _, err := s.file.Seek(0, io.SeekStart); err != nil {
		return nil, sourceProblem(s.path, err)
	}
	r := &records{guard: &guard{ctx: ctx, src: s}}
	buffered := bufio.NewReaderSize(r.guard, headSize)
	head, err := buffered.Peek(headSize)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if bytes.HasPrefix(head, utf8Mark) {
		r.mark = int64(len(utf8Mark))
		head = head[len(utf8Mark):]
	}
	if err := checkText(s.path, head); err != nil {
		return nil, err
	}
	r.separator = separator(head)
	if _, err := buffered.Discard(int(r.mark)); err != nil {
		return nil, sourceProblem(s.path, err)
	}
	r.csv = csv.NewReader(buffered)
	r.csv.Comma = r.separator
	r.csv.FieldsPerRecord = -1
	r.csv.ReuseRecord = true
	if err := r.readHeader(); err != nil {
		return nil, err
	}
	return r, nil
}

func (r *records) readHeader() error {
	header, err := r.csv.Read()
	if errors.Is(err, csv.ErrBareQuote) {
		return problem(ErrQuotes, "the header has a quotation mark in the middle of a name").at(1).because(err)
	}
	if err != nil {
		return r.failed(err)
	}
	if len(header) > maxColumns {
		return problem(ErrTooManyColumns, "the header has %d columns; a table can have %d", len(header), maxColumns).at(1)
	}
	r.header = slices.Clone(header)
	r.done()
	return nil
}

// offset is how many bytes of the file have been used.
func (r *records) offset() int64 { return r.mark + r.csv.InputOffset() }

func (r *records) done() {
	r.guard.recordAt = r.offset()
	r.guard.line, _ = r.csv.FieldPos(0)
}

// next returns the next row, or errEnd.
func (r *records) next() (record, error) {
	values, err := r.csv.Read()
	if wrong, ok := errors.AsType[*csv.ParseError](err); ok && errors.Is(err, csv.ErrBareQuote) {
		// The reader is past the line and knows where the next one begins.
		r.guard.recordAt, r.guard.line = r.offset(), wrong.Line
		return record{line: wrong.StartLine, reject: "a quotation mark stands in the middle of a value"}, nil
	}
	if err != nil {
		return record{}, r.failed(err)
	}
	r.done()
	rec := record{line: r.guard.line, values: values, reject: unstorable(values)}
	if extra := len(values) - len(r.header); extra > 0 {
		rec.reject = fmt.Sprintf("the row has %d values, the header has %d", len(values), len(r.header))
	} else if extra < 0 && rec.reject == "" {
		rec.padded = true
		for range -extra {
			rec.values = append(rec.values, "")
		}
	}
	return rec, nil
}

func unstorable(values []string) string {
	for _, v := range values {
		if !utf8.ValidString(v) {
			return "a value is not UTF-8 text"
		}
		if strings.IndexByte(v, 0) >= 0 {
			return "a value has a NUL byte"
		}
	}
	return ""
}

// failed turns an error of the CSV reader into ours. A quoted value gone wrong ends
// the import: nobody can say how many rows it swallowed.
func (r *records) failed(err error) error {
	if errors.Is(err, io.EOF) {
		return errEnd
	}
	if wrong, ok := errors.AsType[*csv.ParseError](err); ok {
		where := fmt.Sprintf("the row at line %d", wrong.StartLine)
		if wrong.Line != wrong.StartLine {
			where += fmt.Sprintf(" (noticed at line %d)", wrong.Line)
		}
		return problem(ErrQuotes, "the quotation marks do not pair up in %s", where).at(wrong.StartLine).because(err)
	}
	return err
}
