package awsclient

import (
	"context"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	ddbtypes "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/scheduler"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go/middleware"
)

// inputKey is where the operation's input waits, on the middleware stack, for the
// step that sees each attempt.
type inputKey struct{}

// middleware returns what makes a client report to the meter. It counts attempts, not
// calls: AWS bills what the SDK's retries send.
func (m *Meter) middleware() []func(*middleware.Stack) error {
	return []func(*middleware.Stack) error{func(stack *middleware.Stack) error {
		remember := middleware.InitializeMiddlewareFunc("ErrandMeterInput", rememberInput)
		if err := stack.Initialize.Add(remember, middleware.Before); err != nil {
			return err
		}
		count := middleware.FinalizeMiddlewareFunc("ErrandMeter", m.countAttempt)
		return stack.Finalize.Insert(count, "Retry", middleware.After)
	}}
}

func rememberInput(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (
	middleware.InitializeOutput, middleware.Metadata, error,
) {
	in.Parameters = askCapacity(in.Parameters)
	return next.HandleInitialize(middleware.WithStackValue(ctx, inputKey{}, in.Parameters), in)
}

func (m *Meter) countAttempt(ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler) (
	middleware.FinalizeOutput, middleware.Metadata, error,
) {
	out, metadata, err := next.HandleFinalize(ctx, in)
	input := middleware.GetStackValue(ctx, inputKey{})
	if kind, units := charge(input, out.Result); units > 0 {
		m.Add(kind, middleware.GetOperationName(ctx), units)
	}
	return out, metadata, err
}

// askCapacity returns the input with DynamoDB asked to tell what it bills. It
// changes a copy: the input is the caller's.
func askCapacity(input any) any {
	const total = ddbtypes.ReturnConsumedCapacityTotal
	switch in := input.(type) {
	case *dynamodb.PutItemInput:
		asked := *in
		asked.ReturnConsumedCapacity = total
		return &asked
	case *dynamodb.DeleteItemInput:
		asked := *in
		asked.ReturnConsumedCapacity = total
		return &asked
	case *dynamodb.GetItemInput:
		asked := *in
		asked.ReturnConsumedCapacity = total
		return &asked
	case *dynamodb.BatchGetItemInput:
		asked := *in
		asked.ReturnConsumedCapacity = total
		return &asked
	case *dynamodb.QueryInput:
		asked := *in
		asked.ReturnConsumedCapacity = total
		return &asked
	}
	return input
}

// charge returns what one attempt is billed as; output is nil if there was no
// answer. Zero units means free, or an operation that Errand does not use at run time.
func charge(input, output any) (Kind, int) {
	switch in := input.(type) {
	case *dynamodb.PutItemInput:
		// A refused condition bills as much as a write, but its error does not say how much.
		return WriteUnit, max(capacity(output), chunks(ItemSize(in.Item), 1<<10))
	case *dynamodb.DeleteItemInput:
		return WriteUnit, max(capacity(output), 1)
	case *dynamodb.GetItemInput, *dynamodb.QueryInput, *dynamodb.BatchGetItemInput:
		// A local endpoint may report one unit for a read of any size.
		return ReadUnit, max(capacity(output), strongRead(input, output))
	case *scheduler.CreateScheduleInput:
		// Billed when it fires; creating and deleting are free.
		return Schedule, 1
	case *s3.PutObjectInput:
		return S3Write, 1
	case *s3.GetObjectInput:
		return S3Read, 1
	}
	return chargeSQS(input, output)
}

func chargeSQS(input, output any) (Kind, int) {
	switch in := input.(type) {
	case *sqs.SendMessageInput:
		size := len(aws.ToString(in.MessageBody)) + attributesSize(in.MessageAttributes)
		return queueKind(in.QueueUrl, in.MessageGroupId), chunks(size, 64<<10)
	case *sqs.SendMessageBatchInput:
		size, group := 0, (*string)(nil)
		for _, e := range in.Entries {
			size += len(aws.ToString(e.MessageBody)) + attributesSize(e.MessageAttributes)
			group = e.MessageGroupId
		}
		return queueKind(in.QueueUrl, group), chunks(size, 64<<10)
	case *sqs.ReceiveMessageInput:
		size := 0
		if out, ok := output.(*sqs.ReceiveMessageOutput); ok {
			for _, msg := range out.Messages {
				size += len(aws.ToString(msg.Body)) + attributesSize(msg.MessageAttributes)
			}
		}
		return queueKind(in.QueueUrl, nil), chunks(size, 64<<10)
	case *sqs.DeleteMessageInput:
		return queueKind(in.QueueUrl, nil), 1
	case *sqs.DeleteMessageBatchInput:
		return queueKind(in.QueueUrl, nil), 1
	case *sqs.ChangeMessageVisibilityInput:
		return queueKind(in.QueueUrl, nil), 1
	case *sqs.ChangeMessageVisibilityBatchInput:
		return queueKind(in.QueueUrl, nil), 1
	}
	return "", 0
}

// queueKind tells the price class of a request. A message group on a standard
// queue makes its send a fair one.
func queueKind(url, group *string) Kind {
	switch {
	case strings.HasSuffix(aws.ToString(url), ".fifo"):
		return FIFORequest
	case group != nil:
		return FairRequest
	}
	return StandardRequest
}

func attributesSize(attributes map[string]sqstypes.MessageAttributeValue) int {
	sum := 0
	for name, v := range attributes {
		sum += len(name) + len(aws.ToString(v.DataType)) + len(aws.ToString(v.StringValue)) + len(v.BinaryValue)
	}
	return sum
}

// chunks returns how many units of unit bytes a payload is billed as: at least one.
func chunks(bytes, unit int) int { return max(1, (bytes+unit-1)/unit) }
