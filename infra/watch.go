package main

import (
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigatewayv2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatchactions"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssns"
	"github.com/aws/jsii-runtime-go"

	"github.com/errand-dev/errand/shared/config"
)

// watchPeriod is what one value of a metric covers.
const watchPeriod = 5 * time.Minute

// newAlarms watches what must not happen. docs/operations.md says of each what to do.
func (s *stack) newAlarms(api awsapigatewayv2.CfnApi, front, worker, reconciler awslambda.Function) {
	topic := awssns.NewTopic(s.scope, jsii.String("Alarms"), nil)
	if s.cfg.AlarmEmail != "" {
		awssns.NewSubscription(s.scope, jsii.String("AlarmEmail"), &awssns.SubscriptionProps{
			Topic: topic, Protocol: awssns.SubscriptionProtocol_EMAIL, Endpoint: &s.cfg.AlarmEmail,
		})
	}
	action := awscloudwatchactions.NewSnsAction(topic)
	alarm := func(id, description string, metric awscloudwatch.IMetric, least float64) {
		awscloudwatch.NewAlarm(s.scope, &id, &awscloudwatch.AlarmProps{
			Metric: metric, Threshold: &least, EvaluationPeriods: jsii.Number(1), AlarmDescription: &description,
			ComparisonOperator: awscloudwatch.ComparisonOperator_GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
			TreatMissingData:   awscloudwatch.TreatMissingData_NOT_BREACHING,
		}).AddAlarmAction(action)
	}
	deadTurns, deadRuns, deadTicks := s.deadLetters()
	alarm("TurnsDeadLetters", "A turn could not be handled.", deadTurns, 1)
	alarm("RunsDeadLetters", "The job of a run could not be handled.", deadRuns, 1)
	alarm("TicksDeadLetters", "Ticks died. Reconcile sends them again; what stays is unreadable.", deadTicks, 1)
	q := s.queues
	// A message is as old as the work on it, so only what outlives an execution is late.
	late := (2*s.cfg.ExecutorTimeout + visibilityMargin).Seconds()
	alarm("TurnsLate", "Turns wait for executors, or one does not end.", q.turns.live.MetricApproximateAgeOfOldestMessage(every(watchPeriod)), late)
	alarm("RunsLate", "Runs wait for executors, or one does not end.", q.runs.live.MetricApproximateAgeOfOldestMessage(every(watchPeriod)), late)
	alarm("TicksLate", "Ticks are not handled in time.", q.ticks.live.MetricApproximateAgeOfOldestMessage(every(watchPeriod)), (10 * time.Minute).Seconds())
	for _, f := range []struct {
		id string
		awslambda.Function
	}{{"Ingress", front}, {"Executor", worker}, {"Reconcile", reconciler}} {
		alarm(f.id+"Errors", f.id+" failed, or was killed by its time-out.", f.MetricErrors(every(watchPeriod)), 1)
		alarm(f.id+"Throttles", f.id+" was throttled: the account is out of concurrency.", f.MetricThrottles(every(watchPeriod)), 1)
	}
	alarm("ApiFailures", "The API answered with 5xx.", apiMetric(api, "5xx", "Sum"), 1)
	alarm("BackboneOverdue", "A conversation's tick came ten minutes late.", ownMetric(reconciler, config.TickLateness), (10 * time.Minute).Seconds())
	alarm("RunLoops", "A run goes through executions without an end.", ownMetric(reconciler, config.RunExecutions), loops)
}

// loops is how many executions of one run are worth a look: a tenth of what ends it.
const loops = 1000

// ownMetric is one that the function writes into its log.
func ownMetric(function awslambda.Function, name string) awscloudwatch.IMetric {
	return awscloudwatch.NewMetric(&awscloudwatch.MetricProps{
		Namespace: jsii.String(config.MetricNamespace), MetricName: &name, Statistic: jsii.String("Maximum"), Period: seconds(watchPeriod),
		DimensionsMap: &map[string]*string{config.MetricDimension: function.FunctionName()},
	})
}

func every(d time.Duration) *awscloudwatch.MetricOptions {
	return &awscloudwatch.MetricOptions{Period: seconds(d)}
}

