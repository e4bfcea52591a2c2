package main

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsscheduler"
	"github.com/aws/jsii-runtime-go"
)

const schedulerService = "scheduler.amazonaws.com"

// schedules is the group of the one-time schedules of long ticks, and the role in which
// Scheduler invokes reconcile.
type schedules struct {
	group awsscheduler.ScheduleGroup
	role  awsiam.Role
	// arns matches every schedule of the group: each is made by a function, under a
	// name of its own.
	arns []*string
}

func (s *stack) newSchedules() schedules {
	group := awsscheduler.NewScheduleGroup(s.scope, jsii.String("Schedules"), &awsscheduler.ScheduleGroupProps{
		ScheduleGroupName: s.scope.StackName(), RemovalPolicy: awscdk.RemovalPolicy_DESTROY,
	})
	role := awsiam.NewRole(s.scope, jsii.String("SchedulerRole"), &awsiam.RoleProps{
		AssumedBy: awsiam.NewServicePrincipal(jsii.String(schedulerService), &awsiam.ServicePrincipalOpts{
			Conditions: &map[string]any{"StringEquals": map[string]any{
				"aws:SourceAccount": s.scope.Account(), "aws:SourceArn": group.ScheduleGroupArn(),
			}},
		}),
	})
	made := schedules{group: group, role: role, arns: []*string{s.schedulesIn(*group.ScheduleGroupName())}}
	if s.cfg.Stage == "local" {
		// MiniStack takes every schedule for one of the default group when it asks who may make it.
		made.arns = append(made.arns, s.schedulesIn("default"))
	}
	return made
}

func (s *stack) schedulesIn(group string) *string {
	return s.scope.FormatArn(&awscdk.ArnComponents{
		Service: jsii.String("scheduler"), Resource: jsii.String("schedule"), ResourceName: jsii.String(group + "/*"),
	})
}

// invokeBySchedule lets Scheduler invoke the function and leave what it cannot hand over with
// the dead ticks. What fails in the function itself goes to the ticks, after two more tries.
func (s *stack) invokeBySchedule(function awslambda.Function) {
	allow := func(role awsiam.IRole, action string, resource *string) {
		role.AddToPrincipalPolicy(awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
			Actions: jsii.Strings(action), Resources: &[]*string{resource},
		}))
	}
	allow(s.schedules.role, "lambda:InvokeFunction", function.FunctionArn())
	allow(s.schedules.role, "sqs:SendMessage", s.queues.ticks.dead.QueueArn())
	awslambda.NewCfnEventInvokeConfig(s.scope, jsii.String("ReconcileFailures"), &awslambda.CfnEventInvokeConfigProps{
		FunctionName: function.FunctionName(), Qualifier: jsii.String("$LATEST"), MaximumRetryAttempts: jsii.Number(2),
		DestinationConfig: &awslambda.CfnEventInvokeConfig_DestinationConfigProperty{
			OnFailure: &awslambda.CfnEventInvokeConfig_OnFailureProperty{Destination: s.queues.ticks.live.QueueArn()},
		},
	})
}
