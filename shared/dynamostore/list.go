package dynamostore

import (
	"context"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/errand-dev/errand/shared/platform"
)

// defaultLimit is what a Query with Limit 0 means by contract.
const defaultLimit = 1000

// List implements platform.Items with as many pages of Query as the limit takes.
func (s *Store) List(ctx context.Context, q platform.Query) ([]platform.Item, error) {
	limit := q.Limit
	if limit <= 0 {
		limit = defaultLimit
	}
	after, empty := startAfter(q)
	if empty {
		return nil, nil
	}
	in := s.query(q)
	if after != "" {
		in.ExclusiveStartKey = keyRow(platform.Key{Partition: q.Partition, Sort: after})
	}
	var items []platform.Item
	for {
		in.Limit = ptr(int32(min(limit-len(items), defaultLimit)))
		out, err := s.client.Query(ctx, in)
		if err != nil {
			return nil, fmt.Errorf("listing %q %q: %w", q.Partition, q.Prefix, err)
		}
		for _, r := range out.Items {
			item, err := decodeItem(r)
			if err != nil {
				return nil, fmt.Errorf("listing %q %q: %w", q.Partition, q.Prefix, err)
			}
			items = append(items, item)
		}
		if len(items) >= limit || len(out.LastEvaluatedKey) == 0 {
			return items, nil
		}
		in.ExclusiveStartKey = out.LastEvaluatedKey
	}
}

func (s *Store) query(q platform.Query) *dynamodb.QueryInput {
	in := &dynamodb.QueryInput{
		TableName:                 &s.table,
		ConsistentRead:            ptr(true),
		ScanIndexForward:          ptr(!q.Descending),
		KeyConditionExpression:    ptr("#pk = :pk"),
		ExpressionAttributeNames:  map[string]string{"#pk": PartitionKey},
		ExpressionAttributeValues: row{":pk": &types.AttributeValueMemberS{Value: q.Partition}},
	}
	if q.Prefix != "" {
		in.KeyConditionExpression = ptr("#pk = :pk AND begins_with(#sk, :prefix)")
		in.ExpressionAttributeNames["#sk"] = SortKey
		in.ExpressionAttributeValues[":prefix"] = &types.AttributeValueMemberS{Value: q.Prefix}
	}
	return in
}

// startAfter returns the sort key to begin after, "" for none, and whether the
// answer is empty anyway. DynamoDB refuses a start key outside the prefix, though
// the question makes sense: the range lies wholly before it or wholly behind it.
func startAfter(q platform.Query) (after string, empty bool) {
	if q.After == "" || strings.HasPrefix(q.After, q.Prefix) {
		return q.After, false
	}
	rangeIsAhead := q.After < q.Prefix
	if q.Descending {
		rangeIsAhead = !rangeIsAhead
	}
	return "", !rangeIsAhead
}
