package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/google/go-cmp/cmp"

	"github.com/errand-dev/errand/shared/executor"
	"github.com/errand-dev/errand/shared/ledger"
	"github.com/errand-dev/errand/shared/platform"
	"github.com/errand-dev/errand/shared/sqsbatch"
)

// fake is an executor that fails on the rows in fails, and the queues behind it.
type fake struct {
	platform.Receiver
	fails map[string]error

	mu     sync.Mutex
	done   []string
	hidden map[string]time.Duration
}

func (f *fake) Run(_ context.Context, w ledger.Wake) error { return f.execute(w.Run) }

func (f *fake) Turn(_ context.Context, w ledger.Wake, receives int) error {
	return f.execute(fmt.Sprintf("%s/%d", w.Turn, receives))
}

func (f *fake) execute(what string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.fails[what]; err != nil {
		return err
	}
	f.done = append(f.done, what)
	return nil
}

func (f *fake) Extend(_ context.Context, r platform.Received, d time.Duration) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if d != visibility { // what is under work is kept hidden meanwhile
		f.hidden[r.ID] = d
	}
	return nil
}

// handle works off a recorded event and returns the JSON of the answer.
func (f *fake) handle(t *testing.T, event string, log *bytes.Buffer) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", event))
	if err != nil {
		t.Fatal(err)
	}
	var batch events.SQSEvent
	if err := json.Unmarshal(data, &batch); err != nil {
		t.Fatal(err)
	}
	f.hidden = map[string]time.Duration{}
	h := &sqsbatch.Handler{
		Queues:   map[string]string{"stack-turns.fifo": platform.Turns, "stack-runs": platform.Runs},
		Receiver: f, Handle: work{f}.handle, RetryAfter: retryAfter, Visibility: visibility, Concurrency: 10,
		StopBefore: time.Second, Log: slog.New(slog.NewJSONHandler(log, nil)),
	}
	response, err := h.Do(t.Context(), batch)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := json.Marshal(response)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(f.done)
	return string(answer)
}

func TestRecordedBatchesOfTheExecutor(t *testing.T) {
	t.Parallel()
	busy := &executor.RetryError{After: 7 * time.Second, Err: errors.New("another turn has its place")}
	for _, c := range []struct {
		event  string
		fails  map[string]error
		done   []string
		hidden map[string]time.Duration
		answer string
	}{
		{"runs.json", nil, []string{"run-1", "run-2", "run-3"}, map[string]time.Duration{}, `{"batchItemFailures":[]}`},
		{"runs.json", map[string]error{"run-3": errors.New("throttled")}, []string{"run-1", "run-2"},
			map[string]time.Duration{"r-3": 5 * time.Minute}, `{"batchItemFailures":[{"itemIdentifier":"r-3"}]}`},
		{"turns-two-groups.json", nil, []string{"turn-1/1", "turn-2/1", "turn-3/1", "turn-4/3", "turn-5/1"}, map[string]time.Duration{}, `{"batchItemFailures":[]}`},
		{"turns-two-groups.json", map[string]error{"turn-3/1": busy}, []string{"turn-1/1", "turn-2/1", "turn-4/3"},
			map[string]time.Duration{"t-3": 7 * time.Second, "t-5": 7 * time.Second}, `{"batchItemFailures":[{"itemIdentifier":"t-3"},{"itemIdentifier":"t-5"}]}`},
		{"runs-poison.json", nil, []string{"run-1"}, map[string]time.Duration{"p-1": time.Second, "p-2": time.Second},
			`{"batchItemFailures":[{"itemIdentifier":"p-1"},{"itemIdentifier":"p-2"}]}`},
		{"runs-duplicate.json", nil, []string{"run-1", "run-1"}, map[string]time.Duration{}, `{"batchItemFailures":[]}`},
	} {
		t.Run(fmt.Sprint(c.event, " ", len(c.fails)), func(t *testing.T) {
			t.Parallel()
			f := &fake{fails: c.fails}
			answer := f.handle(t, c.event, &bytes.Buffer{})
			if diff := cmp.Diff(c.done, f.done); diff != "" {
				t.Errorf("done (-want +got)\n%s", diff)
			}
			if diff := cmp.Diff(c.hidden, f.hidden); diff != "" {
				t.Errorf("hidden (-want +got)\n%s", diff)
			}
			if diff := cmp.Diff(c.answer, answer); diff != "" {
				t.Errorf("answer (-want +got)\n%s", diff)
			}
		})
	}
}

func TestAPoisonMessageIsLoggedByItsIdAndSizeAlone(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	(&fake{}).handle(t, "runs-poison.json", &log)
	for _, want := range []string{`"message_id":"p-1"`, `"receives":2`, `"body_bytes":28`, "poison"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("no %s in %s", want, &log)
		}
	}
	if strings.Contains(log.String(), "secret-text") {
		t.Errorf("the body was logged: %s", &log)
	}
}
