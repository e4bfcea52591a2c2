package importer_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/errand-dev/errand/examples/importer"
)

func TestAFileThatCannotBeImportedIsExplained(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		csv      string
		kind     error
		line     int
		sentence string // after the path is cut out
	}{
		"an empty file":                     {"", importer.ErrEmpty, 0, "the file PATH is empty"},
		"a file of a UTF-8 mark only":       {"\ufeff", importer.ErrEmpty, 0, "the file PATH is empty"},
		"a file of blank lines":             {"\n \r\n", importer.ErrEmpty, 0, "the file PATH is empty"},
		"an image":                          {"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x02", importer.ErrNotCSV, 0, "PATH is not a text file"},
		"a text with a NUL in its header":   {"a,b\x00\n" + strings.Repeat("1,2\n", 500), importer.ErrNotCSV, 0, "PATH is not a text file"},
		"a UTF-16 file":                     {"\xff\xfea\x00,\x00b\x00\n\x00", importer.ErrNotCSV, 0, "PATH is saved as UTF-16; save it as CSV in UTF-8"},
		"a Latin-1 header":                  {"stra\xdfe,b\n1,2\n", importer.ErrNotCSV, 0, "the header of PATH is not UTF-8; save the file as CSV in UTF-8"},
		"a file with the line ends of Macs": {"a,b\r1,2\r3,4\r", importer.ErrNotCSV, 0, "PATH has the line ends of old Macs; save it as CSV again"},
		"a quotation mark that never closes": {
			"a,b\n1,2\n3,\"x\n4,y\n", importer.ErrQuotes, 3, "the quotation marks do not pair up in the row at line 3 (noticed at line 4)"},
		"text after a closing quotation mark": {
			"a,b\n1,\"x\"y\n3,4\n", importer.ErrQuotes, 2, "the quotation marks do not pair up in the row at line 2"},
		"a header with a stray quotation mark": {
			"a,b\"c\n1,2\n", importer.ErrQuotes, 1, "the header has a quotation mark in the middle of a name"},
		"a header that never closes": {"a,\"b\n1,2\n", importer.ErrQuotes, 1, "the quotation marks do not pair up in the row at line 1 (noticed at line 2)"},
		"a row longer than memory should hold": {
			"a,b\n1,2\n3,\"" + strings.Repeat("x", 17<<20), importer.ErrRowTooLong, 3,
			"the row after the one at line 2 is longer than 16 MB; perhaps a quotation mark there is never closed"},
		"more columns than SQLite can have": {
			strings.Repeat("c,", 2000) + "c\n", importer.ErrTooManyColumns, 1, "the header has 2001 columns; a table can have 2000"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := options(t, write(t, tc.csv))
			_, err := importer.Import(t.Context(), o)
			wantProblem(t, err, tc.kind, tc.line, strings.ReplaceAll(tc.sentence, "PATH", o.Source))
		})
	}
}

func wantProblem(t *testing.T, err, kind error, line int, sentence string) {
	t.Helper()
	var p *importer.Problem
	if !errors.As(err, &p) || !errors.Is(err, kind) {
		t.Fatalf("Import = %v (%T), want a *Problem of kind %q", err, err, kind)
	}
	equal(t, "line", p.Line, line)
	equal(t, "sentence", p.Error(), sentence)
}

func TestTwoThousandColumnsStillFit(t *testing.T) {
	t.Parallel()
	o := options(t, write(t, strings.TrimSuffix(strings.Repeat("c,", 2000), ",")+"\n"+strings.TrimSuffix(strings.Repeat("1,", 2000), ",")+"\n"))
	equal(t, "rows", mustImport(t, o).Rows, int64(1))
}

func TestAPathThatIsNoFileIsExplained(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, tc := range map[string]struct {
		path     string
		kind     error
		sentence string
	}{
		"a missing file": {filepath.Join(dir, "none.csv"), importer.ErrNoFile, "there is no file " + filepath.Join(dir, "none.csv")},
		"a folder":       {dir, importer.ErrNotAFile, dir + " is a folder, not a file"},
		"a device":       {os.DevNull, importer.ErrNotAFile, os.DevNull + " is a device or a pipe, not a file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := importer.Import(t.Context(), options(t, tc.path))
			wantProblem(t, err, tc.kind, 0, tc.sentence)
		})
	}
}

func TestAFileWithoutPermissionIsExplained(t *testing.T) {
	t.Parallel()
	if os.Getuid() == 0 {
		t.Skip("root may read every file; TestEveryErrorOfTheFileSystemHasASentence covers the words")
	}
	o := options(t, write(t, "a\n1\n"))
	if err := os.Chmod(o.Source, 0); err != nil {
		t.Fatal(err)
	}
	_, err := importer.Import(t.Context(), o)
	wantProblem(t, err, importer.ErrUnreadable, 0, "the file "+o.Source+" may not be read: its permissions forbid it")
}

