package sqsqueue

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"

	"github.com/errand-dev/errand/shared/platform"
)

// longPoll is how long one ReceiveMessage waits for a message, in seconds: the most
// that SQS allows, because an empty answer is billed too.
const longPoll = 20

// Receive implements platform.Receiver by long polling. It returns at most 10
// messages, whatever max is, and of the FIFO queue one: SQS would put several of
// one group into a batch, and giving all but the head back would count as receives of
// theirs. Visibility is rounded up to a second, and capped at 12 hours.
func (q *Queues) Receive(ctx context.Context, queue string, max int, visibility time.Duration) ([]platform.Received, error) {
	urls, err := q.lookup(queue)
	if err != nil {
		return nil, fmt.Errorf("receiving: %w", err)
	}
	if isFIFO(urls.Queue) {
		max = 1
	}
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		messages, err := q.poll(ctx, queue, urls.Queue, max, visibility, longPoll)
		if ctx.Err() != nil && err != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			return nil, fmt.Errorf("receiving from %s: %w", queue, err)
		}
		if len(messages) > 0 {
			return messages, nil
		}
	}
}

func (q *Queues) poll(ctx context.Context, queue, url string, max int, visibility time.Duration, wait int32) ([]platform.Received, error) {
	in := &sqs.ReceiveMessageInput{
		QueueUrl:                    &url,
		MaxNumberOfMessages:         int32(min(max, batchSize)),
		VisibilityTimeout:           seconds(min(visibility, maxVisibility)),
		WaitTimeSeconds:             wait,
		MessageAttributeNames:       []string{groupAttribute, dedupAttribute},
		MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameAll},
	}
	if isFIFO(url) {
		// When the answer is lost, the SDK's retry gets the same messages; without
		// this id their groups would stand still until the visibility ends.
		in.ReceiveRequestAttemptId = ptr(rand.Text())
	}
	out, err := q.client.ReceiveMessage(ctx, in)
	if err != nil {
		return nil, err
	}
	messages := make([]platform.Received, len(out.Messages))
	for i, m := range out.Messages {
		if messages[i], err = fromMessage(queue, m); err != nil {
			return nil, err
		}
	}
	return messages, nil
}

// Acknowledge implements platform.Receiver. A receipt that SQS no longer knows
// counts as acknowledged: the message is gone, or was handed out again and will be
// acknowledged by its new receipt.
func (q *Queues) Acknowledge(ctx context.Context, r platform.Received) error {
	urls, err := q.lookup(r.Queue)
	if err != nil {
		return fmt.Errorf("acknowledging: %w", err)
	}
	_, err = q.client.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: &urls.Queue, ReceiptHandle: &r.Receipt})
	if err != nil && !isStale(err) {
		return fmt.Errorf("acknowledging message %s of %s: %w", r.ID, r.Queue, err)
	}
	return nil
}

// Extend implements platform.Receiver. A stale receipt is success, as for Acknowledge.
func (q *Queues) Extend(ctx context.Context, r platform.Received, visibility time.Duration) error {
	urls, err := q.lookup(r.Queue)
	if err != nil {
		return fmt.Errorf("extending: %w", err)
	}
	_, err = q.client.ChangeMessageVisibility(ctx, &sqs.ChangeMessageVisibilityInput{
		QueueUrl: &urls.Queue, ReceiptHandle: &r.Receipt, VisibilityTimeout: seconds(min(visibility, maxVisibility)),
	})
	if err != nil && !isStale(err) {
		return fmt.Errorf("extending message %s of %s: %w", r.ID, r.Queue, err)
	}
	return nil
}

// isStale reports whether SQS refused a receipt because it is used up. Beside its
// own errors for that, SQS says so in the text of a general one: "Value … for
// parameter ReceiptHandle is invalid. Reason: The receipt handle has expired."
func isStale(err error) bool {
	refused, ok := errors.AsType[smithy.APIError](err)
	if !ok {
		return false
	}
	switch code := refused.ErrorCode(); {
	case strings.HasSuffix(code, "ReceiptHandleIsInvalid"), strings.HasSuffix(code, "MessageNotInflight"):
		return true
	default:
		return strings.HasSuffix(code, "InvalidParameterValue") && strings.Contains(refused.ErrorMessage(), "ReceiptHandle")
	}
}
