package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// statements are those of a policy document.
func statements(t *testing.T, document any) []map[string]any {
	t.Helper()
	properties, ok := document.(map[string]any)
	if !ok {
		t.Fatalf("no policy document: %v", document)
	}
	var all []map[string]any
	for _, s := range properties["Statement"].([]any) {
		all = append(all, s.(map[string]any))
	}
	return all
}

// allowed lists what the role may do: "resource: actions".
func (t template) allowed(test *testing.T, role string) []string {
	test.Helper()
	policy, ok := t.of("AWS::IAM::Policy")[role+"DefaultPolicy"]
	if !ok {
		test.Fatalf("%s has no policy", role)
	}
	var lines []string
	for _, s := range statements(test, policy.Properties["PolicyDocument"]) {
		for _, r := range list(s["Resource"]) {
			lines = append(lines, fmt.Sprintf("%s: %s", r, strings.Join(list(s["Action"]), " ")))
		}
	}
	slices.Sort(lines)
	return lines
}

func TestEachRoleMayDoWhatItsFunctionCallsAndNothingElse(t *testing.T) {
	const (
		read     = "dynamodb:BatchGetItem dynamodb:GetItem dynamodb:PutItem dynamodb:Query"
		rows     = "dynamodb:BatchGetItem dynamodb:DeleteItem dynamodb:GetItem dynamodb:PutItem dynamodb:Query"
		receive  = "sqs:ChangeMessageVisibility sqs:DeleteMessage sqs:GetQueueAttributes sqs:ReceiveMessage"
		log      = "logs:CreateLogStream logs:PutLogEvents"
		schedule = "arn:AWS::Partition:scheduler:AWS::Region:AWS::AccountId:schedule/errand-prod/*: scheduler:CreateSchedule"
	)
	all := []string{
		"Blobs.Arn: s3:ListBucket", "Runs.Arn: sqs:SendMessage", "SchedulerRole.Arn: iam:PassRole",
		"Ticks.Arn: sqs:SendMessage", "Turns.Arn: sqs:SendMessage", schedule,
	}
	for role, more := range map[string][]string{
		"IngressRole":   {"IngressLogs.Arn: " + log, "Table.Arn: " + rows, "Blobs.Arn/blobs/*: s3:DeleteObject s3:GetObject s3:PutObject"},
		"ExecutorRole":  {"ExecutorLogs.Arn: " + log, "Table.Arn: " + rows, "Blobs.Arn/blobs/*: s3:GetObject s3:PutObject", "Turns.Arn: " + receive, "Runs.Arn: " + receive},
		"ReconcileRole": {"ReconcileLogs.Arn: " + log, "Table.Arn: " + read, "Blobs.Arn/blobs/*: s3:GetObject s3:PutObject", "Ticks.Arn: " + receive, "DeadTicks.Arn: " + receive},
	} {
		want := append(slices.Clone(all), more...)
		slices.Sort(want)
		if diff := cmp.Diff(want, prod(t).allowed(t, role)); diff != "" {
			t.Errorf("%s (-want +got)\n%s", role, diff)
		}
	}
	want := []string{"DeadTicks.Arn: sqs:SendMessage", "Reconcile.Arn: lambda:InvokeFunction"}
	if diff := cmp.Diff(want, prod(t).allowed(t, "SchedulerRole")); diff != "" {
		t.Errorf("SchedulerRole (-want +got)\n%s", diff)
	}
	for id, r := range prod(t).of("AWS::IAM::Role") {
		if r.Properties["ManagedPolicyArns"] != nil || r.Properties["Policies"] != nil {
			t.Errorf("%s has policies that this test does not see", id)
		}
	}
}

// TestAnAsteriskIsUsedOnlyWhereNamesAreMadeAtRunTime also covers policies of resources, which may deny
// everything to everybody.
func TestAnAsteriskIsUsedOnlyWhereNamesAreMadeAtRunTime(t *testing.T) {
	for id, r := range prod(t).Resources {
		if r.Properties["PolicyDocument"] == nil {
			continue
		}
		for _, s := range statements(t, r.Properties["PolicyDocument"]) {
			if s["Effect"] == "Deny" {
				continue
			}
			for _, action := range list(s["Action"]) {
				if strings.Contains(action, "*") {
					t.Errorf("%s allows %s", id, action)
				}
			}
			for _, on := range list(s["Resource"]) {
				if strings.Contains(on, "*") && !strings.HasSuffix(on, "Blobs.Arn/blobs/*") && !strings.HasSuffix(on, ":schedule/errand-prod/*") {
					t.Errorf("%s allows %v on %s", id, s["Action"], on)
				}
			}
		}
	}
}

func TestTheSchedulersRoleServesThisGroupAndIsPassedToNobodyElse(t *testing.T) {
	role := prod(t).of("AWS::IAM::Role")["SchedulerRole"]
	trust := statements(t, role.Properties["AssumeRolePolicyDocument"])
	if len(trust) != 1 {
		t.Fatalf("%d statements", len(trust))
	}
	conditions := at(trust[0], "Condition", "StringEquals").(map[string]any)
	if got := render(conditions["aws:SourceArn"]) + " " + render(conditions["aws:SourceAccount"]); got != "Schedules.Arn AWS::AccountId" {
		t.Errorf("trusts %s", got)
	}
	passes := 0
	for id, policy := range prod(t).of("AWS::IAM::Policy") {
		for _, s := range statements(t, policy.Properties["PolicyDocument"]) {
			if !slices.Contains(list(s["Action"]), "iam:PassRole") {
				continue
			}
			passes++
			if to := at(s, "Condition", "StringEquals", "iam:PassedToService"); to != "scheduler.amazonaws.com" {
				t.Errorf("%s passes the role to %v", id, to)
			}
		}
	}
	if passes != 3 {
		t.Errorf("%d functions pass the role, want 3", passes)
	}
}

func TestQueuesAndBlobsRefuseWhatIsNotEncryptedOnItsWay(t *testing.T) {
	refuses := map[string]bool{}
	for _, kind := range []string{"AWS::SQS::QueuePolicy", "AWS::S3::BucketPolicy"} {
		for id, policy := range prod(t).of(kind) {
			for _, s := range statements(t, policy.Properties["PolicyDocument"]) {
				if s["Effect"] == "Deny" && at(s, "Condition", "Bool", "aws:SecureTransport") == "false" {
					refuses[strings.TrimSuffix(id, "Policy")] = true
				}
			}
		}
	}
	for _, id := range []string{"Turns", "Runs", "Ticks", "DeadTurns", "DeadRuns", "DeadTicks", "Blobs"} {
		if !refuses[id] {
			t.Errorf("%s takes requests without TLS", id)
		}
	}
}
