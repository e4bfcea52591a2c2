package main

import (
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"
	"github.com/aws/jsii-runtime-go"

	"github.com/errand-dev/errand/shared/platform"
)

// queue is a queue with its dead letters.
type queue struct{ live, dead awssqs.Queue }

type queues struct{ turns, runs, ticks queue }

const (
	// A dead letter keeps the age it had, so it needs time beyond its queue's.
	retention     = 4 * 24 * time.Hour
	deadRetention = 14 * 24 * time.Hour
	// visibilityMargin is what a message stays hidden beyond its invocation.
	visibilityMargin = time.Minute
)

// newQueues makes turns, runs and ticks. AWS requires that a message stays hidden for as long as
// its function may run, and recommends six times that, for deliveries that are throttled.
// Turns and runs take the least: a dead executor's turn blocks its conversation
// meanwhile, and the mapping's own limit keeps it from being throttled.
func (s *stack) newQueues() queues {
	execution := s.cfg.ExecutorTimeout + visibilityMargin
	return queues{
		turns: s.newQueue("Turns", execution, true),
		runs:  s.newQueue("Runs", execution, false),
		ticks: s.newQueue("Ticks", 6*reconcileTimeout, false),
	}
}

func (s *stack) newQueue(id string, visibility time.Duration, fifo bool) queue {
	props := func(keep time.Duration) *awssqs.QueueProps {
		p := &awssqs.QueueProps{
			RetentionPeriod: seconds(keep), VisibilityTimeout: seconds(visibility), RemovalPolicy: s.removal(),
			Encryption: awssqs.QueueEncryption_SQS_MANAGED, EnforceSSL: jsii.Bool(s.cfg.speaksTLS()),
		}
		if fifo {
			p.Fifo = jsii.Bool(true)
			p.DeduplicationScope = awssqs.DeduplicationScope_MESSAGE_GROUP
			p.FifoThroughputLimit = awssqs.FifoThroughputLimit_PER_MESSAGE_GROUP_ID
		}
		return p
	}
	dead := awssqs.NewQueue(s.scope, jsii.String("Dead"+id), props(deadRetention))
	live := props(retention)
	live.DeadLetterQueue = &awssqs.DeadLetterQueue{Queue: dead, MaxReceiveCount: jsii.Number(platform.MaxReceives)}
	return queue{live: awssqs.NewQueue(s.scope, jsii.String(id), live), dead: dead}
}

func seconds(d time.Duration) awscdk.Duration {
	return awscdk.Duration_Seconds(jsii.Number(d.Seconds()))
}
