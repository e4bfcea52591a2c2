package sqsqueue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"

	"github.com/errand-dev/errand/shared/platform"
)

const (
	// peekVisibility hides dead letters while they are listed or sent again, so
	// that no message is seen twice in one pass.
	peekVisibility = 60 * time.Second
	// shortPoll asks all of SQS's servers, unlike a poll that does not wait at all,
	// and so finds even a single message. In seconds.
	shortPoll = 1
)

// DeadLetters implements platform.Receiver. SQS cannot look without receiving: the
// messages are hidden while they are listed, and made visible again before the
// call returns. Of one FIFO group it sees the first ten.
func (q *Queues) DeadLetters(ctx context.Context, queue string, limit int) (letters []platform.Received, err error) {
	urls, err := q.lookup(queue)
	if err != nil {
		return nil, fmt.Errorf("listing dead letters: %w", err)
	}
	defer func() { err = errors.Join(err, q.release(ctx, urls.DeadLetters, letters)) }()
	for len(letters) < limit {
		batch, err := q.poll(ctx, queue, urls.DeadLetters, limit-len(letters), peekVisibility, shortPoll)
		if err != nil {
			return letters, fmt.Errorf("listing dead letters of %s: %w", queue, err)
		}
		if len(batch) == 0 {
			break
		}
		letters = append(letters, batch...)
	}
	slices.SortStableFunc(letters, func(a, b platform.Received) int { return a.SentAt.Compare(b.SentAt) })
	return letters, nil
}

// release makes received messages visible at once. Those it cannot reach come back
// by themselves after peekVisibility.
func (q *Queues) release(ctx context.Context, url string, messages []platform.Received) error {
	for batch := range slices.Chunk(messages, batchSize) {
		entries := make([]types.ChangeMessageVisibilityBatchRequestEntry, len(batch))
		for i, m := range batch {
			entries[i] = types.ChangeMessageVisibilityBatchRequestEntry{Id: ptr(strconv.Itoa(i)), ReceiptHandle: ptr(m.Receipt)}
		}
		_, err := q.client.ChangeMessageVisibilityBatch(ctx, &sqs.ChangeMessageVisibilityBatchInput{QueueUrl: &url, Entries: entries})
		if err != nil {
			return fmt.Errorf("making dead letters visible again: %w", err)
		}
	}
	return nil
}

// Redrive implements platform.Receiver: each dead letter is sent again, then
// deleted. A crash in between leaves it in both queues, never in none.
func (q *Queues) Redrive(ctx context.Context, queue string) (int, error) {
	urls, err := q.lookup(queue)
	if err != nil {
		return 0, fmt.Errorf("redriving: %w", err)
	}
	redriven := 0
	for {
		batch, err := q.poll(ctx, queue, urls.DeadLetters, batchSize, peekVisibility, shortPoll)
		if err == nil && len(batch) > 0 {
			var n int
			n, err = q.redriveBatch(ctx, urls, batch)
			redriven += n
		}
		if err != nil {
			return redriven, fmt.Errorf("redriving %s: %w", queue, err)
		}
		if len(batch) == 0 {
			return redriven, nil
		}
	}
}

// redriveBatch returns how many messages were sent again. One that SQS refused
// stays a dead letter.
func (q *Queues) redriveBatch(ctx context.Context, urls URLs, batch []platform.Received) (int, error) {
	entries := make([]types.SendMessageBatchRequestEntry, len(batch))
	for i, letter := range batch {
		entries[i] = again(strconv.Itoa(i), letter, isFIFO(urls.Queue))
	}
	out, err := q.client.SendMessageBatch(ctx, &sqs.SendMessageBatchInput{QueueUrl: &urls.Queue, Entries: entries})
	if err != nil {
		return 0, err
	}
	sent := make([]types.DeleteMessageBatchRequestEntry, 0, len(out.Successful))
	for _, ok := range out.Successful {
		i, err := strconv.Atoi(aws.ToString(ok.Id))
		if err != nil || i < 0 || i >= len(batch) {
			return 0, fmt.Errorf("SQS answers for an entry %q that was not sent", aws.ToString(ok.Id))
		}
		sent = append(sent, types.DeleteMessageBatchRequestEntry{Id: ok.Id, ReceiptHandle: ptr(batch[i].Receipt)})
	}
	if err := q.deleteBatch(ctx, urls.DeadLetters, sent); err != nil {
		return len(sent), fmt.Errorf("deleting dead letters that were sent again: %w", err)
	}
	if len(out.Failed) > 0 {
		return len(sent), fmt.Errorf("%d messages refused: %s", len(out.Failed), aws.ToString(out.Failed[0].Message))
	}
	return len(sent), nil
}

// deleteBatch deletes received messages. As for Acknowledge, a stale receipt is
// success: when an answer is lost, the SDK deletes the same messages again.
func (q *Queues) deleteBatch(ctx context.Context, url string, entries []types.DeleteMessageBatchRequestEntry) error {
	if len(entries) == 0 {
		return nil
	}
	out, err := q.client.DeleteMessageBatch(ctx, &sqs.DeleteMessageBatchInput{QueueUrl: &url, Entries: entries})
	if err != nil {
		return err
	}
	for _, failed := range out.Failed {
		refused := &smithy.GenericAPIError{Code: aws.ToString(failed.Code), Message: aws.ToString(failed.Message)}
		if !isStale(refused) {
			return refused
		}
	}
	return nil
}

// again addresses a dead letter to its queue. Its deduplication id is new, because
// SQS may still remember the old one, but the same for every attempt to redrive
// this letter; its receiver sees the old one.
func again(entry string, letter platform.Received, fifo bool) types.SendMessageBatchRequestEntry {
	group, dedup, attributes := address(letter.Message, fifo)
	if fifo {
		dedup = ptr(legalID("redrive " + letter.ID))
		attributes[dedupAttribute] = stringAttribute(cmp.Or(letter.Dedup, noDedup))
	}
	return types.SendMessageBatchRequestEntry{
		Id:                     &entry,
		MessageBody:            ptr(string(letter.Body)),
		MessageGroupId:         group,
		MessageDeduplicationId: dedup,
		MessageAttributes:      attributes,
	}
}
