package importer_test

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/errand-dev/errand/examples/importer"
)

// write puts a CSV file into a folder of the test and returns its path.
func write(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "in.csv")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// options imports source into table t of a new database.
func options(t *testing.T, source string) importer.Options {
	t.Helper()
	return importer.Options{Source: source, Database: filepath.Join(t.TempDir(), "out.db"), Table: "t"}
}

func mustImport(t *testing.T, o importer.Options) importer.Result {
	t.Helper()
	result, err := importer.Import(t.Context(), o)
	if err != nil {
		t.Fatalf("Import: %v", err)
	}
	return result
}

func open(t *testing.T, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// query returns the rows as one line each: every value with its storage class, as
// SQLite's own quote() writes it.
func query(t *testing.T, path, table string, columns ...string) []string {
	t.Helper()
	var exprs []string
	for _, c := range columns {
		exprs = append(exprs, `quote("`+strings.ReplaceAll(c, `"`, `""`)+`")`)
	}
	rows, err := open(t, path).Query("SELECT " + strings.Join(exprs, " || '|' || ") + ` FROM "` + table + `" ORDER BY rowid`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var got []string
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			t.Fatal(err)
		}
		got = append(got, line)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return got
}

func names(r importer.Result) []string {
	var got []string
	for _, c := range r.Columns {
		got = append(got, c.Name)
	}
	return got
}

func types(s importer.Schema) []importer.Type {
	var got []importer.Type
	for _, c := range s.Columns {
		got = append(got, c.Type)
	}
	return got
}

// tables lists every table of the database.
func tables(t *testing.T, path string) []string {
	t.Helper()
	rows, err := open(t, path).Query("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var got []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			t.Fatal(err)
		}
		got = append(got, name)
	}
	return got
}

func equal(t *testing.T, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestAFileIsStoredAsItsDialectMeansIt(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		csv     string
		columns []string
		rows    []string
	}{
		"commas separate": {"a,b\n1,x\n", []string{"a", "b"}, []string{"1|'x'"}},
		"semicolons separate when the header has more": {"a;\"b,c\";d\n1,5;2;3\n", []string{"a", "b,c", "d"}, []string{"'1,5'|2|3"}},
		"tabs separate":                                   {"a\tb\n1\tx,y\n", []string{"a", "b"}, []string{"1|'x,y'"}},
		"a separator in quotes does not count":            {"a;\"b,c,d\"\n1;2\n", []string{"a", "b,c,d"}, []string{"1|2"}},
		"a line break in quotes does not end the header":  {"\"a\nb\";c\n1;2\n", []string{"a\nb", "c"}, []string{"1|2"}},
		"a single column needs no separator":              {"a\n1\n2\n", []string{"a"}, []string{"1", "2"}},
		"a UTF-8 mark is not part of the first name":      {"\ufeffa,b\n1,2\n", []string{"a", "b"}, []string{"1|2"}},
		"a mark before a quoted name is skipped too":      {"\ufeff\"a\",b\n1,2\n", []string{"a", "b"}, []string{"1|2"}},
		"line ends may be CRLF":                           {"a,b\r\n1,2\r\n3,4\r\n", []string{"a", "b"}, []string{"1|2", "3|4"}},
		"the last line may lack its end":                  {"a,b\n1,2", []string{"a", "b"}, []string{"1|2"}},
		"blank lines are skipped":                         {"\n\na,b\n\n1,2\n\n", []string{"a", "b"}, []string{"1|2"}},
		"quotes hold separators, quotes and line breaks":  {"a,b\n\"x,\"\"y\"\"\",\"1\n2\"\n", []string{"a", "b"}, []string{"'x,\"y\"'|'1\n2'"}},
		"a header name may hold a line break":             {"\"a\nb\",c\n1,2\n", []string{"a\nb", "c"}, []string{"1|2"}},
		"an empty value is NULL, quoted or not":           {"a,b,c\n,\"\",x\n", []string{"a", "b", "c"}, []string{"NULL|NULL|'x'"}},
		"equal names get numbers, also across case":       {"a,A,a,a_2\n1,2,3,4\n", []string{"a", "A_3", "a_4", "a_2"}, []string{"1|2|3|4"}},
		"an empty name becomes its position":              {"a,, ,column_2\n1,2,3,4\n", []string{"a", "column_2_2", "column_3", "column_2"}, []string{"1|2|3|4"}},
		"a name may be a quotation mark or a keyword":     {"\"\"\"\",select\n1,2\n", []string{`"`, "select"}, []string{"1|2"}},
		"a file with only a header is a table of no rows": {"a,b\n", []string{"a", "b"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := options(t, write(t, tc.csv))
			result := mustImport(t, o)
			equal(t, "names", names(result), tc.columns)
			equal(t, "rows", query(t, o.Database, "t", tc.columns...), tc.rows)
			equal(t, "Result.Rows", result.Rows, int64(len(tc.rows)))
		})
	}
}

