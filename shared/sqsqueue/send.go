package sqsqueue

import (
	"context"
	"crypto/rand"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/errand-dev/errand/shared/platform"
)

// Send implements platform.Sender with one SendMessage.
func (q *Queues) Send(ctx context.Context, m platform.Message) error {
	urls, err := q.lookup(m.Queue)
	if err != nil {
		return fmt.Errorf("sending: %w", err)
	}
	fifo := isFIFO(urls.Queue)
	if err := check(m, fifo); err != nil {
		return fmt.Errorf("sending to %s: %w", m.Queue, err)
	}
	group, dedup, attributes := address(m, fifo)
	_, err = q.client.SendMessage(ctx, &sqs.SendMessageInput{
		QueueUrl:               &urls.Queue,
		MessageBody:            ptr(string(m.Body)),
		MessageGroupId:         group,
		MessageDeduplicationId: dedup,
		MessageAttributes:      attributes,
		DelaySeconds:           seconds(m.Delay),
	})
	if err != nil {
		return fmt.Errorf("sending to %s: %w", m.Queue, err)
	}
	return nil
}

func check(m platform.Message, fifo bool) error {
	switch {
	case len(m.Body) > platform.MaxMessage:
		return fmt.Errorf("%w: %d bytes", platform.ErrTooLarge, len(m.Body))
	case m.Delay < 0 || m.Delay > platform.MaxDelay:
		return fmt.Errorf("delay %v is not between 0 and %v", m.Delay, platform.MaxDelay)
	case fifo && m.Delay > 0:
		return fmt.Errorf("delay %v on a FIFO queue, which has none", m.Delay)
	case fifo && m.Group == "":
		return fmt.Errorf("no group, which a FIFO queue orders by")
	}
	return nil
}

// The message attributes that carry what the ids of SQS cannot: an id that was
// changed to be legal, and the name of a tick.
const (
	groupAttribute = "group"
	dedupAttribute = "dedup"
)

// address returns the ids of a message for SQS. A group on a standard queue makes
// it a fair one; only ticks are sent without.
func address(m platform.Message, fifo bool) (group, dedup *string, attributes map[string]types.MessageAttributeValue) {
	attributes = make(map[string]types.MessageAttributeValue)
	if m.Group != "" && m.Queue != platform.Ticks {
		group = ptr(legalID(m.Group))
	}
	if m.Group != "" && (group == nil || *group != m.Group) {
		attributes[groupAttribute] = stringAttribute(m.Group)
	}
	switch {
	case fifo && m.Dedup == "":
		// SQS wants an id. A new one suppresses nothing but the SDK's own retries.
		dedup = ptr(rand.Text())
		attributes[dedupAttribute] = stringAttribute(noDedup)
	case fifo:
		dedup = ptr(legalID(m.Dedup))
	}
	if m.Dedup != "" && (dedup == nil || *dedup != m.Dedup) {
		attributes[dedupAttribute] = stringAttribute(m.Dedup)
	}
	return group, dedup, attributes
}

// noDedup stands for the empty id, because an attribute has no empty value.
const noDedup = " "

func stringAttribute(value string) types.MessageAttributeValue {
	return types.MessageAttributeValue{DataType: ptr("String"), StringValue: &value}
}
