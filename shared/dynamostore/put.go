package dynamostore

import (
	"context"
	"fmt"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/errand-dev/errand/shared/platform"
)

// Put implements platform.Items with one conditional PutItem. A refused condition
// brings the stored row along (ALL_OLD), at no charge.
func (s *Store) Put(ctx context.Context, item platform.Item) error {
	if item.Version < 1 {
		return fmt.Errorf("putting item %q %q: version %d is not positive", item.Key.Partition, item.Key.Sort, item.Version)
	}
	if len(item.Body) > platform.MaxBody {
		return fmt.Errorf("putting item %q %q of %d bytes: %w", item.Key.Partition, item.Key.Sort, len(item.Body), platform.ErrTooLarge)
	}
	r, err := encodeItem(item)
	if err != nil {
		return fmt.Errorf("putting item %q %q: %w", item.Key.Partition, item.Key.Sort, err)
	}
	in := &dynamodb.PutItemInput{
		TableName:                           &s.table,
		Item:                                r,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}
	if item.Version == 1 {
		in.ConditionExpression = ptr("attribute_not_exists(#pk)")
		in.ExpressionAttributeNames = map[string]string{"#pk": PartitionKey}
	} else {
		in.ConditionExpression = ptr("#ver = :before")
		in.ExpressionAttributeNames = map[string]string{"#ver": version}
		in.ExpressionAttributeValues = row{":before": number(item.Version - 1)}
	}
	if _, err := s.client.PutItem(ctx, in); err != nil {
		return translate("putting", item.Key, err)
	}
	return nil
}

// Delete implements platform.Items with one DeleteItem, conditional unless version is 0.
func (s *Store) Delete(ctx context.Context, key platform.Key, v int64) error {
	in := &dynamodb.DeleteItemInput{TableName: &s.table, Key: keyRow(key)}
	if v != 0 {
		in.ConditionExpression = ptr("attribute_not_exists(#pk) OR #ver = :version")
		in.ExpressionAttributeNames = map[string]string{"#pk": PartitionKey, "#ver": version}
		in.ExpressionAttributeValues = row{":version": number(v)}
		in.ReturnValuesOnConditionCheckFailure = types.ReturnValuesOnConditionCheckFailureAllOld
	}
	if _, err := s.client.DeleteItem(ctx, in); err != nil {
		return translate("deleting", key, err)
	}
	return nil
}

func number(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}

func ptr[T any](v T) *T { return &v }
