package dynamostore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/errand-dev/errand/shared/platform"
)

const (
	// batchGetKeys is the most keys that one BatchGetItem takes.
	batchGetKeys = 100
	// batchGetTries bounds the requests for one chunk of keys. Each hands back at
	// least one item unless the table is throttled.
	batchGetTries = 12
	// firstPause and longestPause bound the wait before unprocessed keys are asked for again.
	firstPause   = 25 * time.Millisecond
	longestPause = 2 * time.Second
)

// Get implements platform.Items.
func (s *Store) Get(ctx context.Context, key platform.Key) (platform.Item, error) {
	out, err := s.client.GetItem(ctx, &dynamodb.GetItemInput{
		TableName: &s.table, Key: keyRow(key), ConsistentRead: ptr(true),
	})
	if err != nil {
		return platform.Item{}, translate("getting", key, err)
	}
	if len(out.Item) == 0 {
		return platform.Item{Key: key}, nil
	}
	return decodeItem(out.Item)
}

// GetMany implements platform.Items, a hundred keys per request.
func (s *Store) GetMany(ctx context.Context, keys []platform.Key) ([]platform.Item, error) {
	found := make(map[platform.Key]platform.Item, len(keys))
	var wanted []row
	for _, key := range keys {
		// DynamoDB refuses a request that names a key twice.
		if _, seen := found[key]; !seen {
			found[key] = platform.Item{Key: key}
			wanted = append(wanted, keyRow(key))
		}
	}
	for start := 0; start < len(wanted); start += batchGetKeys {
		chunk := wanted[start:min(start+batchGetKeys, len(wanted))]
		if err := s.getChunk(ctx, chunk, found); err != nil {
			return nil, fmt.Errorf("getting %d items: %w", len(keys), err)
		}
	}
	items := make([]platform.Item, len(keys))
	for i, key := range keys {
		items[i] = found[key]
	}
	return items, nil
}

// getChunk reads up to batchGetKeys keys into found. DynamoDB hands back keys that
// did not fit in the answer or were throttled: those are asked for again.
func (s *Store) getChunk(ctx context.Context, chunk []row, found map[platform.Key]platform.Item) error {
	request := map[string]types.KeysAndAttributes{s.table: {Keys: chunk, ConsistentRead: ptr(true)}}
	for try := range batchGetTries {
		if try > 0 {
			if err := pause(ctx, try); err != nil {
				return err
			}
		}
		out, err := s.client.BatchGetItem(ctx, &dynamodb.BatchGetItemInput{RequestItems: request})
		if err != nil {
			return err
		}
		for _, r := range out.Responses[s.table] {
			item, err := decodeItem(r)
			if err != nil {
				return err
			}
			found[item.Key] = item
		}
		if len(out.UnprocessedKeys) == 0 {
			return nil
		}
		request = out.UnprocessedKeys
	}
	return fmt.Errorf("%d keys unprocessed after %d tries: the table is throttled", len(request[s.table].Keys), batchGetTries)
}

// pause waits before the given try (1 is the second): exponentially longer, with full jitter.
func pause(ctx context.Context, try int) error {
	ceiling := min(firstPause<<(try-1), longestPause)
	timer := time.NewTimer(rand.N(ceiling))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
