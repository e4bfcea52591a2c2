package sqsqueue

import (
	"fmt"
	"strconv"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/errand-dev/errand/shared/platform"
)

// FromEvent returns a message of the named queue as Receive would, from the event
// by which SQS invokes a Lambda.
func FromEvent(queue string, m events.SQSMessage) (platform.Received, error) {
	attributes := make(map[string]*string, len(m.MessageAttributes))
	for name, a := range m.MessageAttributes {
		attributes[name] = a.StringValue
	}
	return decode(queue, platform.Received{ID: m.MessageId, Receipt: m.ReceiptHandle}, m.Body, m.Attributes, attributes)
}

func fromMessage(queue string, m types.Message) (platform.Received, error) {
	attributes := make(map[string]*string, len(m.MessageAttributes))
	for name, a := range m.MessageAttributes {
		attributes[name] = a.StringValue
	}
	r := platform.Received{ID: aws.ToString(m.MessageId), Receipt: aws.ToString(m.ReceiptHandle)}
	return decode(queue, r, aws.ToString(m.Body), m.Attributes, attributes)
}

// decode completes r, the reverse of address.
func decode(queue string, r platform.Received, body string, system map[string]string, own map[string]*string) (platform.Received, error) {
	var err error
	r.Receives, err = strconv.Atoi(system[string(types.MessageSystemAttributeNameApproximateReceiveCount)])
	if err != nil {
		return platform.Received{}, fmt.Errorf("reading the receive count of message %s: %w", r.ID, err)
	}
	sent, err := strconv.ParseInt(system[string(types.MessageSystemAttributeNameSentTimestamp)], 10, 64)
	if err != nil {
		return platform.Received{}, fmt.Errorf("reading the sending time of message %s: %w", r.ID, err)
	}
	r.SentAt = time.UnixMilli(sent).UTC()
	r.Message = platform.Message{
		Queue: queue,
		Group: system[string(types.MessageSystemAttributeNameMessageGroupId)],
		Dedup: system[string(types.MessageSystemAttributeNameMessageDeduplicationId)],
		Body:  []byte(body),
	}
	if group := own[groupAttribute]; group != nil {
		r.Group = *group
	}
	if dedup := own[dedupAttribute]; dedup != nil {
		r.Dedup = *dedup
	}
	if r.Dedup == noDedup {
		r.Dedup = ""
	}
	return r, nil
}
