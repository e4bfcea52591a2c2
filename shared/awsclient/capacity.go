package awsclient

import (
	"math"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	ddbtypes "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// capacity returns the units that DynamoDB reported, if any.
func capacity(output any) int {
	var used []ddbtypes.ConsumedCapacity
	switch out := output.(type) {
	case *dynamodb.PutItemOutput:
		used = appendCapacity(used, out.ConsumedCapacity)
	case *dynamodb.DeleteItemOutput:
		used = appendCapacity(used, out.ConsumedCapacity)
	case *dynamodb.GetItemOutput:
		used = appendCapacity(used, out.ConsumedCapacity)
	case *dynamodb.QueryOutput:
		used = appendCapacity(used, out.ConsumedCapacity)
	case *dynamodb.BatchGetItemOutput:
		used = out.ConsumedCapacity
	}
	sum := 0.0
	for _, c := range used {
		sum += aws.ToFloat64(c.CapacityUnits)
	}
	return int(math.Ceil(sum))
}

// strongRead returns the units of a strongly consistent read by what it returned:
// one for each 4 KB of an item, or of all items of a query together.
func strongRead(input, output any) int {
	const unit = 4 << 10
	switch out := output.(type) {
	case *dynamodb.GetItemOutput:
		return chunks(ItemSize(out.Item), unit)
	case *dynamodb.QueryOutput:
		size := 0
		for _, item := range out.Items {
			size += ItemSize(item)
		}
		return chunks(size, unit)
	case *dynamodb.BatchGetItemOutput:
		in, ok := input.(*dynamodb.BatchGetItemInput)
		if !ok {
			return 0
		}
		sum := keys(in.RequestItems) - keys(out.UnprocessedKeys)
		for _, items := range out.Responses {
			for _, item := range items {
				sum += chunks(ItemSize(item), unit) - 1
			}
		}
		return sum
	}
	return 1
}

func appendCapacity(all []ddbtypes.ConsumedCapacity, one *ddbtypes.ConsumedCapacity) []ddbtypes.ConsumedCapacity {
	if one == nil {
		return all
	}
	return append(all, *one)
}

func keys(tables map[string]ddbtypes.KeysAndAttributes) int {
	sum := 0
	for _, t := range tables {
		sum += len(t.Keys)
	}
	return sum
}
