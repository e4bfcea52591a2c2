package importer_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/errand-dev/errand/examples/importer"
)

func TestShortRowsArePaddedAndCounted(t *testing.T) {
	t.Parallel()
	o := options(t, write(t, "a,b,c\n1,2,3\n4\n5,6\n"))
	result := mustImport(t, o)
	equal(t, "padded", result.Padded, importer.Lines{Count: 2, First: []int{3, 4}})
	equal(t, "rows", query(t, o.Database, "t", "a", "b", "c"), []string{"1|2|3", "4|NULL|NULL", "5|6|NULL"})
	equal(t, "no rejected table", result.RejectedTable, "")
}

func TestRowsThatCannotBeStoredAreKeptAside(t *testing.T) {
	t.Parallel()
	csv := "a,b\n1,2\n\"x\ny\",2,\"3,\"\n4,b\x00\n5,\"\xe9\"\n6,5\" pipe\n7,8\n"
	o := options(t, write(t, csv+strings.Repeat("1,2\n", 100)))
	result := mustImport(t, o)
	equal(t, "rejected", result.Rejected, int64(4))
	equal(t, "lines", result.RejectedLines, []int{3, 5, 6, 7})
	equal(t, "rows", result.Rows, int64(102))
	equal(t, "rejected rows", query(t, o.Database, result.RejectedTable, "line", "reason", "row"), []string{
		`3|'the row has 3 values, the header has 2'|'["x\ny","2","3,"]'`,
		`5|'a value has a NUL byte'|'["4","b\u0000"]'`,
		`6|'a value is not UTF-8 text'|'["5","\ufffd"]'`,
		`7|'a quotation mark stands in the middle of a value'|NULL`,
	})
}

func TestACleanImportRemovesTheRejectedRowsOfTheOneBefore(t *testing.T) {
	t.Parallel()
	o := options(t, write(t, "a\n1,2\n"))
	mustImport(t, o)
	equal(t, "tables", tables(t, o.Database), []string{"t", "t_rejected"})
	o.Source = write(t, "a\n1\n")
	mustImport(t, o)
	equal(t, "tables", tables(t, o.Database), []string{"t"})
}

func TestOnlyTheFirstTenLineNumbersAreKept(t *testing.T) {
	t.Parallel()
	result := mustImport(t, options(t, write(t, "a,b\n"+strings.Repeat("1\n", 50)+strings.Repeat("1,2,3\n", 50))))
	equal(t, "padded", result.Padded, importer.Lines{Count: 50, First: []int{2, 3, 4, 5, 6, 7, 8, 9, 10, 11}})
	equal(t, "rejected", len(result.RejectedLines), 10)
}

// after returns a file whose sample is all sample values and whose last row is late.
func after(t *testing.T, sample, late string) string {
	t.Helper()
	return write(t, "n,v\n"+strings.Repeat("1,"+sample+"\n", 1500)+"2,"+late+"\n")
}

