// Package config names the environment variables of the three Lambdas and reads them
// into one typed value per function. The template sets what is named here, so neither
// side can misspell the other's variable.
//
// Reading reports every missing or invalid variable at once.
package config

import (
	"log/slog"
	"time"

	"github.com/errand-dev/errand/shared/subagent"
)

// The variables. Required by every function:
const (
	Table    = "ERRAND_TABLE"
	TurnsURL = "ERRAND_TURNS_URL"
	RunsURL  = "ERRAND_RUNS_URL"
	TicksURL = "ERRAND_TICKS_URL"
	Bucket   = "ERRAND_BUCKET"
)

// Required by reconcile alone: the address of the dead ticks that it drains.
const DeadTicksURL = "ERRAND_DEAD_TICKS_URL"

// The schedules of long ticks: all of them, or none. Without them a long tick is a
// delayed message. ScheduleTarget is the ARN of the reconcile function; that function
// itself leaves it out, since a template cannot name a function in its own environment.
const (
	ScheduleGroup  = "ERRAND_SCHEDULE_GROUP"
	ScheduleRole   = "ERRAND_SCHEDULE_ROLE_ARN"
	ScheduleDead   = "ERRAND_SCHEDULE_DEAD_LETTER_ARN"
	ScheduleTarget = "ERRAND_SCHEDULE_TARGET_ARN"
)

// Optional, with their defaults.
const (
	// Cadence is a comma-separated list of pauses: 5s,15s,30s,2m.
	Cadence = "ERRAND_CADENCE"
	// Lease is the validity of a lease or claim: 1m.
	Lease = "ERRAND_LEASE"
	// MaxRuns is the cap of live runs per conversation: 64.
	MaxRuns = "ERRAND_MAX_CONCURRENT_RUNS"
	// Prices is a file of prices in the function's package, over the default table: none.
	Prices = "ERRAND_PRICES"
	// BlobPrefix begins the name of every object in the bucket: blobs/.
	BlobPrefix = "ERRAND_BLOB_PREFIX"
	// LogLevel is debug, info, warn or error: info.
	LogLevel = "ERRAND_LOG_LEVEL"
	// Lab registers the lab agents: false.
	Lab = "ERRAND_LAB"
	// DynamicSchedules lets schedules be created and changed: true.
	DynamicSchedules = "ERRAND_DYNAMIC_SCHEDULES"
	// Controls obeys what operators set for agents, for a read every few seconds in each
	// process that takes new work: true.
	Controls = "ERRAND_CONTROLS"
	// StopBefore is how long before its time-out an invocation hands its work on: 30s,
	// and never more than a quarter of the time-out. Executor alone.
	StopBefore = "ERRAND_STOP_BEFORE"
	// CoalesceMax is how many ends of runs, that came while the conversation was busy, are told
	// in one turn: 16; 1 tells each in its own. CoalesceWindow is how long after the first
	// the others may come: 10m. Executor alone.
	CoalesceMax    = "ERRAND_COALESCE_MAX"
	CoalesceWindow = "ERRAND_COALESCE_WINDOW"
	// Concurrency is how many records of a batch are worked on at a time: 10.
	// Executor and reconcile.
	Concurrency = "ERRAND_CONCURRENCY"
)

// longestDelay is SQS's; a longer tick needs a schedule.
const longestDelay = 15 * time.Minute

// Deployment is what the functions have in common.
type Deployment struct {
	Table              string
	TurnsURL, RunsURL  string
	TicksURL           string
	Bucket, BlobPrefix string
	// Prices is the path of a file of prices, or empty.
	Prices string
	// Schedules is zero where long ticks are delayed messages.
	Schedules Schedules
	Cadence   subagent.Cadence
	Lease     time.Duration
	MaxRuns   int
	Lab       bool
	LogLevel  slog.Level
	// DynamicSchedules and Controls are on unless switched off.
	DynamicSchedules, Controls bool
}

// Schedules says where the one-time schedules of long ticks live, and what they invoke.
type Schedules struct{ Group, RoleARN, DeadLetterARN, TargetARN string }

// Ingress configures the function behind the HTTP API.
type Ingress struct{ Deployment }

// Executor configures the function behind turns and runs.
type Executor struct {
	Deployment
	StopBefore  time.Duration
	Coalesce    subagent.Coalescing
	Concurrency int
}

// Reconcile configures the function behind ticks and schedules.
type Reconcile struct {
	Deployment
	DeadTicksURL string
	Concurrency  int
}

// IngressFromEnv reads the configuration of ingress.
func IngressFromEnv(getenv func(string) string) (Ingress, error) {
	r := reader{getenv: getenv}
	c := Ingress{Deployment: r.deployment()}
	return c, r.err()
}

// ExecutorFromEnv reads the configuration of executor.
func ExecutorFromEnv(getenv func(string) string) (Executor, error) {
	r := reader{getenv: getenv}
	c := Executor{
		Deployment: r.deployment(),
		StopBefore: r.duration(StopBefore, 30*time.Second, time.Second, 5*time.Minute),
		Coalesce: subagent.Coalescing{
			Max:    r.number(CoalesceMax, subagent.DefaultCoalescing.Max, 1, 64),
			Window: r.duration(CoalesceWindow, subagent.DefaultCoalescing.Window, time.Millisecond, 24*time.Hour),
		},
		Concurrency: r.number(Concurrency, 10, 1, 1000),
	}
	return c, r.err()
}

// ReconcileFromEnv reads the configuration of reconcile. Its schedules invoke itself.
func ReconcileFromEnv(getenv func(string) string) (Reconcile, error) {
	r := reader{getenv: getenv, isTarget: true}
	c := Reconcile{
		Deployment:   r.deployment(),
		DeadTicksURL: r.url(DeadTicksURL),
		Concurrency:  r.number(Concurrency, 10, 1, 1000),
	}
	return c, r.err()
}

func (r *reader) deployment() Deployment {
	d := Deployment{
		Table: r.text(Table), TurnsURL: r.url(TurnsURL), RunsURL: r.url(RunsURL), TicksURL: r.url(TicksURL),
		Bucket: r.text(Bucket), BlobPrefix: r.optional(BlobPrefix, "blobs/"),
		Prices:   r.optional(Prices, ""),
		Cadence:  r.cadence(),
		Lease:    r.duration(Lease, subagent.DefaultTerms.Lease, time.Second, time.Hour),
		MaxRuns:  r.number(MaxRuns, subagent.DefaultCap, 1, subagent.MaxOpen),
		Lab:      r.boolean(Lab, false),
		LogLevel: r.level(),

		DynamicSchedules: r.boolean(DynamicSchedules, true),
		Controls:         r.boolean(Controls, true),
	}
	d.Schedules = r.schedules(d.Cadence)
	return d
}
