package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/errand-dev/errand/shared/config"
	"github.com/errand-dev/errand/shared/dynamostore"
	"github.com/errand-dev/errand/shared/platform"
)

func number(t *testing.T, value any) float64 {
	t.Helper()
	n, ok := value.(float64)
	if !ok {
		t.Fatalf("%v is no number", value)
	}
	return n
}

func TestEachFunctionIsBuiltAndLoggedInTheSameWay(t *testing.T) {
	roles := map[string]bool{}
	for id, f := range prod(t).of("AWS::Lambda::Function") {
		p := f.Properties
		got := []string{render(p["Runtime"]), strings.Join(list(p["Architectures"]), ""), render(at(p, "LoggingConfig", "LogFormat")), render(at(p, "LoggingConfig", "LogGroup")), render(p["Role"])}
		if diff := cmp.Diff([]string{"provided.al2023", "arm64", "JSON", id + "Logs", id + "Role.Arn"}, got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", id, diff)
		}
		roles[render(p["Role"])] = true
		// Lambda drops the 17th invocation of a chain. Ticks and handed-on runs make such
		// chains by design, a request never does.
		if loops := p["RecursiveLoop"] == "Allow"; loops != (id != "Ingress") {
			t.Errorf("%s: RecursiveLoop is %v", id, p["RecursiveLoop"])
		}
	}
	if len(roles) != 3 {
		t.Errorf("the functions have the roles %v", roles)
	}
	for id, group := range prod(t).of("AWS::Logs::LogGroup") {
		if group.Properties["RetentionInDays"] == nil {
			t.Errorf("%s is kept for ever", id)
		}
	}
}

// TestEachFunctionFindsInItsEnvironmentWhatItReads runs the very loaders of the functions on what the
// template sets, and asks for each variable that is set whether it is read.
func TestEachFunctionFindsInItsEnvironmentWhatItReads(t *testing.T) {
	for _, c := range []struct {
		stage string
		lab   bool
	}{{"prod", false}, {"dev", false}, {"local", true}} {
		for id, f := range synth(t, false, context(c.stage)).of("AWS::Lambda::Function") {
			read := map[string]bool{}
			set := at(f.Properties, "Environment", "Variables").(map[string]any)
			getenv := func(variable string) string {
				read[variable] = true
				switch {
				case variable == "AWS_REGION", variable == "AWS_LAMBDA_FUNCTION_NAME":
					return "set-by-lambda"
				case set[variable] == nil:
					return ""
				case strings.HasSuffix(variable, "_URL"):
					return "https://sqs.example/" + render(set[variable])
				case strings.HasSuffix(variable, "_ARN"):
					return "arn:aws:x:y:1:" + render(set[variable])
				}
				return render(set[variable])
			}
			lab, err := load(id, getenv)
			if err != nil || lab != c.lab {
				t.Errorf("%s in %s: lab %v, %v", id, c.stage, lab, err)
			}
			for variable := range set {
				if !read[variable] {
					t.Errorf("%s in %s has %s, and does not read it", id, c.stage, variable)
				}
			}
			if set[config.ScheduleGroup] == nil || set[config.ScheduleDead] == nil {
				t.Errorf("%s in %s has no schedules", id, c.stage)
			}
		}
	}
}

func load(id string, getenv func(string) string) (lab bool, err error) {
	switch id {
	case "Ingress":
		c, err := config.IngressFromEnv(getenv)
		return c.Lab, err
	case "Executor":
		c, err := config.ExecutorFromEnv(getenv)
		return c.Lab, err
	case "Reconcile":
		c, err := config.ReconcileFromEnv(getenv)
		return c.Lab, err
	}
	return false, fmt.Errorf("a function %s that nobody expected", id)
}

