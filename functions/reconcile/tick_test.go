package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/errand-dev/errand/shared/config"
	"github.com/errand-dev/errand/shared/ledger"
	"github.com/errand-dev/errand/shared/platform"
	"github.com/errand-dev/errand/shared/subagent"
)

// fake is a reconciler that fails on one conversation, and the queues behind it.
type fake struct {
	platform.Receiver
	fails string

	mu     sync.Mutex
	done   []string
	hidden map[string]time.Duration
}

func (f *fake) Tick(_ context.Context, w ledger.Wake) error {
	if w.Timer != nil {
		return f.do(w.Owner, fmt.Sprintf("timer %s %s %s", w.Owner.Conversation, w.Timer.ID, w.Timer.Generation))
	}
	return f.do(w.Owner, fmt.Sprintf("tick %s %d/%d", w.Owner.Conversation, w.Tick, w.Rung))
}

func (f *fake) Repair(_ context.Context, o subagent.Owner) error {
	return f.do(o, "repair "+o.Conversation)
}

func (f *fake) do(o subagent.Owner, what string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if o.Conversation == f.fails {
		return errors.New("throttled")
	}
	f.done = append(f.done, what)
	return nil
}

func (f *fake) Extend(_ context.Context, r platform.Received, d time.Duration) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hidden[r.ID] = d
	return nil
}

func (f *fake) invoke(t *testing.T, event string) (string, error) {
	t.Helper()
	payload, err := os.ReadFile(filepath.Join("testdata", event))
	if err != nil {
		t.Fatal(err)
	}
	f.hidden = map[string]time.Duration{}
	cfg := config.Reconcile{
		Deployment:   config.Deployment{TicksURL: "https://sqs.eu-west-1.amazonaws.com/123456789012/stack-ticks"},
		DeadTicksURL: "https://sqs.eu-west-1.amazonaws.com/123456789012/stack-ticks-dlq", Concurrency: 4,
	}
	answer, err := newTicks(cfg, f, f, slog.New(slog.DiscardHandler)).invoke(t.Context(), payload)
	encoded, marshalErr := json.Marshal(answer)
	if marshalErr != nil {
		t.Fatal(marshalErr)
	}
	slices.Sort(f.done)
	return string(encoded), err
}

func TestRecordedInvocationsOfReconcile(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		event, fails string
		done         []string
		hidden       map[string]time.Duration
		answer       string
		err          bool
	}{
		{event: "schedule.json", done: []string{"tick c1 4/3"}, answer: "null"},
		{event: "schedule.json", fails: "c1", answer: "null", err: true},
		{event: "ticks.json", done: []string{"tick c1 1/0", "tick c1 4/3", "tick c2 2/1"}, answer: `{"batchItemFailures":[]}`},
		{event: "ticks.json", fails: "c2", done: []string{"tick c1 1/0", "tick c1 4/3"},
			hidden: map[string]time.Duration{"k-2": 4 * time.Second}, answer: `{"batchItemFailures":[{"itemIdentifier":"k-2"}]}`},
		{event: "ticks-poison.json", done: []string{"tick c1 9/0"}, hidden: map[string]time.Duration{"x-1": time.Second, "x-2": time.Second},
			answer: `{"batchItemFailures":[{"itemIdentifier":"x-1"},{"itemIdentifier":"x-2"}]}`},
		// A dead tick rests once, then it is sent again; what nobody can read stays where it is.
		{event: "dead-ticks.json", done: []string{"repair c2"}, hidden: map[string]time.Duration{"z-1": time.Minute, "z-3": 12 * time.Hour},
			answer: `{"batchItemFailures":[{"itemIdentifier":"z-1"},{"itemIdentifier":"z-3"}]}`},
		// The timer of a schedule needs no repair: it is handled itself.
		{event: "dead-timers.json", done: []string{"timer c2 s-1 g1"}, hidden: map[string]time.Duration{"z-1": time.Minute}, answer: `{"batchItemFailures":[{"itemIdentifier":"z-1"}]}`},
		{event: "schedule-timer.json", done: []string{"timer c1 s-1 g1"}, answer: "null"},
		{event: "dead-ticks.json", fails: "c2", hidden: map[string]time.Duration{"z-1": time.Minute, "z-2": 2 * time.Second, "z-3": 12 * time.Hour},
			answer: `{"batchItemFailures":[{"itemIdentifier":"z-1"},{"itemIdentifier":"z-2"},{"itemIdentifier":"z-3"}]}`},
	} {
		t.Run(c.event+" "+c.fails, func(t *testing.T) {
			t.Parallel()
			if c.hidden == nil {
				c.hidden = map[string]time.Duration{}
			}
			f := &fake{fails: c.fails}
			answer, err := f.invoke(t, c.event)
			if (err != nil) != c.err {
				t.Errorf("error %v", err)
			}
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
