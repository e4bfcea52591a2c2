package main

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/assertions"
	"github.com/aws/jsii-runtime-go"
	"github.com/cdklabs/cdk-nag-go/cdknag/v2"
	"github.com/google/go-cmp/cmp"
)

const (
	// How the names of objects and schedules end is known at run time only.
	someBlobs     = "the objects under blobs/ are named by their content"
	someSchedules = "the schedules of the group are made by the functions, each under a name of its own"
	driven        = "it is invoked by queues, whose own redrive keeps what it cannot handle"
	redrives      = "the queue's redrive policy keeps what fails; a destination of a queue's mapping would get what is among the dead letters already"
	isDead        = "it holds dead letters: where they end is an operator, who is alarmed"
	untraced      = "the logs of one run have its id in every line, and docs/operations.md follows it through the functions; a trace of each would cost as much as its requests"
)

// accepted are the findings of cdk-nag that are meant, each with why. It is kept here and not
// with the resources: suppressions there would be part of the template.
var accepted = map[string]string{
	"AwsSolutions-S1 Blobs":                                           "who reads blobs is three roles that this stack makes; a log of each request would need another bucket, and cost as much as the requests",
	"AwsSolutions-SNS3 Alarms":                                        "CloudWatch alone publishes, over TLS; a policy would replace the default one, which lets it",
	"AwsSolutions-IAM5 IngressRole blobs/*":                           someBlobs,
	"AwsSolutions-IAM5 ExecutorRole blobs/*":                          someBlobs,
	"AwsSolutions-IAM5 ReconcileRole blobs/*":                         someBlobs,
	"AwsSolutions-IAM5 IngressRole schedule/*":                        someSchedules,
	"AwsSolutions-IAM5 ExecutorRole schedule/*":                       someSchedules,
	"AwsSolutions-IAM5 ReconcileRole schedule/*":                      someSchedules,
	"AwsSolutions-APIG4 ApiCallbackRoute":                             "the token in the path is the credential: signed, for one wait alone, and verified by ingress before anything is read",
	"Serverless-LambdaDLQ Ingress":                                    "it is invoked by the API, which gets the error",
	"Serverless-LambdaDLQ Executor":                                   driven,
	"Serverless-LambdaDLQ Reconcile":                                  "what fails of a schedule's invocation goes to the queue of ticks (ReconcileFailures), the rest is invoked by queues",
	"Serverless-LambdaEventSourceMappingDestination TurnsMapping":     redrives,
	"Serverless-LambdaEventSourceMappingDestination RunsMapping":      redrives,
	"Serverless-LambdaEventSourceMappingDestination TicksMapping":     redrives,
	"Serverless-LambdaEventSourceMappingDestination DeadTicksMapping": "a dead tick that cannot be handled either stays where it is, and is alarmed",
	"Serverless-SQSRedrivePolicy DeadTurns":                           isDead,
	"Serverless-SQSRedrivePolicy DeadRuns":                            isDead,
	"Serverless-SQSRedrivePolicy DeadTicks":                           isDead,
	"Serverless-LambdaTracing Ingress":                                untraced,
	"Serverless-LambdaTracing Executor":                               untraced,
	"Serverless-LambdaTracing Reconcile":                              untraced,
}

// TestCdkNagFindsOnlyWhatIsAcceptedWithAReason runs the rules for AWS solutions and for
// serverless ones over both variants. A reason for what is not found any more fails too.
//
// What they do not see is asked for elsewhere: recovery and expiry of the table, deletion
// protection (TestTheTableIsWhatTheStoreExpects), retention of logs, RecursiveLoop
// (TestEachFunctionIsBuiltAndLoggedInTheSameWay), the trust of the scheduler's role.
func TestCdkNagFindsOnlyWhatIsAcceptedWithAReason(t *testing.T) {
	for _, auth := range []string{"jwt", "iam"} {
		found := nag(t, context("prod", "auth", auth))
		if diff := cmp.Diff(slices.Sorted(maps.Keys(accepted)), found); diff != "" {
			t.Errorf("%s: (-accepted +found)\n%s", auth, diff)
		}
	}
	for finding, why := range accepted {
		if len(strings.Fields(why)) < 4 {
			t.Errorf("%s is accepted because %q", finding, why)
		}
	}
}

// nag returns the findings, errors and warnings, as "rule resource [wildcard]", sorted.
func nag(t *testing.T, context func(string) string) []string {
	t.Helper()
	flags, err := featureFlags()
	if err != nil {
		t.Fatal(err)
	}
	// With it, a finding would be a panic.
	flags["@aws-cdk/core:annotationsInValidationReport"] = false
	out := t.TempDir()
	app := awscdk.NewApp(&awscdk.AppProps{Context: &flags, Outdir: &out, BuiltinCloudFormationValidation: jsii.Bool(false), AnalyticsReporting: jsii.Bool(false)})
	cfg, err := ConfigFrom(context)
	if err != nil {
		t.Fatal(err)
	}
	stack := NewStack(app, cfg)
	awscdk.Aspects_Of(app).Add(cdknag.NewAwsSolutionsChecks(nil), nil)
	awscdk.Aspects_Of(app).Add(cdknag.NewServerlessChecks(nil), nil)
	app.Synth(nil)
	annotations := assertions.Annotations_FromStack(stack)
	messages := append(*annotations.FindError(jsii.String("*"), assertions.Match_AnyValue()),
		*annotations.FindWarning(jsii.String("*"), assertions.Match_AnyValue())...)
	var found []string
	for _, m := range messages {
		rule, _, _ := strings.Cut(fmt.Sprint(m.Entry.Data), ":")
		rule, wildcard, _ := strings.Cut(rule, "[")
		finding := rule + " " + strings.Split(*m.Id, "/")[2]
		if wildcard != "" {
			finding += " " + wildcardOf(fmt.Sprint(m.Entry.Data))
		}
		found = append(found, finding)
	}
	slices.Sort(found)
	return found
}

var lastPart = regexp.MustCompile(`(\w+)/(?:errand-prod/)?\*\]`)

// wildcardOf shortens the resource of an IAM5 finding to what its asterisk stands for.
func wildcardOf(message string) string {
	if part := lastPart.FindStringSubmatch(message); part != nil {
		return part[1] + "/*"
	}
	return message
}
