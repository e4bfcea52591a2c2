package main

import (
	"bufio"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/errand-dev/errand/shared/model/scriptmodel"
)

// workerEnv has the options of the worker, as JSON.
const workerEnv = "RESEARCH_TEST_WORKER"

type workerOptions struct {
	Sources, Allow    []string
	Out, Data, Script string
}

// TestWorker is no test: it is the process that another test kills.
func TestWorker(t *testing.T) {
	raw := os.Getenv(workerEnv)
	if raw == "" {
		t.Skip("this is the worker of another test")
	}
	var w workerOptions
	if err := json.Unmarshal([]byte(raw), &w); err != nil {
		t.Fatal(err)
	}
	script, err := scriptmodel.Parse("test", w.Script)
	if err != nil {
		t.Fatal(err)
	}
	err = research(t.Context(), options{
		question: sample, sources: w.Sources, allow: w.Allow, out: w.Out, data: w.Data, modelName: "script", wait: time.Hour,
		jsonEvents: true, model: script, web: local(t, w.Sources[1]),
	}, os.Stdout)
	if err != nil {
		os.Stderr.WriteString(err.Error())
		os.Exit(1)
	}
	os.Exit(0)
}

// worker starts a process; until is asked after each of its events whether to kill it.
func worker(t *testing.T, w workerOptions, until func(event) bool) (events []event, killed bool) {
	t.Helper()
	raw, err := json.Marshal(w)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestWorker$")
	cmd.Env = append(os.Environ(), workerEnv+"="+string(raw))
	var complaint strings.Builder
	cmd.Stderr = &complaint
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		e := decoded(t, lines.Bytes())[0]
		events = append(events, e)
		if !killed && until(e) {
			killed = true
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := cmd.Wait(); (err != nil) != killed {
		t.Fatalf("the worker: %v, %s", err, complaint.String())
	}
	return events, killed
}

// The process is killed while one page is being fetched and everything else has been read.
func TestAfterAKillTheSameCommandGoesOnAndPaysForNoReadingTwice(t *testing.T) {
	var fetches atomic.Int64
	asking, release := make(chan struct{}), make(chan struct{})
	address, _ := site(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if fetches.Add(1) > 1 {
			says("<p>The sun moves it, too.</p>")(w, r)
			return
		}
		close(asking)
		select {
		case <-release:
		case <-r.Context().Done(): // the one who asked is dead
		}
	}))
	defer close(release)
	dir := t.TempDir()
	first := write(t, dir, "a.txt", "The moon moves the sea.")
	w := workerOptions{
		Sources: []string{dir, address + "/slow"}, Allow: []string{"127.0.0.1"},
		Out: filepath.Join(t.TempDir(), "report.md"), Data: t.TempDir(),
		Script: twoFiles + `
when "source":"(a.txt)"
> call read_file {"path":"{{1}}"}
---
{"source":"a.txt","claims":[{"text":"The moon does it.","quote":"The moon moves the sea."}]}
when "source":"(http[^"]+)"
> call fetch {"url":"{{1}}"}
---
{"source":"{{1}}","claims":[{"text":"The sun does it.","quote":"The sun moves it, too."}]}`,
	}
	if _, killed := worker(t, w, func(e event) bool {
		if e.Source != "a.txt" {
			return false
		}
		<-asking
		return true
	}); !killed {
		t.Fatal("the worker ended too soon to be killed")
	}
	// What was read is not read again.
	write(t, dir, filepath.Base(first), "Something else by now.")
	events, _ := worker(t, w, func(event) bool { return false })
	if got := calls(events); got != 4+2+2 {
		t.Errorf("%d model calls were paid for: %+v", got, events)
	}
	for _, want := range []string{"> The moon moves the sea.\n", "> The sun moves it, too.\n"} {
		if !strings.Contains(contents(t, w.Out), want) {
			t.Errorf("the report lacks %q:\n%s", want, contents(t, w.Out))
		}
	}
	if n := fetches.Load(); n != 2 {
		t.Errorf("the page was fetched %d times", n)
	}
}
