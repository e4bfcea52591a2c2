package importagent_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/errand-dev/errand/examples/importer"
	importagent "github.com/errand-dev/errand/examples/importer/subagent"
	"github.com/errand-dev/errand/shared/ledger"
	"github.com/errand-dev/errand/shared/subagent"
)

func TestARealFileIsImportedAndTold(t *testing.T) {
	folder := t.TempDir()
	database := filepath.Join(folder, "airports.sqlite")
	s := start(t, t.TempDir(), importagent.Options{Folder: folder}, nil)
	reply := s.ask("import ../testdata/airports.csv")
	const columns = "It has 7 columns: iata TEXT, name TEXT, city TEXT, state TEXT, country TEXT, latitude REAL, longitude REAL; I go on importing."
	if !strings.HasPrefix(reply, "I have sent the importer off with airports.csv") || !strings.Contains(reply, columns) {
		t.Errorf("the reply is %q", reply)
	}
	messages := s.told(1)
	var got []string
	for _, m := range messages[2:] {
		got = append(got, m.Role+": "+s.text(m))
	}
	want := []string{
		"user: Imported 3,376 rows into the table airports of " + database + " (7 columns); no row was rejected.",
		"assistant: Good news about the import of airports.csv: it has ended. Ask for another file whenever you like.",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the transcript differs (-want +got):\n%s", diff)
	}
	if n := rowsIn(t, database, "airports"); n != 3376 {
		t.Errorf("the table has %d rows", n)
	}
	output, err := s.Ledger.LoadValue(t.Context(), owner, s.run().Output)
	if err != nil {
		t.Fatal(err)
	}
	var out importagent.Output
	if err := json.Unmarshal([]byte(output), &out); err != nil {
		t.Fatal(err)
	}
	if out.Rows != 3376 || out.Database != database || len(out.Schema.Columns) != 7 || out.Rejected != 0 || out.Duration <= 0 {
		t.Errorf("the output is %s", output)
	}
}

func TestTheConversationAnswersWhileALargeFileIsImported(t *testing.T) {
	// The import waits at its second report until three questions are answered, so that
	// the test does not depend on which of the two is faster.
	answered := make(chan struct{})
	var mu sync.Mutex
	reports, last := 0, 0.0
	show := func(_ subagent.Owner, e ledger.Event) {
		var p struct{ Fraction float64 }
		if err := json.Unmarshal(e.Data, &p); err != nil {
			t.Error(err)
		}
		mu.Lock()
		reports++
		if p.Fraction < last {
			t.Errorf("progress fell from %v to %v", last, p.Fraction)
		}
		last = p.Fraction
		nth := reports
		mu.Unlock()
		if nth == 2 {
			<-answered
		}
	}
	folder := t.TempDir()
	s := start(t, t.TempDir(), importagent.Options{Folder: folder}, show)
	if reply := s.ask("import " + customers(t, rows(80_000))); !strings.Contains(reply, "It has 11 columns: id INTEGER, code TEXT, ") {
		t.Errorf("the reply is %q", reply)
	}
	var replies []string
	for _, question := range []string{"how is it going?", "what columns does it have?", "hello"} {
		replies = append(replies, s.ask(question))
	}
	close(answered)
	for i, want := range []string{"The import of customers.csv is ", "customers.csv has 11 columns: id INTEGER, code TEXT, ", "I import CSV files"} {
		if !strings.HasPrefix(replies[i], want) {
			t.Errorf("answer %d is %q, want it to begin with %q", i, replies[i], want)
		}
	}
	messages := s.told(1)
	if len(messages) != 10 || !isEnd(messages[8]) {
		t.Fatalf("the transcript is not import, three questions, end: %+v", messages)
	}
	run := s.run()
	if at := messages[7].At; at >= run.EndedAt {
		t.Errorf("the last answer came at %v, the run ended at %v", at, run.EndedAt)
	}
	if n := rowsIn(t, filepath.Join(folder, "customers.sqlite"), "customers"); n != rows(80_000) || run.Finish.State != subagent.Delivered || last != 1 {
		t.Errorf("%d rows, finish slot %q, last progress %v", n, run.Finish.State, last)
	}
}

