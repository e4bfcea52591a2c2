package awsclient

import (
	ddbtypes "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// ItemSize returns the size in bytes of an item as DynamoDB counts it: names and
// values, a number as half a byte per digit and one more, each list and map three
// bytes and one more per element (DynamoDB developer guide, "Item sizes and formats").
func ItemSize(item map[string]ddbtypes.AttributeValue) int {
	size := 0
	for name, v := range item {
		size += len(name) + valueSize(v)
	}
	return size
}

func valueSize(value ddbtypes.AttributeValue) int {
	switch v := value.(type) {
	case *ddbtypes.AttributeValueMemberS:
		return len(v.Value)
	case *ddbtypes.AttributeValueMemberN:
		return len(v.Value)/2 + 2
	case *ddbtypes.AttributeValueMemberB:
		return len(v.Value)
	case *ddbtypes.AttributeValueMemberM:
		return 3 + len(v.Value) + ItemSize(v.Value)
	case *ddbtypes.AttributeValueMemberL:
		size := 3 + len(v.Value)
		for _, e := range v.Value {
			size += valueSize(e)
		}
		return size
	}
	return 1 // BOOL and NULL
}
