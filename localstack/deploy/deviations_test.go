package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/errand-dev/errand/shared/awsclient"
	"github.com/errand-dev/errand/shared/dynamostore"
)

// reportDeviations says which properties of the template the endpoint did not take over: what depends on
// them is not proven by the scenarios. It fails only if the table's keys are wrong.
func reportDeviations(t *testing.T, clients *awsclient.Clients) {
	t.Helper()
	table := deployed.outputs["TableName"]
	if err := dynamostore.Check(t.Context(), clients.DynamoDB, table); err != nil {
		t.Error(err)
	}
	compare := func(what string, got any, err error, want any) {
		if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Logf("DEVIATES FROM AWS: %s is %v, not %v (%v)", what, got, want, err)
		}
	}
	ttl, err := clients.DynamoDB.DescribeTimeToLive(t.Context(), &dynamodb.DescribeTimeToLiveInput{TableName: &table})
	if err == nil {
		compare("the table's expiry", ttl.TimeToLiveDescription.TimeToLiveStatus, nil, "ENABLED")
	}
	backups, err := clients.DynamoDB.DescribeContinuousBackups(t.Context(), &dynamodb.DescribeContinuousBackupsInput{TableName: &table})
	if err == nil {
		compare("the table's recovery", backups.ContinuousBackupsDescription.PointInTimeRecoveryDescription.PointInTimeRecoveryStatus, nil, "ENABLED")
	}
	for output, want := range map[string]map[types.QueueAttributeName]string{
		"TurnsUrl": {types.QueueAttributeNameFifoQueue: "true", types.QueueAttributeNameFifoThroughputLimit: "perMessageGroupId", types.QueueAttributeNameVisibilityTimeout: "70"},
		"RunsUrl":  {types.QueueAttributeNameVisibilityTimeout: "70", types.QueueAttributeNameSqsManagedSseEnabled: "true"},
		"TicksUrl": {types.QueueAttributeNameVisibilityTimeout: "360", types.QueueAttributeNameMessageRetentionPeriod: "345600"},
	} {
		url := deployed.outputs[output]
		out, err := clients.SQS.GetQueueAttributes(t.Context(), &sqs.GetQueueAttributesInput{QueueUrl: &url, AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameAll}})
		if err != nil {
			t.Fatal(err)
		}
		for attribute, value := range want {
			compare(output+"."+string(attribute), out.Attributes[string(attribute)], nil, value)
		}
		compare(output+" has a redrive policy", out.Attributes["RedrivePolicy"] != "", nil, true)
	}
	for output, want := range map[string]string{"ExecutorName": "Allow", "ReconcileName": "Allow", "IngressName": "Terminate"} {
		var config struct{ RecursiveLoop string }
		err := get(t.Context(), "/2024-08-31/functions/"+deployed.outputs[output]+"/recursion-config", &config)
		compare(output+".RecursiveLoop", config.RecursiveLoop, err, want)
	}
	var mappings struct {
		EventSourceMappings []struct {
			EventSourceArn        string
			FunctionResponseTypes []string
			ScalingConfig         struct{ MaximumConcurrency int }
		}
	}
	err = get(t.Context(), "/2015-03-31/event-source-mappings/", &mappings)
	compare("number of mappings", len(mappings.EventSourceMappings), err, 4)
	for _, m := range mappings.EventSourceMappings {
		compare(m.EventSourceArn+" reports failures", m.FunctionResponseTypes, nil, "[ReportBatchItemFailures]")
		compare(m.EventSourceArn+" is limited", m.ScalingConfig.MaximumConcurrency >= 2, nil, true)
	}
}

// get reads what Lambda's API answers.
func get(ctx context.Context, path string, into any) error {
	data, err := deployed.stack.lambda(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, into)
}
