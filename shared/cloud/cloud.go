// Package cloud wires the use cases over the AWS adapters, once for the three Lambdas:
// the twin of package serve, which wires them over one data folder.
package cloud

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/awsclient"
	"github.com/errand-dev/errand/shared/config"
	"github.com/errand-dev/errand/shared/core"
	"github.com/errand-dev/errand/shared/dynamostore"
	"github.com/errand-dev/errand/shared/ledger"
	"github.com/errand-dev/errand/shared/platform"
	"github.com/errand-dev/errand/shared/price"
	"github.com/errand-dev/errand/shared/s3blob"
	"github.com/errand-dev/errand/shared/schedulertimer"
	"github.com/errand-dev/errand/shared/sqsqueue"
	"github.com/errand-dev/errand/shared/subagent"
)

// Options of a Stack.
type Options struct {
	Config config.Deployment
	// StopBefore is how long before the end of its context an execution is handed on.
	// The executor alone has a use for it.
	StopBefore time.Duration
	// Coalesce says how many ends of runs the executor tells in one turn.
	Coalesce subagent.Coalescing
	// DeadTicksURL is the address of the queue DeadTicks, which reconcile alone drains.
	DeadTicksURL string
	// Clients are those of the environment if nil, Agents those of package cloud.
	Clients *awsclient.Clients
	Agents  *agent.Registry
	// Now is the clock, time.Now if nil.
	Now func() time.Time
	Log *slog.Logger
}

// DeadTicks names the dead letters of platform.Ticks as a queue of its own.
const DeadTicks = "dead-" + platform.Ticks

// Stack is everything of one process.
type Stack struct {
	*core.Core
	// Queues are for whoever handles their messages.
	Queues *sqsqueue.Queues
}

// New wires a stack. It reads the environment and calls no service.
func New(ctx context.Context, o Options) (*Stack, error) {
	var err error
	if o.Clients == nil {
		if o.Clients, err = awsclient.New(ctx, awsclient.Config{}); err != nil {
			return nil, err
		}
	}
	if o.Agents == nil {
		if o.Agents, err = agents(o.Config.Lab); err != nil {
			return nil, err
		}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	prices, err := price.Load(o.Config.Prices)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", config.Prices, err)
	}
	return wire(o, prices), nil
}

func wire(o Options, prices price.Table) *Stack {
	c := o.Config
	queues := sqsqueue.New(o.Clients.SQS, map[string]sqsqueue.URLs{
		platform.Turns: {Queue: c.TurnsURL}, platform.Runs: {Queue: c.RunsURL},
		platform.Ticks: {Queue: c.TicksURL, DeadLetters: o.DeadTicksURL}, DeadTicks: {Queue: o.DeadTicksURL},
	})
	store := platform.Join(dynamostore.New(o.Clients.DynamoDB, c.Table), sender(queues, o), s3blob.New(o.Clients.S3, c.Bucket, c.BlobPrefix))
	return &Stack{Queues: queues, Core: core.New(core.Config{
		Ledger: ledger.New(store, subagent.DefaultTerms.WithLease(c.Lease), o.Now, ledger.RandomNonce),
		Agents: o.Agents, Cadence: c.Cadence, MaxConcurrentRuns: c.MaxRuns, Prices: prices,
		Obey: c.Controls, NoSchedules: !c.DynamicSchedules, LongTimers: c.Schedules != (config.Schedules{}),
		Coalesce: o.Coalesce, StopBefore: o.StopBefore, ProgressEvery: progressEvery, Log: o.Log,
	})}
}

// progressEvery is the shortest pause between two stored progress snapshots of a run:
// each is a write.
const progressEvery = 10 * time.Second

// What EventBridge Scheduler does about a tick that it cannot hand to the function.
// Within this time the tick is sent to the dead letters, and lives on there.
const (
	scheduleAttempts = 10
	scheduleAge      = 5 * time.Minute
)

// sender returns the queues, behind the schedules of long ticks where there are any.
func sender(queues *sqsqueue.Queues, o Options) platform.Sender {
	s := o.Config.Schedules
	if s == (config.Schedules{}) {
		return queues
	}
	return schedulertimer.New(queues, o.Clients.Scheduler, schedulertimer.Config{
		Group: s.Group, TargetARN: s.TargetARN, RoleARN: s.RoleARN, DeadLetterARN: s.DeadLetterARN,
		MaxAttempts: scheduleAttempts, MaxAge: scheduleAge, Now: o.Now,
	})
}