func TestABadDatabaseOrTableIsExplained(t *testing.T) {
	t.Parallel()
	text := write(t, strings.Repeat("this is no database. ", 100))
	nowhere := filepath.Join(t.TempDir(), "no", "folder.db")
	for name, tc := range map[string]struct {
		database, table string
		kind            error
		sentence        string
	}{
		"a text file as database":     {text, "t", importer.ErrDatabase, text + " is not a SQLite database, or it is damaged"},
		"a database in no folder":     {nowhere, "t", importer.ErrDatabase, "the database " + nowhere + " cannot be opened or created"},
		"no database":                 {"", "t", importer.ErrDatabase, "no database to import into was named"},
		"no table":                    {"x.db", " ", importer.ErrBadTable, "the table to import into has no name"},
		"a name that SQLite reserves": {"x.db", "SQLite_x", importer.ErrBadTable, `"SQLite_x" cannot be the name of a table`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := importer.Options{Source: write(t, "a\n1\n"), Database: tc.database, Table: tc.table}
			_, err := importer.Import(t.Context(), o)
			wantProblem(t, err, tc.kind, 0, tc.sentence)
		})
	}
}

func TestOddNamesOfTableAndDatabaseWork(t *testing.T) {
	t.Parallel()
	o := importer.Options{
		Source:   write(t, "a\n1\n"),
		Database: filepath.Join(t.TempDir(), "what? 100%25 #1;.db"),
		Table:    `a "quoted" table; --`,
	}
	mustImport(t, o)
	if _, err := os.Stat(o.Database); err != nil {
		t.Error(err)
	}
	copied := filepath.Join(t.TempDir(), "plain.db")
	content, err := os.ReadFile(o.Database)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(copied, content, 0o600); err != nil {
		t.Fatal(err)
	}
	equal(t, "tables", tables(t, copied), []string{o.Table})
}

func TestTheLaterOfTwoImportsOfOneTableWins(t *testing.T) {
	t.Parallel()
	first := options(t, write(t, "a\n"+strings.Repeat("1\n", 5000)))
	second := first
	second.Source = write(t, "a\n2\n")
	first.Report = func(p importer.Progress) {
		if p.Rows < 2000 {
			if _, err := importer.Import(context.WithoutCancel(t.Context()), second); err != nil {
				t.Errorf("second import: %v", err)
			}
		}
	}
	_, err := importer.Import(t.Context(), first)
	wantProblem(t, err, importer.ErrSuperseded, 0, "another import of the table t took over")
	equal(t, "rows", query(t, first.Database, "t", "a"), []string{"2"})
	equal(t, "tables", tables(t, first.Database), []string{"t"})
}

func TestTwoImportsOfOneTableDoNotMixTheirRows(t *testing.T) {
	t.Parallel()
	first := options(t, write(t, "a\n"+strings.Repeat("1\n", 5000)))
	second := first
	second.Source = write(t, "a\n"+strings.Repeat("2\n", 1500))
	secondIsHalfWay, firstHasEnded := make(chan struct{}), make(chan struct{})
	second.Report = func(p importer.Progress) {
		if p.Stage == importer.Loading && p.Rows < 1500 {
			close(secondIsHalfWay)
			<-firstHasEnded
		}
	}
	secondErr := make(chan error, 1)
	first.Report = func(p importer.Progress) {
		if p.Rows < 1500 {
			go func() {
				_, err := importer.Import(context.WithoutCancel(t.Context()), second)
				secondErr <- err
			}()
			<-secondIsHalfWay
		}
	}
	_, err := importer.Import(t.Context(), first)
	close(firstHasEnded)
	wantProblem(t, err, importer.ErrSuperseded, 0, "another import of the table t took over")
	if err := <-secondErr; err != nil {
		t.Errorf("second import: %v", err)
	}
	equal(t, "rows", len(query(t, first.Database, "t", "a")), 1500)
}

func TestAnImportWhoseContextHasEndedDoesNothing(t *testing.T) {
	t.Parallel()
	o := options(t, write(t, "a\n1\n"))
	cause := errors.New("too late")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	if _, err := importer.Import(ctx, o); !errors.Is(err, cause) {
		t.Errorf("Import = %v, want the cause", err)
	}
	if _, err := os.Stat(o.Database); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the database was touched: %v", err)
	}
}

func TestAFailedImportLeavesTheOldTable(t *testing.T) {
	t.Parallel()
	o := options(t, write(t, "a,b\n1,2\n"))
	mustImport(t, o)
	o.Source = write(t, "a,b\n"+strings.Repeat("3,4\n", 3000)+"5,\"x\n")
	if _, err := importer.Import(t.Context(), o); !errors.Is(err, importer.ErrQuotes) {
		t.Fatalf("Import = %v, want ErrQuotes", err)
	}
	equal(t, "rows", query(t, o.Database, "t", "a", "b"), []string{"1|2"})
	equal(t, "tables", tables(t, o.Database), []string{"t"})
}

func ExampleImport() {
	dir, err := os.MkdirTemp("", "importer")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	result, err := importer.Import(context.Background(), importer.Options{
		Source:      "testdata/airports.csv",
		Database:    filepath.Join(dir, "demo.db"),
		Table:       "airports",
		SchemaReady: func(s importer.Schema) { fmt.Println(len(s.Columns), "columns, the last one", s.Columns[6]) },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(result.Rows, "rows,", result.Rejected, "rejected")
	// Output:
	// 7 columns, the last one {longitude REAL}
	// 3376 rows, 0 rejected
}
