// Package sqsqueue implements platform.Sender and platform.Receiver on SQS: the
// FIFO queue turns, the fair standard queue runs (its message group is the
// tenant) and the standard queue ticks, each with its dead letter queue.
//
// Delivery is at least once: the SDK may send a message twice, and SQS may hand one
// out twice. On turns the deduplication id stops the first of these for five minutes.
//
// Main path: Send in send.go, Receive in receive.go.
package sqsqueue

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/errand-dev/errand/shared/platform"
)

const (
	// batchSize is the most messages that one SQS request carries.
	batchSize = 10
	// maxVisibility is how long SQS can hide a message at most.
	maxVisibility = 12 * time.Hour
)

// api is what the queues call of *sqs.Client.
type api interface {
	SendMessage(context.Context, *sqs.SendMessageInput, ...func(*sqs.Options)) (*sqs.SendMessageOutput, error)
	SendMessageBatch(context.Context, *sqs.SendMessageBatchInput, ...func(*sqs.Options)) (*sqs.SendMessageBatchOutput, error)
	ReceiveMessage(context.Context, *sqs.ReceiveMessageInput, ...func(*sqs.Options)) (*sqs.ReceiveMessageOutput, error)
	DeleteMessage(context.Context, *sqs.DeleteMessageInput, ...func(*sqs.Options)) (*sqs.DeleteMessageOutput, error)
	DeleteMessageBatch(context.Context, *sqs.DeleteMessageBatchInput, ...func(*sqs.Options)) (*sqs.DeleteMessageBatchOutput, error)
	ChangeMessageVisibility(context.Context, *sqs.ChangeMessageVisibilityInput, ...func(*sqs.Options)) (*sqs.ChangeMessageVisibilityOutput, error)
	ChangeMessageVisibilityBatch(context.Context, *sqs.ChangeMessageVisibilityBatchInput, ...func(*sqs.Options)) (*sqs.ChangeMessageVisibilityBatchOutput, error)
}

// URLs are the addresses of one queue and of its dead letter queue.
type URLs struct{ Queue, DeadLetters string }

// Queues are the queues of one deployment. They are safe for concurrent use.
type Queues struct {
	client api
	urls   map[string]URLs
}

var (
	_ platform.Sender   = (*Queues)(nil)
	_ platform.Receiver = (*Queues)(nil)
)

// New returns the queues at the given addresses, by the names of package
// platform. A program lists only the queues that it uses. New calls nothing.
func New(client api, urls map[string]URLs) *Queues { return &Queues{client: client, urls: urls} }

func (q *Queues) lookup(queue string) (URLs, error) {
	urls, ok := q.urls[queue]
	if !ok {
		return URLs{}, fmt.Errorf("no address is configured for queue %q", queue)
	}
	return urls, nil
}

func isFIFO(url string) bool { return strings.HasSuffix(url, ".fifo") }

// seconds rounds up: nothing becomes visible before its time.
func seconds(d time.Duration) int32 {
	return int32((d + time.Second - 1) / time.Second)
}

func ptr[T any](v T) *T { return &v }
