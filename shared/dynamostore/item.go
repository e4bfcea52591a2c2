package dynamostore

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/errand-dev/errand/shared/platform"
)

func encodeItem(item platform.Item) (row, error) {
	r := keyRow(item.Key)
	r[version] = number(item.Version)
	if !item.Expires.IsZero() {
		r[TTL] = number(epochSeconds(item.Expires))
	}
	attributes, err := encodeBody(item.Body)
	if errors.Is(err, errNoAttributes) {
		r[raw] = &types.AttributeValueMemberS{Value: string(item.Body)}
		return r, nil
	}
	if err != nil {
		return nil, err
	}
	r[body] = attributes
	return r, nil
}

// epochSeconds rounds up, so that nothing expires before its time.
func epochSeconds(t time.Time) int64 {
	seconds := t.Unix()
	if t.Nanosecond() > 0 {
		seconds++
	}
	return seconds
}

// decodeItem is the reverse of encodeItem. A row that it cannot read was not
// written by this package.
func decodeItem(r row) (platform.Item, error) {
	item := platform.Item{Key: platform.Key{Partition: text(r[PartitionKey]), Sort: text(r[SortKey])}}
	var err error
	if item.Version, err = integer(r[version]); err != nil {
		return platform.Item{}, fmt.Errorf("reading the version of item %q %q: %w", item.Key.Partition, item.Key.Sort, err)
	}
	if r[TTL] != nil {
		seconds, err := integer(r[TTL])
		if err != nil {
			return platform.Item{}, fmt.Errorf("reading the expiry of item %q %q: %w", item.Key.Partition, item.Key.Sort, err)
		}
		item.Expires = time.Unix(seconds, 0).UTC()
	}
	if r[raw] != nil {
		item.Body = []byte(text(r[raw]))
		return item, nil
	}
	if item.Body, err = decodeBody(r[body]); err != nil {
		return platform.Item{}, fmt.Errorf("reading the body of item %q %q: %w", item.Key.Partition, item.Key.Sort, err)
	}
	return item, nil
}

func text(v types.AttributeValue) string {
	s, ok := v.(*types.AttributeValueMemberS)
	if !ok {
		return ""
	}
	return s.Value
}

func integer(v types.AttributeValue) (int64, error) {
	n, ok := v.(*types.AttributeValueMemberN)
	if !ok {
		return 0, fmt.Errorf("not a number attribute but %T", v)
	}
	return strconv.ParseInt(n.Value, 10, 64)
}
