package schedulertimer_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/scheduler"
	"github.com/aws/aws-sdk-go-v2/service/scheduler/types"
	"github.com/google/go-cmp/cmp"

	"github.com/errand-dev/errand/shared/platform"
	"github.com/errand-dev/errand/shared/schedulertimer"
)

// fakeScheduler keeps schedules by name, and refuses a name twice as AWS does.
type fakeScheduler struct {
	schedules map[string]*scheduler.CreateScheduleInput
	err       error
}

func (f *fakeScheduler) CreateSchedule(_ context.Context, in *scheduler.CreateScheduleInput, _ ...func(*scheduler.Options)) (*scheduler.CreateScheduleOutput, error) {
	if f.err != nil {
		return nil, f.err
	}
	if f.schedules[*in.Name] != nil {
		return nil, &types.ConflictException{Message: aws.String("exists")}
	}
	f.schedules[*in.Name] = in
	return &scheduler.CreateScheduleOutput{}, nil
}

func (f *fakeScheduler) DeleteSchedule(_ context.Context, in *scheduler.DeleteScheduleInput, _ ...func(*scheduler.Options)) (*scheduler.DeleteScheduleOutput, error) {
	if f.err != nil {
		return nil, f.err
	}
	if f.schedules[*in.Name] == nil {
		return nil, &types.ResourceNotFoundException{Message: aws.String("gone")}
	}
	delete(f.schedules, *in.Name)
	return &scheduler.DeleteScheduleOutput{}, nil
}

// sent is a queue that only remembers.
type sent struct{ messages []platform.Message }

func (s *sent) Send(_ context.Context, m platform.Message) error {
	s.messages = append(s.messages, m)
	return nil
}

func newTimer(now time.Time) (*schedulertimer.Timer, *fakeScheduler, *sent) {
	fake, queue := &fakeScheduler{schedules: make(map[string]*scheduler.CreateScheduleInput)}, &sent{}
	timer := schedulertimer.New(queue, fake, schedulertimer.Config{
		Group: "errand", TargetARN: "arn:lambda", RoleARN: "arn:role", DeadLetterARN: "arn:dlq",
		MaxAttempts: 10, MaxAge: time.Hour,
		Now: func() time.Time { return now },
	})
	return timer, fake, queue
}

