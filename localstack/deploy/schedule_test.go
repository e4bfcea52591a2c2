package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/scheduler"
	"github.com/aws/aws-sdk-go-v2/service/scheduler/types"

	"github.com/errand-dev/errand/shared/api"
	"github.com/errand-dev/errand/shared/apiclient"
	"github.com/errand-dev/errand/shared/awsclient"
	"github.com/errand-dev/errand/shared/schedulertimer"
)

// fires creates schedules of either kind of timer, and one that is deleted before it is due: settled
// counts what the conversations heard.
func fires(t *testing.T, c *apiclient.Client, clients *awsclient.Clients) {
	soon := scheduleRun(t, c, "schedule-soon", 10*time.Second)
	deleteSchedule(t, c, scheduleRun(t, c, "schedule-soon", 10*time.Second))
	later := scheduleRun(t, c, "schedule-later", schedulertimer.Least+5*time.Second)
	if n := scheduled(t, clients, later.Conversation); n != 1 {
		t.Errorf("EventBridge Scheduler has %d schedules of %s", n, later.Conversation)
	}
	for _, s := range []api.Schedule{soon, later} {
		id := fmt.Sprintf("schedule:%s:%d", s.ID, s.NextAt.UnixMilli())
		await(t, s.Conversation+" has fired", func() bool {
			turn, err := c.Turn(t.Context(), s.Conversation, id)
			return err == nil && turn.Kind == "schedule" && turn.Done() && !turn.AcceptedAt.Before(s.NextAt.Time)
		})
		await(t, "the end of its run is told", func() bool { return heard(t, c, s.Conversation) > 0 })
		deleteSchedule(t, c, s)
		if left, err := c.Schedules(t.Context(), s.Conversation); err != nil || len(left) > 0 {
			t.Errorf("%s has the schedules %+v (%v)", s.Conversation, left, err)
		}
	}
}

// scheduleRun has a turn come so much later, in whole seconds, that dispatches a run.
func scheduleRun(t *testing.T, c *apiclient.Client, conversation string, ahead time.Duration) api.Schedule {
	t.Helper()
	s, err := c.CreateSchedule(t.Context(), conversation, api.ScheduleRequest{
		Expression: time.Now().UTC().Add(ahead).Format("at(2006-01-02T15:04:05)"), Message: `dispatch lab-echo {} {"notify":true}`,
	}, "")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func deleteSchedule(t *testing.T, c *apiclient.Client, s api.Schedule) {
	t.Helper()
	if err := c.DeleteSchedule(t.Context(), s.Conversation, s.ID); err != nil {
		t.Fatal(err)
	}
	_, err := c.Schedule(t.Context(), s.Conversation, s.ID)
	refused(t, "a schedule that was deleted", err, "not-found")
}

// eachSchedule hands on the schedules that EventBridge Scheduler keeps for the stack.
func eachSchedule(ctx context.Context, clients *awsclient.Clients, do func(*scheduler.GetScheduleOutput) error) error {
	group := aws.String(stackName)
	list, err := clients.Scheduler.ListSchedules(ctx, &scheduler.ListSchedulesInput{GroupName: group})
	if err != nil {
		return err
	}
	for _, s := range list.Schedules {
		schedule, err := clients.Scheduler.GetSchedule(ctx, &scheduler.GetScheduleInput{GroupName: group, Name: s.Name})
		if _, fired := errors.AsType[*types.ResourceNotFoundException](err); fired {
			continue
		}
		if err == nil {
			err = do(schedule)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// scheduled counts those of a conversation.
func scheduled(t *testing.T, clients *awsclient.Clients, conversation string) (n int) {
	t.Helper()
	err := eachSchedule(t.Context(), clients, func(s *scheduler.GetScheduleOutput) error {
		if strings.Contains(aws.ToString(s.Target.Input), fmt.Sprintf("%q", conversation)) {
			n++
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}