func TestWhatCannotBeImportedEndsAsAnErrorThatIsToldOnce(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, tc := range map[string]struct{ path, problem string }{
		"a broken file":    {write("broken.csv", "a,b\n1,\"never closed\n2,3\n"), "quotation mark"},
		"an empty file":    {write("empty.csv", ""), "is empty"},
		"a folder":         {dir, "is a folder, not a file"},
		"a missing file":   {filepath.Join(dir, "nothing.csv"), "there is no file"},
		"a file of nulls":  {write("binary.csv", "\x00\x01\x02\x03"), "not"},
		"no name of file.": {" ", "names no file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, t.TempDir(), importagent.Options{Folder: t.TempDir()}, nil)
			if tc.path == " " {
				s.dispatch(`{}`)
			} else {
				s.ask("import " + tc.path)
			}
			checkTold(t, s, tc.problem)
		})
	}
}

// checkTold checks that the run ended in an error that was told once, in a sentence.
func checkTold(t *testing.T, s *stack, problem string) {
	t.Helper()
	messages := s.told(1)
	run := s.run()
	if run.Status != subagent.Error || !strings.Contains(run.Problem, problem) || run.Finish.State != subagent.Delivered {
		t.Errorf("the run is %s, %q, slot %q", run.Status, run.Problem, run.Finish.State)
	}
	ends := 0
	for _, m := range messages {
		if isEnd(m) {
			ends++
			if text := s.text(m); text != "The import failed: "+run.Problem+"." || strings.ContainsAny(text, "\n{") {
				t.Errorf("it was told as %q", text)
			}
		}
	}
	if ends != 1 {
		t.Errorf("the end was told %d times", ends)
	}
	if reaction := s.text(messages[len(messages)-1]); !strings.HasPrefix(reaction, "I am sorry, that import did not work: "+run.Problem) {
		t.Errorf("the agent reacts with %q", reaction)
	}
}

func TestAFileThatVanishesEndsAsAnError(t *testing.T) {
	path := customers(t, rows(20_000))
	var once sync.Once
	s := start(t, t.TempDir(), importagent.Options{Folder: t.TempDir()}, func(subagent.Owner, ledger.Event) {
		once.Do(func() {
			if err := os.Remove(path); err != nil {
				t.Error(err)
			}
		})
	})
	s.ask("import " + path)
	checkTold(t, s, "was removed while it was being imported")
}

func TestAnImportThatIsInterruptedByAStopEndsOnceAfterTheNextStart(t *testing.T) {
	data, folder := t.TempDir(), t.TempDir()
	path := customers(t, rows(30_000))
	under := make(chan struct{})
	var once sync.Once
	first := start(t, data, importagent.Options{Folder: folder}, func(subagent.Owner, ledger.Event) {
		once.Do(func() { close(under) })
	})
	first.ask("import " + path)
	<-under
	first.stop()

	second := start(t, data, importagent.Options{Folder: folder}, nil)
	second.told(1)
	run := second.run()
	if run.Status != subagent.Completed || run.Exec.Epoch < 2 || run.Finish.State != subagent.Delivered {
		t.Errorf("the run is %s after %d executions, slot %q", run.Status, run.Exec.Epoch, run.Finish.State)
	}
	// One more turn: had the end been told twice, it would stand before this answer.
	second.ask("hello")
	ends, columns := 0, 0
	for _, m := range second.until("messages", func([]ledger.Message) bool { return true }) {
		if isEnd(m) {
			ends++
		}
		if strings.Contains(second.text(m), "11 columns: ") {
			columns++
		}
	}
	if n := rowsIn(t, filepath.Join(folder, "customers.sqlite"), "customers"); n != rows(30_000) || ends != 1 || columns != 1 {
		t.Errorf("%d rows, told %d times, columns told %d times", n, ends, columns)
	}
}