func TestEveryQueueIsServedWithItsFailuresReportedOneByOne(t *testing.T) {
	functions, queues := prod(t).of("AWS::Lambda::Function"), prod(t).of("AWS::SQS::Queue")
	served := map[string]string{}
	for id, mapping := range prod(t).of("AWS::Lambda::EventSourceMapping") {
		p := mapping.Properties
		queue, function := strings.TrimSuffix(render(p["EventSourceArn"]), ".Arn"), render(p["FunctionName"])
		served[queue] = fmt.Sprint(function, " ", p["BatchSize"])
		if !slices.Equal(list(p["FunctionResponseTypes"]), []string{"ReportBatchItemFailures"}) {
			t.Errorf("%s: one failure brings the whole batch again", id)
		}
		if n := number(t, at(p, "ScalingConfig", "MaximumConcurrency")); n < 2 || n > 1000 {
			t.Errorf("%s: at most %v at a time", id, n)
		}
		hidden, timeout := number(t, queues[queue].Properties["VisibilityTimeout"]), number(t, functions[function].Properties["Timeout"])
		if hidden <= timeout {
			t.Errorf("%s: a message of %s comes again after %v s, while %s may work on it for %v s", id, queue, hidden, function, timeout)
		}
	}
	// A batch is deleted when all of it is done: a turn or run must not wait for another.
	want := map[string]string{"Turns": "Executor 1", "Runs": "Executor 1", "Ticks": "Reconcile 10", "DeadTicks": "Reconcile 10"}
	if diff := cmp.Diff(want, served); diff != "" {
		t.Errorf("queue → function, batch (-want +got)\n%s", diff)
	}
}

func TestEveryQueueHasDeadLettersThatOutliveIt(t *testing.T) {
	queues := prod(t).of("AWS::SQS::Queue")
	for _, id := range []string{"Turns", "Runs", "Ticks"} {
		live, dead := queues[id].Properties, queues["Dead"+id].Properties
		if at(live, "RedrivePolicy", "maxReceiveCount") != float64(platform.MaxReceives) || render(at(live, "RedrivePolicy", "deadLetterTargetArn")) != "Dead"+id+".Arn" {
			t.Errorf("%s: redrive is %v", id, live["RedrivePolicy"])
		}
		if number(t, dead["MessageRetentionPeriod"]) <= number(t, live["MessageRetentionPeriod"]) {
			t.Errorf("%s: a letter may be deleted the moment it is dead", id)
		}
		fifo := id == "Turns"
		if (live["FifoQueue"] == true) != fifo || (dead["FifoQueue"] == true) != fifo || live["ContentBasedDeduplication"] != nil {
			t.Errorf("%s: FIFO is %v, of its dead letters %v", id, live["FifoQueue"], dead["FifoQueue"])
		}
		if fifo && (live["DeduplicationScope"] != "messageGroup" || live["FifoThroughputLimit"] != "perMessageGroupId") {
			t.Errorf("%s: 300 messages a second for all conversations together", id)
		}
		if live["SqsManagedSseEnabled"] != true || dead["SqsManagedSseEnabled"] != true {
			t.Errorf("%s is not encrypted", id)
		}
	}
	// What a schedule could not hand over, and what then failed in reconcile.
	failures := prod(t).of("AWS::Lambda::EventInvokeConfig")["ReconcileFailures"].Properties
	if got := render(failures["FunctionName"]) + " → " + render(at(failures, "DestinationConfig", "OnFailure", "Destination")); got != "Reconcile → Ticks.Arn" {
		t.Errorf("failures go %s", got)
	}
}

func TestTheTableIsWhatTheStoreExpects(t *testing.T) {
	for stage, keep := range map[string]bool{"prod": true, "dev": false} {
		all := synth(t, false, context(stage))
		table := all.of("AWS::DynamoDB::Table")["Table"]
		p := table.Properties
		var keys []string
		for _, key := range p["KeySchema"].([]any) {
			keys = append(keys, fmt.Sprint(at(key.(map[string]any), "KeyType"), " ", at(key.(map[string]any), "AttributeName")))
		}
		if diff := cmp.Diff([]string{"HASH " + dynamostore.PartitionKey, "RANGE " + dynamostore.SortKey}, keys); diff != "" {
			t.Error(diff)
		}
		if at(p, "TimeToLiveSpecification", "AttributeName") != dynamostore.TTL || at(p, "TimeToLiveSpecification", "Enabled") != true {
			t.Errorf("expiry is %v", p["TimeToLiveSpecification"])
		}
		if at(p, "PointInTimeRecoverySpecification", "PointInTimeRecoveryEnabled") != true || p["BillingMode"] != "PAY_PER_REQUEST" || p["GlobalSecondaryIndexes"] != nil {
			t.Errorf("the table is %v", p)
		}
		if p["DeletionProtectionEnabled"] != keep {
			t.Errorf("%s: deletion protection is %v", stage, p["DeletionProtectionEnabled"])
		}
		for _, id := range []string{"Table", "Blobs", "Turns", "DeadRuns"} {
			for logical, r := range all.Resources {
				if name(logical) == id && (r.DeletionPolicy == "Retain") != keep {
					t.Errorf("%s of %s: %s", id, stage, r.DeletionPolicy)
				}
			}
		}
	}
}

