package importer

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// prepare returns a job that is ready to run.
func prepare(t *testing.T, csv string) *job {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "in.csv")
	if err := os.WriteFile(path, []byte(csv), 0o600); err != nil {
		t.Fatal(err)
	}
	src, err := openSource(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(src.close)
	schema, err := sample(t.Context(), src, "t")
	if err != nil {
		t.Fatal(err)
	}
	db, err := openDatabase(filepath.Join(dir, "out.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return &job{src: src, db: db, schema: schema, report: func(Progress) {}}
}

func TestAFullDiskIsExplainedAndLeavesNothing(t *testing.T) {
	t.Parallel()
	j := prepare(t, "a\n"+strings.Repeat(strings.Repeat("x", 1000)+"\n", 5000))
	// SQLite reports the same for a full database as for a full disk.
	if _, err := j.db.Exec("PRAGMA max_page_count = 300"); err != nil {
		t.Fatal(err)
	}
	err := databaseProblem("out.db", j.run(t.Context()))
	if !errors.Is(err, ErrDiskFull) || err.Error() != "there is not enough disk space to store the table in out.db" {
		t.Errorf("run = %v, want ErrDiskFull in a plain sentence", err)
	}
	wantTables(t, j.db, 0)
}

func wantTables(t *testing.T, db database, want int) {
	t.Helper()
	var n int
	if err := db.QueryRow("SELECT count(*) FROM sqlite_master").Scan(&n); err != nil {
		t.Fatal(err)
	}
	if n != want {
		t.Errorf("the database has %d tables, want %d", n, want)
	}
}

func TestALockedDatabaseIsExplained(t *testing.T) {
	t.Parallel()
	j := prepare(t, "a\n1\n")
	if _, err := j.db.Exec("PRAGMA busy_timeout = 1"); err != nil {
		t.Fatal(err)
	}
	var path string
	if err := j.db.QueryRow("SELECT file FROM pragma_database_list").Scan(&path); err != nil {
		t.Fatal(err)
	}
	other, err := openDatabase(path)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	tx, err := other.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if err := databaseProblem("out.db", j.run(t.Context())); !errors.Is(err, ErrDatabaseBusy) {
		t.Errorf("run = %v, want ErrDatabaseBusy", err)
	}
}

func TestATableThatIsNotWhatWasStreamedIsRefused(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]string{
		"a changed value":        `UPDATE %s SET b = 'z' WHERE rowid = 500`,
		"another storage class":  `UPDATE %s SET b = CAST('x' AS BLOB) WHERE rowid = 500`,
		"a value gone":           `UPDATE %s SET a = NULL WHERE rowid = 500`,
		"a row gone":             `DELETE FROM %s WHERE rowid = 500`,
		"a row twice":            `INSERT INTO %[1]s SELECT * FROM %[1]s WHERE rowid = 500`,
		"two rows in each other": `UPDATE %s SET a = CASE a WHEN 500 THEN 501 ELSE 500 END WHERE a IN (500, 501)`,
		"a rejected row gone":    `DELETE FROM "t__importing_rejected"`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var csv strings.Builder
			csv.WriteString("a,b\n1,2,3\n")
			for i := range 2500 {
				fmt.Fprintf(&csv, "%d,x\n", i+1)
			}
			j := prepare(t, csv.String())
			j.report = func(p Progress) {
				// The last report of loading comes after the last commit.
				if p.Stage != Loading || p.Fraction < 1 {
					return
				}
				var table string
				if err := j.db.QueryRow("SELECT name FROM sqlite_master LIMIT 1").Scan(&table); err != nil {
					t.Error(err)
				}
				stmt := strings.ReplaceAll(spoil, "t__importing_rejected", table+"_rejected")
				if strings.Contains(stmt, "%") {
					stmt = fmt.Sprintf(stmt, quote(table))
				}
				if _, err := j.db.Exec(stmt); err != nil {
					t.Error(err)
				}
			}
			if err := j.run(t.Context()); !errors.Is(err, ErrCheckFailed) {
				t.Errorf("run = %v, want ErrCheckFailed", err)
			}
			wantTables(t, j.db, 0)
		})
	}
}

func TestAChecksumKnowsWhereAValueEnds(t *testing.T) {
	t.Parallel()
	var one, two checksum
	one.add("a\x03b")
	two.add("a")
	two.add("b")
	if one == two {
		t.Error("one value and two have the same checksum")
	}
}

func TestEveryErrorOfTheFileSystemHasASentence(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		cause, kind error
		sentence    string
	}{
		{fs.ErrNotExist, ErrNoFile, "there is no file x.csv"},
		{fs.ErrPermission, ErrUnreadable, "the file x.csv may not be read: its permissions forbid it"},
	} {
		cause := &fs.PathError{Op: "open", Path: "x.csv", Err: tc.cause}
		err := sourceProblem("x.csv", cause)
		if !errors.Is(err, tc.kind) || !errors.Is(err, tc.cause) || err.Error() != tc.sentence {
			t.Errorf("sourceProblem(%v) = %v", cause, err)
		}
	}
}

// Not parallel: it measures the heap of the whole process.
func TestMemoryDoesNotGrowWithTheFile(t *testing.T) {
	const rows, bound = 10_000, 4 << 20
	path := filepath.Join(t.TempDir(), "big.csv")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	filler := strings.Repeat("x", 3000)
	fmt.Fprintln(f, "id,filler,day")
	for i := range rows {
		// Padded rows, conflicts and rejected rows too: counting them must not hoard.
		tail := []string{",2024-05-31\n", "\n", ",never\n", ",2024-05-31,extra\n"}[i%4]
		if i < sampleRows {
			tail = ",2024-05-31\n"
		}
		fmt.Fprintf(f, "%d,%s%s", i, filler, tail)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	var reports int
	var least, most uint64
	result, err := Import(t.Context(), Options{
		Source: path, Database: filepath.Join(t.TempDir(), "out.db"), Table: "t",
		Report: func(Progress) {
			if reports++; reports%2 != 0 {
				return // collecting garbage takes a while
			}
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			if least == 0 || m.HeapAlloc < least {
				least = m.HeapAlloc
			}
			most = max(most, m.HeapAlloc)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if result.Bytes < 5*bound {
		t.Fatalf("the file of %d bytes is too small to prove anything", result.Bytes)
	}
	t.Logf("live heap between %d and %d KB for a file of %d MB", least>>10, most>>10, result.Bytes>>20)
	if most-least > bound {
		t.Errorf("the live heap grew by %d bytes", most-least)
	}
}
