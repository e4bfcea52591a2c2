package importer

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzImport gives any bytes to the importer. It must explain what it refuses, and
// store what it accepts so that SQLite gives it back: the check after loading
// compares stored, which mirrors SQLite's affinity rules, with SQLite itself.
func FuzzImport(f *testing.F) {
	for _, seed := range []string{
		"a,b\n1,2\n", "\ufeffa;b\r\n1,5;x\r\n", "a\tb\n\"x\ny\"\t\n", "a,a,\n1,2,3,4\n5\n", "a\n\"x",
		"n\n7\n007\n", "n\n1e-05\n 5\n", "n\n9007199254740993\n0.5\n", "d\n2024-02-29\n2024\n", "b\ntrue\nmaybe\n1\n",
		"r\n0.5\n1e+999\n-0.0\n+.5e-3\n5.\n", "x\x00y\n", "\xff\xfea\x00", "a\r1\r",
	} {
		f.Add([]byte(seed), uint8(1))
	}
	f.Fuzz(func(t *testing.T, csv []byte, first uint8) {
		if len(csv) > 1<<16 {
			return
		}
		path := filepath.Join(t.TempDir(), "in.csv")
		if err := os.WriteFile(path, csv, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Import(context.Background(), Options{Source: path, Database: filepath.Join(t.TempDir(), "out.db"), Table: "t"})
		fuzzVerdict(t, err)
		if err != nil {
			return
		}
		// Once more with types that the sample did not see, so that values contradict them.
		j := prepare(t, string(csv))
		for i := range j.schema.Columns {
			j.schema.Columns[i].Type = allTypes[(int(first)+i)%len(allTypes)]
		}
		if err := j.run(t.Context()); err != nil {
			t.Errorf("with other types: %v", err)
		}
	})
}

func fuzzVerdict(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		return
	}
	p, ok := errors.AsType[*Problem](err)
	if !ok || p.Kind == ErrCheckFailed || p.Kind == ErrSourceChanged || p.Kind == ErrSuperseded {
		t.Errorf("Import = %v (%T)", err, err)
	}
}

// affinity is a table in memory that shows what SQLite makes of a value.
type affinity struct{ insert, read *sql.Stmt }

var allTypes = []Type{Integer, Real, Boolean, Date, Timestamp, Text}

func newAffinity(t testing.TB) affinity {
	t.Helper()
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	db.SetMaxOpenConns(1)
	var columns, values []string
	for i, typ := range allTypes {
		columns = append(columns, fmt.Sprintf("c%d %s", i, typ))
		values = append(values, fmt.Sprintf("+c%d", i))
	}
	if _, err := db.Exec("CREATE TABLE t (id INTEGER PRIMARY KEY, " + strings.Join(columns, ", ") + ")"); err != nil {
		t.Fatal(err)
	}
	var a affinity
	if a.insert, err = db.Prepare("INSERT OR REPLACE INTO t VALUES (1, ?, ?, ?, ?, ?, ?)"); err != nil {
		t.Fatal(err)
	}
	if a.read, err = db.Prepare("SELECT " + strings.Join(values, ", ") + " FROM t"); err != nil {
		t.Fatal(err)
	}
	return a
}

// check stores s in a column of each type. What stored says must be what SQLite then
// holds, and a value that is kept as text must be the text that was there.
func (a affinity) check(t testing.TB, s string) {
	t.Helper()
	want := make([]any, len(allTypes))
	for i, typ := range allTypes {
		v, verdict := stored(typ, s)
		want[i] = v
		text, isString := v.(string)
		switch {
		case isString && text != s:
			t.Errorf("stored(%s, %q) = %q", typ, s, text)
		case v == nil && s != "" && verdict != widens:
			t.Errorf("stored(%s, %q) loses the value", typ, s)
		case typ == Integer && verdict == fits && s != "" && fmt.Sprint(v) != s:
			t.Errorf("stored(%s, %q) = %v, which is not written so", typ, s, v)
		case typ == Text && verdict != fits:
			t.Errorf("TEXT does not take %q", s)
		}
	}
	if _, err := a.insert.Exec(want...); err != nil {
		t.Fatal(err)
	}
	got, to := make([]any, len(want)), make([]any, len(want))
	for i := range got {
		to[i] = &got[i]
	}
	if err := a.read.QueryRow().Scan(to...); err != nil {
		t.Fatal(err)
	}
	for i, typ := range allTypes {
		if got[i] != want[i] {
			t.Errorf("SQLite holds %#v for %q in a column of %s, stored says %#v", got[i], s, typ, want[i])
		}
	}
}

func TestSQLiteHoldsWhatStoredSays(t *testing.T) {
	t.Parallel()
	a := newAffinity(t)
	r := rand.New(rand.NewPCG(1, 1))
	pieces := []string{"0", "1", "7", "9", "00", "9007199254740993", "9223372036854775807", "-", "+", ".", "e", "E", "e-05", "x", "_", " ", "\n", "inf", "nan", "true", "2024-02-29", "T10:00"}
	for range 5_000 {
		var s strings.Builder
		for range 1 + r.IntN(4) {
			s.WriteString(pieces[r.IntN(len(pieces))])
		}
		a.check(t, s.String())
	}
}

func FuzzStored(f *testing.F) {
	for _, s := range []string{"", "0", "-0", "007", "1.50", ".5", "1e5", "1e-05", "true", "2024-02-29", "0x1p-2", "9223372036854775808", "+ 5", "١"} {
		f.Add(s)
	}
	a := newAffinity(f)
	f.Fuzz(func(t *testing.T, s string) {
		if utf8.ValidString(s) && !strings.Contains(s, "\x00") { // other rows are rejected before
			a.check(t, s)
		}
	})
}