func TestTheRealAirportsImportExactly(t *testing.T) {
	t.Parallel()
	o := options(t, "testdata/airports.csv")
	var early importer.Schema
	o.SchemaReady = func(s importer.Schema) { early = s }
	result := mustImport(t, o)
	equal(t, "early types", types(early), []importer.Type{"TEXT", "TEXT", "TEXT", "TEXT", "TEXT", "REAL", "REAL"})
	equal(t, "final types", types(result.Schema), types(early))
	equal(t, "rows", result.Rows, int64(3376))
	equal(t, "rejected", result.Rejected, int64(0))
	equal(t, "bytes", result.Bytes, int64(210365))
	got := query(t, o.Database, "t", "iata", "name", "city", "latitude")
	for _, want := range []string{`'DBN'|'W. H. "Bud" Barron'|'Dublin'|32.56445806`, `'0E0'|'Moriarty'|'Moriarty'|34.98560639`} {
		if !contains(got, want) {
			t.Errorf("no row %s", want)
		}
	}
}

func contains(lines []string, want string) bool {
	for _, l := range lines {
		if l == want {
			return true
		}
	}
	return false
}

func TestAnImportStopsWithTheCauseOfItsContext(t *testing.T) {
	t.Parallel()
	o := options(t, generated(t, 20_000))
	cause := errors.New("the user changed their mind")
	ctx, cancel := context.WithCancelCause(t.Context())
	reports := 0
	o.Report = func(importer.Progress) {
		reports++
		cancel(cause)
	}
	_, err := importer.Import(ctx, o)
	if !errors.Is(err, cause) {
		t.Errorf("Import = %v, want the cause", err)
	}
	equal(t, "reports", reports, 1)
	equal(t, "tables left", tables(t, o.Database), []string(nil))
}

func TestAnImportStopsAlsoWhileItOnlyLooksForColumnsToWiden(t *testing.T) {
	t.Parallel()
	row := "1," + strings.Repeat("x", 500) + "\n"
	o := options(t, write(t, "a,b\n"+strings.Repeat(row, 1500)+"007,y\n"+strings.Repeat(row, 20_000)))
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	reports := 0
	o.Report = func(p importer.Progress) {
		if p.Rows > 1600 {
			reports++
			cancel(cause)
		}
	}
	if _, err := importer.Import(ctx, o); !errors.Is(err, cause) {
		t.Errorf("Import = %v, want the cause", err)
	}
	equal(t, "reports", reports, 1)
	equal(t, "tables left", tables(t, o.Database), []string(nil))
}

// generated writes rows rows of Generate to a file.
func generated(t testing.TB, rows int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "generated.csv")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := importer.Generate(f, rows, 1); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestDurationComesFromTheGivenClock(t *testing.T) {
	t.Parallel()
	o := options(t, write(t, "a\n1\n"))
	now := time.Unix(0, 0)
	o.Now = func() time.Time {
		now = now.Add(time.Minute)
		return now
	}
	equal(t, "duration", mustImport(t, o).Duration, time.Minute)
}

func BenchmarkImport80000Rows(b *testing.B) {
	source := generated(b, 80_000)
	for b.Loop() {
		_, err := importer.Import(b.Context(), importer.Options{Source: source, Database: filepath.Join(b.TempDir(), "out.db"), Table: "t"})
		if err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(80_000*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}
