package importer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// source is the open CSV file and what it looked like when the import began.
type source struct {
	path string
	file *os.File
	info fs.FileInfo
}

func openSource(path string) (*source, error) {
	// Stat comes first: opening a pipe would wait for its writer.
	info, err := os.Stat(path)
	if err != nil {
		return nil, sourceProblem(path, err)
	}
	switch {
	case info.IsDir():
		return nil, problem(ErrNotAFile, "%s is a folder, not a file", path)
	case !info.Mode().IsRegular():
		return nil, problem(ErrNotAFile, "%s is a device or a pipe, not a file", path)
	case info.Size() == 0:
		return nil, problem(ErrEmpty, "the file %s is empty", path)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, sourceProblem(path, err)
	}
	if info, err = file.Stat(); err != nil {
		file.Close()
		return nil, sourceProblem(path, err)
	}
	return &source{path: path, file: file, info: info}, nil
}

func sourceProblem(path string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return problem(ErrNoFile, "there is no file %s", path).because(err)
	case errors.Is(err, fs.ErrPermission):
		return problem(ErrUnreadable, "the file %s may not be read: its permissions forbid it", path).because(err)
	}
	return fmt.Errorf("reading %s: %w", path, err)
}

func (s *source) close() { s.file.Close() }

func (s *source) size() int64 { return s.info.Size() }

// unchanged returns ErrSourceChanged unless the path still names the file that was
// opened, in the size and with the time of change it had, and read bytes is all of it.
func (s *source) unchanged(read int64) error {
	now, err := os.Stat(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return problem(ErrSourceChanged, "the file %s was removed while it was being imported", s.path).because(err)
	}
	if err != nil {
		return sourceProblem(s.path, err)
	}
	if !os.SameFile(now, s.info) || now.Size() != s.size() || read != s.size() || !now.ModTime().Equal(s.info.ModTime()) {
		return problem(ErrSourceChanged, "the file %s changed while it was being imported", s.path)
	}
	return nil
}

// maxRecord bounds the memory that one record can take, in bytes. A file with a
// quotation mark that never closes would otherwise be read into memory whole.
const maxRecord = 16 << 20

// guard reads the file for the CSV reader, which has no limits of its own: it stops
// when ctx ends, and when the record being read grows past maxRecord.
type guard struct {
	ctx context.Context // kept, as a Read has no other way to learn of it
	src *source
	// read counts bytes. The last whole record began at line and ended at byte recordAt.
	read, recordAt int64
	line           int
}

func (g *guard) Read(p []byte) (int, error) {
	if g.ctx.Err() != nil {
		return 0, context.Cause(g.ctx)
	}
	if g.read-g.recordAt > maxRecord {
		return 0, problem(ErrRowTooLong, "the row after the one at line %d is longer than %d MB; perhaps a quotation mark there is never closed",
			g.line, maxRecord>>20).at(g.line + 1)
	}
	n, err := g.src.file.Read(p)
	g.read += int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		err = fmt.Errorf("reading %s: %w", g.src.path, err)
	}
	return n, err
}
