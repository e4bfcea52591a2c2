// Package schedulertimer adds long delays to a queue: a tick that is due in a minute
// or later becomes a one-time EventBridge schedule, which invokes the reconcile
// Lambda and deletes itself. Everything else goes to the queue behind it.
//
// EventBridge Scheduler fires once or more, up to a minute late, never early. A
// schedule is never changed: its name is the tick's own, and a second tick of
// that name is the first one sent again.
package schedulertimer

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/scheduler"
	"github.com/aws/aws-sdk-go-v2/service/scheduler/types"

	"github.com/errand-dev/errand/shared/platform"
)

// Least is the shortest delay of a schedule; what is due earlier is a delayed message.
const Least = time.Minute

// api is what the timer calls of *scheduler.Client.
type api interface {
	CreateSchedule(context.Context, *scheduler.CreateScheduleInput, ...func(*scheduler.Options)) (*scheduler.CreateScheduleOutput, error)
	DeleteSchedule(context.Context, *scheduler.DeleteScheduleInput, ...func(*scheduler.Options)) (*scheduler.DeleteScheduleOutput, error)
}

// Config says where schedules live and what they invoke. Every field is needed.
type Config struct {
	// Group is the name of the schedule group.
	Group string
	// TargetARN is the Lambda that gets the message body as its payload, RoleARN the
	// role that lets Scheduler invoke it and send to DeadLetterARN, a standard queue.
	TargetARN, RoleARN, DeadLetterARN string
	// MaxAttempts and MaxAge bound Scheduler's retries of one invocation: at most
	// 185, and 1 minute to 24 hours.
	MaxAttempts int
	MaxAge      time.Duration
	// Now tells the time.
	Now func() time.Time
}

// Timer is a platform.Sender. It is safe for concurrent use.
type Timer struct {
	next   platform.Sender
	client api
	cfg    Config
}

var _ platform.Sender = (*Timer)(nil)

// New returns a timer in front of next. It calls nothing.
func New(next platform.Sender, client api, cfg Config) *Timer {
	return &Timer{next: next, client: client, cfg: cfg}
}

// Send implements platform.Sender. A tick with a delay of Least or more becomes a
// schedule, also one longer than platform.MaxDelay; the schedule's target gets the
// message body alone. A schedule that exists already is success.
func (t *Timer) Send(ctx context.Context, m platform.Message) error {
	if m.Queue != platform.Ticks || m.Delay < Least {
		return t.next.Send(ctx, m)
	}
	if len(m.Body) > platform.MaxMessage {
		return fmt.Errorf("scheduling a tick: %w: %d bytes", platform.ErrTooLarge, len(m.Body))
	}
	name := scheduleName(m.Dedup)
	_, err := t.client.CreateSchedule(ctx, &scheduler.CreateScheduleInput{
		GroupName:                  &t.cfg.Group,
		Name:                       &name,
		ScheduleExpression:         aws.String(at(t.cfg.Now().Add(m.Delay))),
		ScheduleExpressionTimezone: aws.String("UTC"),
		FlexibleTimeWindow:         &types.FlexibleTimeWindow{Mode: types.FlexibleTimeWindowModeOff},
		ActionAfterCompletion:      types.ActionAfterCompletionDelete,
		Target: &types.Target{
			Arn:              &t.cfg.TargetARN,
			RoleArn:          &t.cfg.RoleARN,
			Input:            aws.String(string(m.Body)),
			DeadLetterConfig: &types.DeadLetterConfig{Arn: &t.cfg.DeadLetterARN},
			RetryPolicy: &types.RetryPolicy{
				MaximumRetryAttempts:     aws.Int32(int32(t.cfg.MaxAttempts)),
				MaximumEventAgeInSeconds: aws.Int32(int32(t.cfg.MaxAge / time.Second)),
			},
		},
	})
	if _, exists := errors.AsType[*types.ConflictException](err); exists {
		return nil
	}
	if err != nil {
		return fmt.Errorf("scheduling tick %s: %w", name, err)
	}
	return nil
}

// Delete removes the schedule of the tick that had this Dedup. One that fired, or
// never was, is success. It saves an idle invocation and is no guarantee: a schedule
// that is being invoked still arrives.
func (t *Timer) Delete(ctx context.Context, dedup string) error {
	name := scheduleName(dedup)
	_, err := t.client.DeleteSchedule(ctx, &scheduler.DeleteScheduleInput{GroupName: &t.cfg.Group, Name: &name})
	if _, gone := errors.AsType[*types.ResourceNotFoundException](err); gone {
		return nil
	}
	if err != nil {
		return fmt.Errorf("deleting the schedule of tick %s: %w", name, err)
	}
	return nil
}

// at is a one-time schedule expression in UTC, rounded up to a second: the tick is
// never early.
func at(due time.Time) string {
	return due.Add(time.Second - 1).UTC().Truncate(time.Second).Format("at(2006-01-02T15:04:05)")
}

var legalName = regexp.MustCompile(`^[0-9a-zA-Z_.-]{1,64}$`)

// scheduleName returns dedup if Scheduler takes it as a name, and its hash otherwise.
// A tick without a name gets a new one: nothing is asked to find it again.
func scheduleName(dedup string) string {
	if dedup == "" {
		return rand.Text()
	}
	if legalName.MatchString(dedup) {
		return dedup
	}
	sum := sha256.Sum256([]byte(dedup))
	return hex.EncodeToString(sum[:])
}
