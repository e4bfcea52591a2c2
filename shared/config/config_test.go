package config_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/errand-dev/errand/shared/config"
	"github.com/errand-dev/errand/shared/subagent"
)

// least is an environment with nothing but what every function requires.
func least() map[string]string {
	return map[string]string{
		config.Table: "table", config.Bucket: "bucket", config.TurnsURL: "https://sqs/1/turns.fifo",
		config.RunsURL: "https://sqs/1/runs", config.TicksURL: "https://sqs/1/ticks", config.DeadTicksURL: "https://sqs/1/ticks-dlq",
	}
}

func from(env map[string]string) func(string) string {
	return func(name string) string { return env[name] }
}

func TestDefaultsFillWhatIsNotSet(t *testing.T) {
	t.Parallel()
	shared := config.Deployment{
		Table: "table", Bucket: "bucket", BlobPrefix: "blobs/", TurnsURL: "https://sqs/1/turns.fifo", RunsURL: "https://sqs/1/runs",
		TicksURL: "https://sqs/1/ticks", Cadence: subagent.DefaultCadence, Lease: time.Minute, MaxRuns: 64, LogLevel: slog.LevelInfo,
		DynamicSchedules: true, Controls: true,
	}
	ingress, err := config.IngressFromEnv(from(least()))
	if diff := cmp.Diff(config.Ingress{Deployment: shared}, ingress); diff != "" || err != nil {
		t.Errorf("ingress (-want +got), %v:\n%s", err, diff)
	}
	executor, err := config.ExecutorFromEnv(from(least()))
	if diff := cmp.Diff(config.Executor{Deployment: shared, StopBefore: 30 * time.Second, Coalesce: subagent.DefaultCoalescing, Concurrency: 10}, executor); diff != "" || err != nil {
		t.Errorf("executor (-want +got), %v:\n%s", err, diff)
	}
	reconcile, err := config.ReconcileFromEnv(from(least()))
	if diff := cmp.Diff(config.Reconcile{Deployment: shared, DeadTicksURL: "https://sqs/1/ticks-dlq", Concurrency: 10}, reconcile); diff != "" || err != nil {
		t.Errorf("reconcile (-want +got), %v:\n%s", err, diff)
	}
}

func TestEverythingWrongIsReportedAtOnce(t *testing.T) {
	t.Parallel()
	_, err := config.ExecutorFromEnv(from(map[string]string{
		config.RunsURL: "runs", config.Cadence: "5s,soon", config.Lease: "1h1s", config.MaxRuns: "257", config.Lab: "perhaps",
		config.DynamicSchedules: "no", config.Controls: "maybe",
		config.LogLevel: "loud", config.StopBefore: "0s", config.Concurrency: "none", config.ScheduleGroup: "errand",
	}))
	if err == nil {
		t.Fatal("accepted")
	}
	for _, name := range []string{
		config.Table, config.Bucket, config.TurnsURL, config.RunsURL, config.TicksURL, config.Cadence, config.Lease, config.MaxRuns,
		config.DynamicSchedules, config.Controls, config.Lab, config.LogLevel, config.StopBefore, config.Concurrency, config.ScheduleRole, config.ScheduleDead, config.ScheduleTarget,
	} {
		if !strings.Contains(err.Error(), name+" ") {
			t.Errorf("%s is not mentioned in: %v", name, err)
		}
	}
}

func TestReconcileSchedulesItself(t *testing.T) {
	t.Parallel()
	env := least()
	env[config.ScheduleGroup], env[config.ScheduleRole] = "errand", "arn:aws:iam::123456789012:role/service/timer"
	env[config.ScheduleDead] = "arn:aws:sqs:eu-west-1:123456789012:ticks"
	env["AWS_REGION"], env["AWS_LAMBDA_FUNCTION_NAME"] = "eu-west-1", "stack-reconcile-1"
	c, err := config.ReconcileFromEnv(from(env))
	want := config.Schedules{
		Group: "errand", RoleARN: env[config.ScheduleRole], DeadLetterARN: env[config.ScheduleDead],
		TargetARN: "arn:aws:lambda:eu-west-1:123456789012:function:stack-reconcile-1",
	}
	if diff := cmp.Diff(want, c.Schedules); diff != "" || err != nil {
		t.Errorf("(-want +got), %v:\n%s", err, diff)
	}
	env[config.ScheduleRole] = "role/timer"
	if _, err := config.ReconcileFromEnv(from(env)); err == nil || !strings.Contains(err.Error(), config.ScheduleRole) {
		t.Errorf("a role that is no ARN: %v", err)
	}
	if _, err := config.ExecutorFromEnv(from(env)); err == nil || !strings.Contains(err.Error(), config.ScheduleTarget+" is not set") {
		t.Errorf("an executor without a target: %v", err)
	}
}

func TestAPauseOverFifteenMinutesNeedsSchedules(t *testing.T) {
	t.Parallel()
	env := least()
	env[config.Cadence] = "5s, 20m"
	if _, err := config.IngressFromEnv(from(env)); err == nil || !strings.Contains(err.Error(), config.ScheduleGroup) {
		t.Errorf("without schedules: %v", err)
	}
	for _, name := range []string{config.ScheduleGroup, config.ScheduleRole, config.ScheduleDead, config.ScheduleTarget} {
		env[name] = "x"
	}
	c, err := config.IngressFromEnv(from(env))
	if diff := cmp.Diff(subagent.Cadence{5 * time.Second, 20 * time.Minute}, c.Cadence); diff != "" || err != nil {
		t.Errorf("with schedules (-want +got), %v:\n%s", err, diff)
	}
}