func TestALateValueThatContradictsItsColumn(t *testing.T) {
	t.Parallel()
	const line = 1502
	for name, tc := range map[string]struct {
		sample, late string
		first, final importer.Type
		conflict     bool
		stored       string
	}{
		"text among integers is kept and counted":      {"7", "N/A", "INTEGER", "INTEGER", true, "'N/A'"},
		"a fraction among integers is kept":            {"7", "2.5", "INTEGER", "INTEGER", true, "2.5"},
		"a whole fraction among integers is equal":     {"7", "2.0", "INTEGER", "INTEGER", true, "2"},
		"true among integers is text":                  {"7", "true", "INTEGER", "INTEGER", true, "'true'"},
		"a date among integers is text":                {"7", "2024-05-31", "INTEGER", "INTEGER", true, "'2024-05-31'"},
		"the largest integer is one":                   {"7", "9223372036854775807", "INTEGER", "INTEGER", false, "9223372036854775807"},
		"a leading zero makes a code, so TEXT":         {"7", "007", "INTEGER", "TEXT", false, "'007'"},
		"a plus sign makes TEXT":                       {"7", "+7", "INTEGER", "TEXT", false, "'+7'"},
		"a space would be lost, so TEXT":               {"7", " 7", "INTEGER", "TEXT", false, "' 7'"},
		"an exponent without sign is a code":           {"7", "2E5", "INTEGER", "TEXT", false, "'2E5'"},
		"an integer over 64 bits makes TEXT":           {"7", "9223372036854775808", "INTEGER", "TEXT", false, "'9223372036854775808'"},
		"infinity is text to SQLite":                   {"7", "inf", "INTEGER", "INTEGER", true, "'inf'"},
		"an integer among reals is a real":             {"0.5", "7", "REAL", "REAL", false, "7.0"},
		"text among reals is kept and counted":         {"0.5", "n/a", "REAL", "REAL", true, "'n/a'"},
		"a small real as Python prints it":             {"0.5", "1e-05", "REAL", "REAL", false, "1.0e-05"},
		"an integer that no real holds makes TEXT":     {"0.5", "9007199254740993", "REAL", "TEXT", false, "'9007199254740993'"},
		"a real out of range makes TEXT":               {"0.5", "1e+999", "REAL", "TEXT", false, "'1e+999'"},
		"minus zero is zero":                           {"0.5", "-0.0", "REAL", "REAL", false, "0.0"},
		"another word among booleans is kept":          {"true", "maybe", "BOOLEAN", "BOOLEAN", true, "'maybe'"},
		"False is false":                               {"true", "False", "BOOLEAN", "BOOLEAN", false, "0"},
		"a number among booleans makes TEXT":           {"true", "2", "BOOLEAN", "TEXT", false, "'2'"},
		"a day that does not exist is no date":         {"2024-02-29", "2023-02-29", "DATE", "DATE", true, "'2023-02-29'"},
		"a time among dates is kept and counted":       {"2024-02-29", "2024-02-29T10:00:00Z", "DATE", "DATE", true, "'2024-02-29T10:00:00Z'"},
		"a year among dates makes TEXT":                {"2024-02-29", "2024", "DATE", "TEXT", false, "'2024'"},
		"a date among times fits":                      {"2024-02-29 10:00", "2024-03-01", "TIMESTAMP", "TIMESTAMP", false, "'2024-03-01'"},
		"a time with fraction and zone fits":           {"2024-02-29 10:00", "2024-03-01T00:00:00.123+02:00", "TIMESTAMP", "TIMESTAMP", false, "'2024-03-01T00:00:00.123+02:00'"},
		"anything fits a column of text":               {"abc", "007", "TEXT", "TEXT", false, "'007'"},
		"anything fits a column empty in the sample":   {"", "007", "TEXT", "TEXT", false, "'007'"},
		"nothing contradicts nothing: empty is no fit": {"7", "", "INTEGER", "INTEGER", false, "NULL"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := options(t, after(t, tc.sample, tc.late))
			var first importer.Schema
			o.SchemaReady = func(s importer.Schema) { first = s }
			result := mustImport(t, o)
			v := result.Columns[1]
			equal(t, "type at first", first.Columns[1].Type, tc.first)
			equal(t, "type at last", v.Type, tc.final)
			equal(t, "widened", v.Widened, tc.first != tc.final)
			want := importer.Lines{}
			if tc.conflict {
				want = importer.Lines{Count: 1, First: []int{line}}
			}
			equal(t, "conflicts", v.Conflicts, want)
			rows := query(t, o.Database, "t", "v")
			equal(t, "rows", len(rows), 1501)
			equal(t, "the late value", rows[len(rows)-1], tc.stored)
		})
	}
}

func TestWideningKeepsEveryValueAsItWasWritten(t *testing.T) {
	t.Parallel()
	o := options(t, write(t, "a,b,c\n"+strings.Repeat("1.50,10,x\n", 1500)+"1.50,007,y\n"+"0007,10,z,extra\n"+"00.5,10,w\n"))
	passes := map[int]bool{}
	o.Report = func(p importer.Progress) { passes[p.Pass] = true }
	result := mustImport(t, o)
	equal(t, "passes", result.Passes, 2)
	equal(t, "reported passes", passes, map[int]bool{1: true, 2: true})
	equal(t, "types", types(result.Schema), []importer.Type{"TEXT", "TEXT", "TEXT"})
	rows := query(t, o.Database, "t", "a", "b", "c")
	equal(t, "first row", rows[0], "'1.50'|'10'|'x'")
	equal(t, "last rows", rows[1500:], []string{"'1.50'|'007'|'y'", "'00.5'|'10'|'w'"})
	equal(t, "rejected", result.Rejected, int64(1))
	equal(t, "tables", tables(t, o.Database), []string{"t", "t_rejected"})
}