func TestBlobsArePrivateAndStay(t *testing.T) {
	p := prod(t).of("AWS::S3::Bucket")["Blobs"].Properties
	for _, block := range []string{"BlockPublicAcls", "BlockPublicPolicy", "IgnorePublicAcls", "RestrictPublicBuckets"} {
		if at(p, "PublicAccessBlockConfiguration", block) != true {
			t.Errorf("%s is off", block)
		}
	}
	for _, rule := range at(p, "LifecycleConfiguration", "Rules").([]any) {
		if days := rule.(map[string]any)["ExpirationInDays"]; days != nil {
			t.Errorf("blobs of living conversations vanish after %v days", days)
		}
	}
}

func TestNobodyReachesTheAPIWithoutACredential(t *testing.T) {
	for auth, want := range map[string]string{"jwt": "JWT", "iam": "AWS_IAM"} {
		all := synth(t, false, context("prod", "auth", auth))
		routes := all.of("AWS::ApiGatewayV2::Route")
		if len(routes) != 2 {
			t.Errorf("%d routes", len(routes))
		}
		for id, r := range routes {
			if r.Properties["RouteKey"] == openRoute {
				// Its token is the credential: nothing else is without one.
				if r.Properties["AuthorizationType"] != "NONE" || r.Properties["Target"] == nil {
					t.Errorf("%s asks for %v", id, r.Properties["AuthorizationType"])
				}
				continue
			}
			if r.Properties["AuthorizationType"] != want || (r.Properties["AuthorizerId"] != nil) != (auth == "jwt") {
				t.Errorf("%s is open to %v", id, r.Properties["AuthorizationType"])
			}
		}
		for _, r := range all.of("AWS::ApiGatewayV2::Authorizer") {
			jwt := at(r.Properties, "JwtConfiguration").(map[string]any)
			if jwt["Issuer"] != "https://issuer.example" || !slices.Equal(list(jwt["Audience"]), []string{"errand"}) {
				t.Errorf("the tokens are those of %v", jwt)
			}
		}
	}
	stage := prod(t).of("AWS::ApiGatewayV2::Stage")["ApiStage"].Properties
	if number(t, at(stage, "DefaultRouteSettings", "ThrottlingRateLimit")) <= 0 || number(t, at(stage, "DefaultRouteSettings", "ThrottlingBurstLimit")) <= 0 {
		t.Errorf("the API is not throttled: %v", stage)
	}
	format := render(at(stage, "AccessLogSettings", "Format"))
	for _, want := range []string{"$context.requestId", "$context.status", "$context.identity.sourceIp"} {
		if !strings.Contains(format, want) {
			t.Errorf("the access log lacks %s", want)
		}
	}
	for _, telling := range []string{"$context.path", "$context.requestOverride", "pathParameters", "$request"} {
		if strings.Contains(format, telling) {
			t.Errorf("the access log has %s, and with it the tokens of callbacks", telling)
		}
	}
	permission := prod(t).of("AWS::Lambda::Permission")["ApiPermission"].Properties
	if got := render(permission["SourceArn"]); got != "arn:AWS::Partition:execute-api:AWS::Region:AWS::AccountId:Api/*/*" {
		t.Errorf("ingress may be invoked by %s", got)
	}
}
