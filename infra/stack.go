package main

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awss3"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/errand-dev/errand/shared/config"
)

// stack is what the parts of a deployment need of each other.
type stack struct {
	scope     awscdk.Stack
	cfg       Config
	table     awsdynamodb.Table
	bucket    awss3.Bucket
	queues    queues
	schedules schedules
}

// NewStack adds the deployment to app. It is one stack, named after its stage; ids of
// what holds data must never change.
func NewStack(app constructs.Construct, cfg Config) awscdk.Stack {
	s := &stack{cfg: cfg, scope: awscdk.NewStack(app, jsii.String("errand-"+cfg.Stage), &awscdk.StackProps{
		Description:           jsii.String("Errand: durable background subagents (" + cfg.Stage + ")"),
		TerminationProtection: &cfg.Keep,
		Synthesizer:           synthesizer(cfg),
	})}
	s.table, s.bucket = s.newTable(), s.newBucket()
	s.queues, s.schedules = s.newQueues(), s.newSchedules()

	// The two others hand its address to Scheduler, so it comes first.
	reconciler := s.newFunction(functionSpec{
		name: reconcile, timeout: reconcileTimeout, memory: cfg.ReconcileMemory, recursive: true,
		env:    with(s.environment(), config.DeadTicksURL, s.queues.ticks.dead.QueueUrl()),
		grants: append(s.use(), s.consume(s.queues.ticks.live, s.queues.ticks.dead)),
	})
	s.feed("TicksMapping", reconciler, s.queues.ticks.live, tickBatch, cfg.Ticks)
	s.feed("DeadTicksMapping", reconciler, s.queues.ticks.dead, tickBatch, deadTickConcurrency)
	s.invokeBySchedule(reconciler)

	environment := with(s.environment(), config.ScheduleTarget, reconciler.FunctionArn())
	worker := s.newFunction(functionSpec{
		name: executor, timeout: cfg.ExecutorTimeout, memory: cfg.ExecutorMemory, recursive: true, env: environment,
		grants: append(s.use(), s.deleteRows(), s.consume(s.queues.turns.live, s.queues.runs.live)),
	})
	s.feed("TurnsMapping", worker, s.queues.turns.live, 1, cfg.Turns)
	s.feed("RunsMapping", worker, s.queues.runs.live, 1, cfg.Runs)

	front := s.newFunction(functionSpec{
		name: ingress, timeout: ingressTimeout, memory: cfg.IngressMemory, env: environment, grants: append(s.use(), s.deleteRows(), s.deleteBlobs()),
	})
	api := s.newAPI(front)
	s.newAlarms(api, front, worker, reconciler)
	s.newDashboard(api, front, worker, reconciler)
	s.outputs(api, front, worker, reconciler)
	return s.scope
}

// synthesizer has an emulator's stack deployed with the credentials at hand: the roles that the
// CDK's bootstrap makes for it have conditions that emulators do not know. Nil is the CDK's own choice.
func synthesizer(cfg Config) awscdk.IStackSynthesizer {
	if cfg.Stage == "local" {
		return awscdk.NewCliCredentialsStackSynthesizer(nil)
	}
	return nil
}

// use is what every function may do: they all read and write state, and wake each other.
func (s *stack) use() []grant {
	return []grant{
		{actions: []string{"dynamodb:GetItem", "dynamodb:BatchGetItem", "dynamodb:Query", "dynamodb:PutItem"}, resources: []*string{s.table.TableArn()}},
		{actions: []string{"s3:GetObject", "s3:PutObject"}, resources: []*string{s.blobs()}},
		// Without it S3 says "forbidden" of an object that does not exist.
		{actions: []string{"s3:ListBucket"}, resources: []*string{s.bucket.BucketArn()}},
		{actions: []string{"sqs:SendMessage"}, resources: []*string{s.queues.turns.live.QueueArn(), s.queues.runs.live.QueueArn(), s.queues.ticks.live.QueueArn()}},
		{actions: []string{"scheduler:CreateSchedule"}, resources: s.schedules.arns},
		{actions: []string{"iam:PassRole"}, resources: []*string{s.schedules.role.RoleArn()}, conditions: map[string]any{
			"StringEquals": map[string]any{"iam:PassedToService": schedulerService},
		}},
	}
}

// deleteRows is for who clears a conversation, and for who finds that his was cleared.
func (s *stack) deleteRows() grant {
	return grant{actions: []string{"dynamodb:DeleteItem"}, resources: []*string{s.table.TableArn()}}
}

// deleteBlobs is for who clears a conversation.
func (s *stack) deleteBlobs() grant {
	return grant{actions: []string{"s3:DeleteObject"}, resources: []*string{s.blobs()}}
}

// blobs matches every blob: each is named by its content.
func (s *stack) blobs() *string { return s.bucket.ArnForObjects(jsii.String(blobPrefix + "*")) }

// environment is what every function reads. An empty setting is left to its default.
func (s *stack) environment() map[string]*string {
	env := map[string]*string{
		config.Table: s.table.TableName(), config.Bucket: s.bucket.BucketName(), config.BlobPrefix: jsii.String(blobPrefix),
		config.TurnsURL: s.queues.turns.live.QueueUrl(), config.RunsURL: s.queues.runs.live.QueueUrl(), config.TicksURL: s.queues.ticks.live.QueueUrl(),
		config.ScheduleGroup: s.schedules.group.ScheduleGroupName(), config.ScheduleRole: s.schedules.role.RoleArn(),
		config.ScheduleDead: s.queues.ticks.dead.QueueArn(),
	}
	optional := map[string]string{config.LogLevel: s.cfg.LogLevel, config.Cadence: s.cfg.Cadence}
	if s.cfg.Lease > 0 {
		optional[config.Lease] = s.cfg.Lease.String()
	}
	if s.cfg.Lab {
		optional[config.Lab] = "true"
	}
	for name, value := range optional {
		if value != "" {
			env[name] = &value
		}
	}
	return env
}

func with(env map[string]*string, name string, value *string) map[string]*string {
	env[name] = value
	return env
}

// removal is what becomes of a resource with data when the stack goes.
func (s *stack) removal() awscdk.RemovalPolicy {
	if s.cfg.Keep {
		return awscdk.RemovalPolicy_RETAIN
	}
	return awscdk.RemovalPolicy_DESTROY
}

func service(name string) awsiam.IPrincipal { return awsiam.NewServicePrincipal(&name, nil) }