func TestTheSampleDecidesTheType(t *testing.T) {
	t.Parallel()
	for values, want := range map[string]importer.Type{
		"1,2,-3": "INTEGER", "0,1": "INTEGER", "1,": "INTEGER", "9007199254740993": "INTEGER",
		"1,2.5": "REAL", ".5,-.5,5.": "REAL", "1e-05,2": "REAL", "1.5E3": "REAL",
		"1,9007199254740993,0.5": "TEXT", "01,02": "TEXT", "1E5,2E5": "TEXT", "1,x": "TEXT", ",": "TEXT",
		"-,.,-.": "TEXT", "1.2.3": "TEXT", "0x10": "TEXT", "1_000": "TEXT", "NaN": "TEXT", "-0": "TEXT", "1-2": "TEXT",
		"true,FALSE": "BOOLEAN", "true,1": "TEXT", "yes,no": "TEXT",
		"2024-02-29": "DATE", "2024-02-30": "TEXT", "31/12/2024": "TEXT", "2024-1-1": "TEXT",
		"2024-02-29,2024-02-29T01:02": "TIMESTAMP", "2024-02-29 01:02:03.5Z": "TIMESTAMP", "2024-02-29T25:00": "TEXT",
		"2024,2024-02-29": "TEXT",
	} {
		t.Run(fmt.Sprintf("%s is %s", values, want), func(t *testing.T) {
			t.Parallel()
			o := options(t, write(t, "k,v\n1,"+strings.ReplaceAll(values, ",", "\n1,")+"\n"))
			var early importer.Schema
			o.SchemaReady = func(s importer.Schema) { early = s }
			result := mustImport(t, o)
			equal(t, "type", early.Columns[1].Type, want)
			equal(t, "passes", result.Passes, 1)
		})
	}
}

func TestARepeatedImportGivesTheSameTable(t *testing.T) {
	t.Parallel()
	o := options(t, generated(t, 5_000))
	first := mustImport(t, o)
	second := mustImport(t, o)
	first.Duration, second.Duration = 0, 0
	equal(t, "result", second, first)
	equal(t, "rows in the table", len(query(t, o.Database, "t", "id")), 5_000)
	equal(t, "tables", tables(t, o.Database), []string{"t"})
}

func TestWhatACrashLeftIsClearedAway(t *testing.T) {
	t.Parallel()
	o := options(t, write(t, "a\n1\n"))
	for _, table := range []string{"t__importing_0123", "t__importing_0123_rejected", "t2__importing_0123", "tx"} {
		if _, err := open(t, o.Database).Exec(`CREATE TABLE "` + table + `" (a)`); err != nil {
			t.Fatal(err)
		}
	}
	mustImport(t, o)
	equal(t, "tables", tables(t, o.Database), []string{"t", "t2__importing_0123", "tx"})
}

func TestTheGeneratedFileIsCleanAndAlwaysTheSame(t *testing.T) {
	t.Parallel()
	var a, b, c strings.Builder
	for w, seed := range map[*strings.Builder]uint64{&a: 1, &b: 1, &c: 2} {
		if err := importer.Generate(w, 300, seed); err != nil {
			t.Fatal(err)
		}
	}
	if a.String() != b.String() || a.String() == c.String() {
		t.Error("the seed alone must decide the bytes")
	}
	for _, has := range []string{`""`, ",\"", "Zoë", "\nthen", "🔩"} {
		if !strings.Contains(a.String(), has) {
			t.Errorf("the file has no %q", has)
		}
	}
	result := mustImport(t, options(t, write(t, a.String())))
	equal(t, "rows", result.Rows, int64(300))
	equal(t, "spoiled", result.Conflicts()+result.Rejected+result.Padded.Count, int64(0))
	equal(t, "types", types(result.Schema), []importer.Type{
		"INTEGER", "TEXT", "TEXT", "TEXT", "TEXT", "DATE", "TIMESTAMP", "BOOLEAN", "INTEGER", "REAL", "TEXT"})
}

func TestProgressRisesToTheWholeFile(t *testing.T) {
	t.Parallel()
	o := options(t, generated(t, 10_500))
	var seen []importer.Progress
	schemaAfter := -1
	o.SchemaReady = func(importer.Schema) { schemaAfter = len(seen) }
	o.Report = func(p importer.Progress) { seen = append(seen, p) }
	mustImport(t, o)
	equal(t, "reports before the schema", schemaAfter, 0)
	if len(seen) < 10 || len(seen) > 15 {
		t.Errorf("%d reports for 10,500 rows: want about one per thousand", len(seen))
	}
	var loaded importer.Progress
	for i, p := range seen {
		if i > 0 && p.Stage == seen[i-1].Stage && p.Fraction < seen[i-1].Fraction {
			t.Errorf("progress falls from %v to %v", seen[i-1], p)
		}
		if p.Stage == importer.Loading {
			loaded = p
		}
	}
	equal(t, "end of loading", loaded, importer.Progress{
		Stage: importer.Loading, Pass: 1, Rows: 10_500, Bytes: loaded.Size, Size: loaded.Size, Fraction: 1})
	last := seen[len(seen)-1]
	equal(t, "end of checking", []any{last.Stage, last.Rows, last.Fraction}, []any{importer.Checking, int64(10_500), 1.0})
}