// deadLetters counts the dead letters of each queue. Dead ticks are hidden, while they rest and if
// they cannot be read; the others lie there for all to see.
func (s *stack) deadLetters() (turns, runs, ticks awscloudwatch.IMetric) {
	return s.queues.turns.dead.MetricApproximateNumberOfMessagesVisible(every(watchPeriod)),
		s.queues.runs.dead.MetricApproximateNumberOfMessagesVisible(every(watchPeriod)),
		s.queues.ticks.dead.MetricApproximateNumberOfMessagesNotVisible(every(watchPeriod))
}

func apiMetric(api awsapigatewayv2.CfnApi, name, statistic string) awscloudwatch.IMetric {
	return awscloudwatch.NewMetric(&awscloudwatch.MetricProps{
		Namespace: jsii.String("AWS/ApiGateway"), MetricName: &name, Statistic: &statistic, Period: seconds(watchPeriod),
		DimensionsMap: &map[string]*string{"ApiId": api.Ref()},
	})
}

// newDashboard shows on one page whether work gets in, waits, is done, and fails.
func (s *stack) newDashboard(api awsapigatewayv2.CfnApi, front, worker, reconciler awslambda.Function) {
	options, q := every(watchPeriod), s.queues
	deadTurns, deadRuns, deadTicks := s.deadLetters()
	graph := func(title string, metrics ...awscloudwatch.IMetric) awscloudwatch.IWidget {
		return awscloudwatch.NewGraphWidget(&awscloudwatch.GraphWidgetProps{Title: &title, Left: &metrics, Width: jsii.Number(8)})
	}
	row := func(widgets ...awscloudwatch.IWidget) *[]awscloudwatch.IWidget { return &widgets }
	awscloudwatch.NewDashboard(s.scope, jsii.String("Dashboard"), &awscloudwatch.DashboardProps{Widgets: &[]*[]awscloudwatch.IWidget{
		row(
			graph("Requests", apiMetric(api, "Count", "Sum"), apiMetric(api, "4xx", "Sum"), apiMetric(api, "5xx", "Sum")),
			graph("Latency p95 (ms)", apiMetric(api, "Latency", "p95")),
			graph("Dead letters", deadTurns, deadRuns, deadTicks),
		),
		row(
			graph("Waiting", q.turns.live.MetricApproximateNumberOfMessagesVisible(options), q.runs.live.MetricApproximateNumberOfMessagesVisible(options), q.ticks.live.MetricApproximateNumberOfMessagesVisible(options)),
			graph("Oldest (s)", q.turns.live.MetricApproximateAgeOfOldestMessage(options), q.runs.live.MetricApproximateAgeOfOldestMessage(options), q.ticks.live.MetricApproximateAgeOfOldestMessage(options)),
			graph("Under way", q.turns.live.MetricApproximateNumberOfMessagesNotVisible(options), q.runs.live.MetricApproximateNumberOfMessagesNotVisible(options)),
		),
		row(
			graph("Invocations", front.MetricInvocations(options), worker.MetricInvocations(options), reconciler.MetricInvocations(options)),
			graph("Duration (ms)", front.MetricDuration(options), worker.MetricDuration(options), reconciler.MetricDuration(options)),
			graph("Errors and throttles", front.MetricErrors(options), worker.MetricErrors(options), reconciler.MetricErrors(options), front.MetricThrottles(options), worker.MetricThrottles(options), reconciler.MetricThrottles(options)),
		),
	}})
}

// outputs are what an operator and the scenario tests need to find.
func (s *stack) outputs(api awsapigatewayv2.CfnApi, front, worker, reconciler awslambda.Function) {
	for _, o := range []struct {
		id    string
		value *string
	}{
		{"ApiId", api.Ref()}, {"ApiUrl", api.AttrApiEndpoint()}, {"TableName", s.table.TableName()}, {"BucketName", s.bucket.BucketName()},
		{"TurnsUrl", s.queues.turns.live.QueueUrl()}, {"RunsUrl", s.queues.runs.live.QueueUrl()}, {"TicksUrl", s.queues.ticks.live.QueueUrl()},
		{"DeadTurnsUrl", s.queues.turns.dead.QueueUrl()}, {"DeadRunsUrl", s.queues.runs.dead.QueueUrl()}, {"DeadTicksUrl", s.queues.ticks.dead.QueueUrl()},
		{"IngressName", front.FunctionName()}, {"ExecutorName", worker.FunctionName()}, {"ReconcileName", reconciler.FunctionName()},
	} {
		awscdk.NewCfnOutput(s.scope, jsii.String(o.id+"Output"), &awscdk.CfnOutputProps{Value: o.value}).OverrideLogicalId(&o.id)
	}
}