func TestATickOfAMinuteOrMoreBecomesAScheduleThatDeletesItself(t *testing.T) {
	t.Parallel()
	zone := time.FixedZone("east", 9*3600)
	timer, fake, queue := newTimer(time.Date(2026, 12, 1, 8, 59, 58, 1, zone))
	body := []byte(`{"conversation":"c1"}`)
	for _, delay := range []time.Duration{time.Minute, 2 * time.Hour} {
		m := platform.Message{Queue: platform.Ticks, Dedup: "c1-" + delay.String(), Body: body, Delay: delay}
		if err := timer.Send(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	if len(queue.messages) != 0 {
		t.Errorf("the queue got %v", queue.messages)
	}
	first, second := fake.schedules["c1-1m0s"], fake.schedules["c1-2h0m0s"]
	if first == nil || second == nil {
		t.Fatalf("schedules: %v", fake.schedules)
	}
	if got, want := *first.ScheduleExpression, "at(2026-12-01T00:00:59)"; got != want {
		t.Errorf("expression %s, want %s: UTC, rounded up", got, want)
	}
	if got, want := *second.ScheduleExpression, "at(2026-12-01T01:59:59)"; got != want {
		t.Errorf("expression %s, want %s: longer than any queue delay", got, want)
	}
	got := []string{
		*first.GroupName, *first.ScheduleExpressionTimezone, string(first.FlexibleTimeWindow.Mode), string(first.ActionAfterCompletion),
		*first.Target.Arn, *first.Target.RoleArn, *first.Target.DeadLetterConfig.Arn, *first.Target.Input,
	}
	want := []string{"errand", "UTC", "OFF", "DELETE", "arn:lambda", "arn:role", "arn:dlq", string(body)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("schedule (-want +got):\n%s", diff)
	}
	if r := first.Target.RetryPolicy; *r.MaximumRetryAttempts != 10 || *r.MaximumEventAgeInSeconds != 3600 {
		t.Errorf("retry policy %d attempts, %d s", *r.MaximumRetryAttempts, *r.MaximumEventAgeInSeconds)
	}
}

func TestEverythingElseGoesToTheQueue(t *testing.T) {
	t.Parallel()
	timer, fake, queue := newTimer(time.Unix(0, 0))
	want := []platform.Message{
		{Queue: platform.Ticks, Delay: time.Minute - 1},
		{Queue: platform.Ticks},
		{Queue: platform.Runs, Delay: platform.MaxDelay},
		{Queue: platform.Turns},
	}
	for _, m := range want {
		if err := timer.Send(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(want, queue.messages); diff != "" || len(fake.schedules) > 0 {
		t.Errorf("%d schedules, queue (-want +got):\n%s", len(fake.schedules), diff)
	}
}

func TestATickSentAgainIsTheSameSchedule(t *testing.T) {
	t.Parallel()
	timer, fake, _ := newTimer(time.Unix(0, 0))
	for range 2 {
		if err := timer.Send(t.Context(), platform.Message{Queue: platform.Ticks, Dedup: "t1", Delay: time.Hour}); err != nil {
			t.Fatal(err)
		}
	}
	if len(fake.schedules) != 1 {
		t.Errorf("%d schedules, want 1", len(fake.schedules))
	}
}

func TestEveryNameIsLegalAndDifferentTicksKeepDifferentNames(t *testing.T) {
	t.Parallel()
	timer, fake, _ := newTimer(time.Unix(0, 0))
	dedups := []string{"plain-1_2.3", "a/b", "a b", "ä", strings.Repeat("x", 64), strings.Repeat("x", 65), strings.Repeat("x", 66), "a\n", "", ""}
	for _, d := range dedups {
		if err := timer.Send(t.Context(), platform.Message{Queue: platform.Ticks, Dedup: d, Delay: time.Hour}); err != nil {
			t.Fatal(err)
		}
	}
	if len(fake.schedules) != len(dedups) {
		t.Errorf("%d schedules for %d ticks", len(fake.schedules), len(dedups))
	}
	for name := range fake.schedules {
		illegal := strings.Trim(name, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_.")
		if len(name) < 1 || len(name) > 64 || illegal != "" {
			t.Errorf("name %q is not legal", name)
		}
	}
	if fake.schedules["plain-1_2.3"] == nil {
		t.Error("a legal name was changed")
	}
}

func TestDeleteToleratesAScheduleThatIsGone(t *testing.T) {
	t.Parallel()
	timer, fake, _ := newTimer(time.Unix(0, 0))
	if err := timer.Send(t.Context(), platform.Message{Queue: platform.Ticks, Dedup: "a/b", Delay: time.Hour}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := timer.Delete(t.Context(), "a/b"); err != nil {
			t.Fatal(err)
		}
	}
	if len(fake.schedules) != 0 {
		t.Errorf("schedules left: %v", fake.schedules)
	}
}

func TestErrorsOfSchedulerAreReturned(t *testing.T) {
	t.Parallel()
	timer, fake, _ := newTimer(time.Unix(0, 0))
	fake.err = errors.New("throttled")
	if err := timer.Send(t.Context(), platform.Message{Queue: platform.Ticks, Dedup: "t1", Delay: time.Hour}); !errors.Is(err, fake.err) {
		t.Errorf("Send: %v", err)
	}
	if err := timer.Delete(t.Context(), "t1"); !errors.Is(err, fake.err) {
		t.Errorf("Delete: %v", err)
	}
}

func TestATickOverTheLimitIsRefused(t *testing.T) {
	t.Parallel()
	timer, fake, _ := newTimer(time.Unix(0, 0))
	m := platform.Message{Queue: platform.Ticks, Dedup: "t1", Delay: time.Hour, Body: make([]byte, platform.MaxMessage+1)}
	if err := timer.Send(t.Context(), m); !errors.Is(err, platform.ErrTooLarge) || len(fake.schedules) != 0 {
		t.Errorf("Send: %v, %d schedules", err, len(fake.schedules))
	}
}
