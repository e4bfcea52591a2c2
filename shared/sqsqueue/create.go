package sqsqueue

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/errand-dev/errand/shared/platform"
)

// CreateQueues creates every queue with its dead letter queue on a local endpoint,
// their names beginning with prefix, and returns their addresses for New. On AWS the
// deployed template owns the queues, so a client without an endpoint override is refused.
func CreateQueues(ctx context.Context, client *sqs.Client, prefix string) (map[string]URLs, error) {
	if client.Options().BaseEndpoint == nil {
		return nil, fmt.Errorf("creating queues %s-*: only on a local endpoint; on AWS deploy the stack", prefix)
	}
	urls := make(map[string]URLs)
	for _, queue := range platform.Queues {
		pair, err := createPair(ctx, client, prefix+"-"+queue, queue == platform.Turns)
		if err != nil {
			return nil, fmt.Errorf("creating queue %s-%s: %w", prefix, queue, err)
		}
		urls[queue] = pair
	}
	return urls, nil
}

func createPair(ctx context.Context, client *sqs.Client, name string, fifo bool) (URLs, error) {
	attributes, suffix := map[string]string{}, ""
	if fifo {
		attributes[string(types.QueueAttributeNameFifoQueue)], suffix = "true", ".fifo"
	}
	dead, err := client.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: aws.String(name + "-dlq" + suffix), Attributes: attributes})
	if err != nil {
		return URLs{}, err
	}
	const arn = types.QueueAttributeNameQueueArn
	described, err := client.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{
		QueueUrl: dead.QueueUrl, AttributeNames: []types.QueueAttributeName{arn},
	})
	if err != nil {
		return URLs{}, err
	}
	policy, err := json.Marshal(map[string]string{
		"deadLetterTargetArn": described.Attributes[string(arn)],
		"maxReceiveCount":     strconv.Itoa(platform.MaxReceives),
	})
	if err != nil {
		return URLs{}, err
	}
	attributes[string(types.QueueAttributeNameRedrivePolicy)] = string(policy)
	live, err := client.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: aws.String(name + suffix), Attributes: attributes})
	if err != nil {
		return URLs{}, err
	}
	return URLs{Queue: aws.ToString(live.QueueUrl), DeadLetters: aws.ToString(dead.QueueUrl)}, nil
}
