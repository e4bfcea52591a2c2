package sqsbatch_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/google/go-cmp/cmp"

	"github.com/errand-dev/errand/shared/platform"
	"github.com/errand-dev/errand/shared/sqsbatch"
)

// log is what happened in a batch, in order.
type log struct {
	platform.Receiver
	mu    sync.Mutex
	start time.Time
	lines []string
}

func (l *log) note(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, fmt.Sprintf("%v ", time.Since(l.start))+fmt.Sprintf(format, args...))
}

func (l *log) Extend(_ context.Context, r platform.Received, d time.Duration) error {
	l.note("hide %s %v", r.ID, d)
	return nil
}

var errWanted = errors.New("wanted")

// work handles a body that is a script: "5s" takes so long, "fail" fails.
func (l *log) work(ctx context.Context, r platform.Received) error {
	l.note("begin %s", r.ID)
	for step := range strings.FieldsSeq(string(r.Body)) {
		if step == "fail" {
			return errWanted
		}
		d, err := time.ParseDuration(step)
		if err != nil {
			return err
		}
		select {
		case <-time.After(d):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	l.note("end %s", r.ID)
	return nil
}

func record(queue, id, group, script string) events.SQSMessage {
	return events.SQSMessage{
		MessageId: id, ReceiptHandle: "receipt " + id, Body: script, EventSourceARN: "arn:aws:sqs:eu-west-1:1:" + queue,
		Attributes: map[string]string{"ApproximateReceiveCount": "2", "SentTimestamp": "0", "MessageGroupId": group},
	}
}

// do handles the records in a bubble of fake time, and returns the ids that failed.
func do(t *testing.T, timeout time.Duration, concurrency int, records ...events.SQSMessage) (failed []string, happened *log) {
	t.Helper()
	happened = &log{start: time.Now()}
	h := &sqsbatch.Handler{
		Queues:   map[string]string{"q-turns.fifo": platform.Turns, "q-runs": platform.Runs},
		Receiver: happened, Handle: happened.work, Visibility: time.Minute, Concurrency: concurrency, StopBefore: 30 * time.Second,
		RetryAfter: func(err error, receives int) time.Duration {
			if errors.Is(err, sqsbatch.ErrNotBegun) {
				return 0
			}
			return time.Duration(receives) * time.Second
		},
		Log: slog.New(slog.DiscardHandler),
	}
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	response, err := h.Do(ctx, events.SQSEvent{Records: records})
	if err != nil {
		t.Fatal(err)
	}
	if response.BatchItemFailures == nil {
		t.Error("the list of failures is nil")
	}
	for _, f := range response.BatchItemFailures {
		failed = append(failed, f.ItemIdentifier)
	}
	// What still ran after the return would run in a frozen process.
	ended := len(happened.lines)
	time.Sleep(time.Hour)
	synctest.Wait()
	if len(happened.lines) != ended {
		t.Errorf("after the return: %v", happened.lines[ended:])
	}
	return failed, happened
}

func TestARunThatFailsComesAgainAloneAndHoldsUpNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		failed, happened := do(t, 15*time.Minute, 10, record("q-runs", "a", "g", "50s"), record("q-runs", "b", "g", "fail"), record("q-runs", "c", "g", "50s"))
		if diff := cmp.Diff([]string{"b"}, failed); diff != "" {
			t.Error(diff)
		}
		for _, want := range []string{"0s hide b 2s", "50s end a", "50s end c"} {
			if !slices.Contains(happened.lines, want) {
				t.Errorf("no %q in %v", want, happened.lines)
			}
		}
		if slices.Contains(happened.lines, "20s hide b 1m0s") {
			t.Error("what was given back was hidden again")
		}
	})
}

func TestOfAGroupTheFirstFailureAndAllBehindItComeAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const queue = "q-turns.fifo"
		failed, happened := do(t, 15*time.Minute, 10,
			record(queue, "a1", "a", "1s"), record(queue, "b1", "b", "1s"), record(queue, "a2", "a", "fail"),
			record(queue, "b2", "b", "1s"), record(queue, "a3", "a", "1s"), record(queue, "a4", "a", "1s"))
		if diff := cmp.Diff([]string{"a2", "a3", "a4"}, failed); diff != "" {
			t.Error(diff)
		}
		var ofA []string
		for _, line := range happened.lines {
			if strings.Contains(line, " a") {
				ofA = append(ofA, line)
			}
		}
		slices.SortStableFunc(ofA, func(x, y string) int { return strings.Compare(x[:2], y[:2]) })
		// Hidden at once for no longer than they must be if we die.
		slices.Sort(ofA[:5])
		want := []string{
			"0s begin a1", "0s hide a1 1m0s", "0s hide a2 1m0s", "0s hide a3 1m0s", "0s hide a4 1m0s",
			"1s end a1", "1s begin a2", "1s hide a2 2s", "1s hide a3 2s", "1s hide a4 2s",
		}
		if diff := cmp.Diff(want, ofA); diff != "" {
			t.Error(diff)
		}
		if !slices.Contains(happened.lines, "2s end b2") {
			t.Errorf("the other group did not go on: %v", happened.lines)
		}
	})
}

func TestMessagesStayHiddenUntilTheWholeBatchIsDone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		failed, happened := do(t, 15*time.Minute, 10, record("q-runs", "short", "g", "1s"), record("q-runs", "long", "g", "50s"))
		slices.Sort(happened.lines)
		want := []string{
			"0s begin long", "0s begin short", "1s end short", "20s hide long 1m0s", "20s hide short 1m0s",
			"40s hide long 1m0s", "40s hide short 1m0s", "50s end long",
		}
		if diff := cmp.Diff(want, happened.lines); diff != "" || failed != nil {
			t.Errorf("failed %v\n%s", failed, diff)
		}
	})
}

func TestWhatCannotBeBegunInTimeIsGivenBack(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		timeout time.Duration
		first   string
		failed  []string
	}{
		{10 * time.Minute, "9m29s", nil},
		{10 * time.Minute, "9m31s", []string{"b"}},
		// Of a short invocation the last quarter is kept back.
		{40 * time.Second, "29s", nil},
		{40 * time.Second, "31s", []string{"b"}},
	} {
		t.Run(fmt.Sprintf("%s of %v", c.first, c.timeout), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				failed, happened := do(t, c.timeout, 1, record("q-runs", "a", "g", c.first), record("q-runs", "b", "g", "1s"))
				if diff := cmp.Diff(c.failed, failed); diff != "" {
					t.Errorf("%s\n%v", diff, happened.lines)
				}
			})
		})
	}
}

func TestABatchOfAStrangeQueueFails(t *testing.T) {
	t.Parallel()
	h := &sqsbatch.Handler{Queues: map[string]string{"q-runs": platform.Runs}}
	if _, err := h.Do(t.Context(), events.SQSEvent{Records: []events.SQSMessage{record("other", "a", "", "")}}); err == nil {
		t.Error("a message of a queue that is not ours was taken for done")
	}
}

func TestAQueueIsNamedByTheLastPartOfItsURLOrARN(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"https://sqs.eu-west-1.amazonaws.com/1/q.fifo", "arn:aws:sqs:eu-west-1:1:q.fifo", "q.fifo"} {
		if name := sqsbatch.Name(address); name != "q.fifo" {
			t.Errorf("%s is named %q", address, name)
		}
	}
}