func TestACancelledImportStopsAndLeavesNoTable(t *testing.T) {
	under, cancelled := make(chan struct{}), make(chan struct{})
	var once sync.Once
	s := start(t, t.TempDir(), importagent.Options{Folder: t.TempDir()}, func(subagent.Owner, ledger.Event) {
		once.Do(func() { close(under); <-cancelled })
	})
	s.ask("import " + customers(t, rows(30_000)))
	<-under
	if reply := s.ask("cancel"); reply != "Cancelled: 1 import." {
		t.Errorf("the reply is %q", reply)
	}
	close(cancelled)
	messages := s.told(1)
	if text := s.text(messages[len(messages)-2]); text != "The import was cancelled." || s.run().Status != subagent.Aborted {
		t.Errorf("told %q, run is %s", text, s.run().Status)
	}
	if reply := s.ask("how is it going?"); reply != "Nothing is being imported right now." {
		t.Errorf("the reply is %q", reply)
	}
}

func TestAServerImportsOnlyFromItsFolder(t *testing.T) {
	outside := customers(t, 10)
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "deep", "inner"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"link.csv": outside, "within": filepath.Join("deep", "inner"), "folder": filepath.Dir(outside), "new.sqlite": filepath.Join(t.TempDir(), "made.sqlite")} {
		if err := os.Symlink(target, filepath.Join(root, name)); err != nil {
			t.Skip("no symbolic links here:", err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "good.csv"), []byte("a,b\n1,2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const refused = "lies outside the folder that imports are limited to"
	for name, tc := range map[string]struct{ input, problem string }{
		"an absolute path elsewhere":             {`{"source":` + quote(outside) + `}`, refused},
		"a path that climbs out":                 {`{"source":"../../etc/passwd"}`, refused},
		"a link to a file elsewhere":             {`{"source":"link.csv"}`, refused},
		"a link behind a link and back":          {`{"source":"within/../link.csv"}`, refused},
		"a file in a linked folder":              {`{"source":"folder/customers.csv"}`, refused},
		"nothing in a linked folder":             {`{"source":"folder/nothing.csv"}`, refused},
		"a database elsewhere":                   {`{"source":"good.csv","database":"../x.sqlite"}`, refused},
		"a database behind a link to nothing":    {`{"source":"good.csv","database":"new.sqlite"}`, refused},
		"a missing file of the folder":           {`{"source":"nothing.csv"}`, "there is no file"},
		"a field that there is not":              {`{"source":"good.csv","tabel":"x"}`, "tabel"},
		"a file of the folder":                   {`{"source":"good.csv"}`, ""},
		"a file of the folder, by absolute path": {`{"source":` + quote(filepath.Join(root, "good.csv")) + `,"database":"other.sqlite"}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, t.TempDir(), importagent.Options{Root: root}, nil)
			s.dispatch(tc.input)
			s.told(1)
			run := s.run()
			if (run.Status == subagent.Completed) != (tc.problem == "") || !strings.Contains(run.Problem, tc.problem) {
				t.Errorf("the run is %s: %q, want %q", run.Status, run.Problem, tc.problem)
			}
		})
	}
	if n := rowsIn(t, filepath.Join(root, "good.sqlite"), "good"); n != 1 {
		t.Errorf("the table in the folder has %d rows", n)
	}
}

func TestASummaryIsOnePlainSentence(t *testing.T) {
	columns := make([]importer.ColumnResult, 12)
	for want, result := range map[string]importer.Result{
		"Imported 80,000 rows into the table t of x.db (12 columns); 3 rows were rejected, see the table t_rejected.": {Rows: 80_000, Rejected: 3, Columns: columns},
		"Imported 1,234,567 rows into the table t of x.db (12 columns); no row was rejected.":                         {Rows: 1_234_567, Columns: columns},
		"Imported 1 row into the table t of x.db (1 column); 1 row was rejected, see the table t_rejected.":           {Rows: 1, Rejected: 1, Columns: columns[:1]},
	} {
		result.Table, result.Database, result.RejectedTable = "t", "x.db", "t_rejected"
		if got := (importagent.Output{Result: result, DurationMS: time.Second.Milliseconds()}).String(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

func quote(s string) string {
	raw, _ := json.Marshal(s)
	return string(raw)
}

// rows is n, or under the race detector an eighth of it: as much work in the same time.
func rows(n int) int {
	if underRace {
		return n / 8
	}
	return n
}
