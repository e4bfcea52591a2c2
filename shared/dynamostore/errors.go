package dynamostore

import (
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/errand-dev/errand/shared/platform"
)

// translate turns an error of DynamoDB into the platform's: a refused condition into
// *platform.ConflictError, a row over DynamoDB's limit into platform.ErrTooLarge.
// Throttling, time-outs and lost answers keep their own error, and the caller tries again.
func translate(doing string, key platform.Key, err error) error {
	if refused, ok := errors.AsType[*types.ConditionalCheckFailedException](err); ok {
		return conflict(doing, key, refused)
	}
	if missing, ok := errors.AsType[*types.ResourceNotFoundException](err); ok {
		return fmt.Errorf("%s item %q %q: the table does not exist in this account and region: %w",
			doing, key.Partition, key.Sort, missing)
	}
	if invalid, ok := errors.AsType[smithy.APIError](err); ok &&
		invalid.ErrorCode() == "ValidationException" && strings.Contains(invalid.ErrorMessage(), "Item size") {
		return fmt.Errorf("%s item %q %q: %w (%w)", doing, key.Partition, key.Sort, platform.ErrTooLarge, err)
	}
	return fmt.Errorf("%s item %q %q: %w", doing, key.Partition, key.Sort, err)
}

func conflict(doing string, key platform.Key, refused *types.ConditionalCheckFailedException) error {
	stored := platform.Item{Key: key}
	if len(refused.Item) > 0 {
		var err error
		if stored, err = decodeItem(refused.Item); err != nil {
			return fmt.Errorf("%s item %q %q: reading the item in its way: %w", doing, key.Partition, key.Sort, err)
		}
	}
	return &platform.ConflictError{Stored: stored}
}
