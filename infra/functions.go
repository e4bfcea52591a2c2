package main

import (
	"path/filepath"
	"strings"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"
	"github.com/aws/jsii-runtime-go"
)

// The functions, by the names of their folders.
const (
	ingress   = "ingress"
	executor  = "executor"
	reconcile = "reconcile"
)

const (
	// ingressTimeout is below the API's own limit of 30 s: whoever waits gets an answer.
	ingressTimeout = 29 * time.Second
	// reconcileTimeout is ample for one conversation's outstanding runs.
	reconcileTimeout = time.Minute
	// tickBatch is how many ticks one invocation gets at most.
	tickBatch = 10
	// deadTickConcurrency is the least there is: what killed a tick must not be fed.
	deadTickConcurrency = 2
)

// grant is one statement of a function's policy.
type grant struct {
	actions    []string
	resources  []*string
	conditions map[string]any
}

type functionSpec struct {
	name      string
	timeout   time.Duration
	memory    int
	env       map[string]*string
	grants    []grant
	recursive bool
}

// newFunction makes a function with a role and a log group of its own. recursive lets it cause
// more than about 16 invocations of itself in a row, after which Lambda would drop the
// message: ticks and handed-on runs do so by design, within budgets of their own.
func (s *stack) newFunction(spec functionSpec) awslambda.Function {
	id := strings.ToUpper(spec.name[:1]) + spec.name[1:]
	logs := s.newLogGroup(id + "Logs")
	role := awsiam.NewRole(s.scope, jsii.String(id+"Role"), &awsiam.RoleProps{AssumedBy: service("lambda.amazonaws.com")})
	logs.GrantWrite(role)
	for _, g := range spec.grants {
		role.AddToPolicy(awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
			Actions: jsii.Strings(g.actions...), Resources: &g.resources, Conditions: &g.conditions,
		}))
	}
	props := &awslambda.FunctionProps{
		Description:   jsii.String("Errand: " + spec.name),
		Code:          awslambda.Code_FromAsset(jsii.String(filepath.Join(s.cfg.Dist, spec.name)), nil),
		Runtime:       awslambda.Runtime_PROVIDED_AL2023(),
		Architecture:  architecture(s.cfg.Arch),
		Handler:       jsii.String("bootstrap"),
		Timeout:       seconds(spec.timeout),
		MemorySize:    jsii.Number(spec.memory),
		Environment:   &spec.env,
		Role:          role,
		LogGroup:      logs,
		LoggingFormat: awslambda.LoggingFormat_JSON,
	}
	if spec.recursive {
		props.RecursiveLoop = awslambda.RecursiveLoop_ALLOW
	}
	return awslambda.NewFunction(s.scope, jsii.String(id), props)
}

func (s *stack) newLogGroup(id string) awslogs.LogGroup {
	return awslogs.NewLogGroup(s.scope, jsii.String(id), &awslogs.LogGroupProps{
		Retention: awslogs.RetentionDays_ONE_MONTH, RemovalPolicy: s.removal(),
	})
}

func architecture(name string) awslambda.Architecture {
	if name == "arm64" {
		return awslambda.Architecture_ARM_64()
	}
	return awslambda.Architecture_X86_64()
}

// consume is what Lambda needs of a queue in the function's name, and what the function
// needs to hide a message for longer, or for less.
func (s *stack) consume(queues ...awssqs.Queue) grant {
	arns := make([]*string, len(queues))
	for i, q := range queues {
		arns[i] = q.QueueArn()
	}
	return grant{
		actions:   []string{"sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:ChangeMessageVisibility"},
		resources: arns,
	}
}

// feed hands the messages of a queue to a function. The limit is the mapping's, not a reserved concurrency:
// a throttled delivery would count as a receive, and end among the dead letters.
func (s *stack) feed(id string, function awslambda.Function, q awssqs.Queue, batch, concurrency int) {
	awslambda.NewEventSourceMapping(s.scope, &id, &awslambda.EventSourceMappingProps{
		Target: function, EventSourceArn: q.QueueArn(), BatchSize: jsii.Number(batch), MaxConcurrency: jsii.Number(concurrency),
		ReportBatchItemFailures: jsii.Bool(true),
	})
}
