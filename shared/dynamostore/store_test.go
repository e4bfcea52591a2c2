package dynamostore_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
	"github.com/google/go-cmp/cmp"

	"github.com/errand-dev/errand/shared/dynamostore"
	"github.com/errand-dev/errand/shared/platform"
)

// fakeTable answers the calls that a test sets up; the others panic. That the
// conditions themselves hold is tested against a server, in localstack/adapters.
type fakeTable struct {
	*dynamodb.Client
	put      func(*dynamodb.PutItemInput) error
	batchGet func(*dynamodb.BatchGetItemInput) *dynamodb.BatchGetItemOutput
	get      row
}

type row = map[string]types.AttributeValue

func (f *fakeTable) PutItem(_ context.Context, in *dynamodb.PutItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error) {
	return &dynamodb.PutItemOutput{}, f.put(in)
}

func (f *fakeTable) BatchGetItem(_ context.Context, in *dynamodb.BatchGetItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error) {
	return f.batchGet(in), nil
}

func (f *fakeTable) GetItem(context.Context, *dynamodb.GetItemInput, ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	return &dynamodb.GetItemOutput{Item: f.get}, nil
}

func newItem(body string) platform.Item {
	return platform.Item{Key: platform.Key{Partition: "p", Sort: "s"}, Version: 1, Body: []byte(body)}
}

// stored returns the row that putting the item writes.
func stored(t *testing.T, item platform.Item) row {
	t.Helper()
	var written row
	store := dynamostore.New(&fakeTable{put: func(in *dynamodb.PutItemInput) error {
		written = in.Item
		return nil
	}}, "table")
	if err := store.Put(t.Context(), item); err != nil {
		t.Fatal(err)
	}
	return written
}

// loaded returns the item that a row is read as.
func loaded(t *testing.T, r row) platform.Item {
	t.Helper()
	item, err := dynamostore.New(&fakeTable{get: r}, "table").Get(t.Context(), platform.Key{Partition: "p", Sort: "s"})
	if err != nil {
		t.Fatal(err)
	}
	return item
}

func TestABodyIsStoredAsAttributesThatAnOperatorCanRead(t *testing.T) {
	t.Parallel()
	got := stored(t, newItem(`{"status":"running","attempts":12345678901234567890,"open":{"r1":true},"empty":{},"text":"","none":null,"list":[1.50]}`))
	want := &types.AttributeValueMemberM{Value: row{
		"status":   &types.AttributeValueMemberS{Value: "running"},
		"attempts": &types.AttributeValueMemberN{Value: "12345678901234567890"},
		"open":     &types.AttributeValueMemberM{Value: row{"r1": &types.AttributeValueMemberBOOL{Value: true}}},
		"empty":    &types.AttributeValueMemberM{Value: row{}},
		"text":     &types.AttributeValueMemberS{Value: ""},
		"none":     &types.AttributeValueMemberNULL{Value: true},
		"list":     &types.AttributeValueMemberL{Value: []types.AttributeValue{&types.AttributeValueMemberN{Value: "1.50"}}},
	}}
	if diff := cmp.Diff(want, got["body"], cmp.Exporter(exported)); diff != "" {
		t.Errorf("body (-want +got):\n%s", diff)
	}
}

func TestABodyThatAttributesCannotHoldIsStoredAsText(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat(`{"d":`, 31) + "1" + strings.Repeat("}", 31)
	for name, c := range map[string]struct {
		body string
		raw  bool
	}{
		"38 digits":            {`{"n":` + strings.Repeat("1", 38) + `}`, false},
		"39 digits":            {`{"n":` + strings.Repeat("1", 39) + `}`, true},
		"zeros are no digits":  {`{"n":-0.` + strings.Repeat("0", 50) + strings.Repeat("1", 38) + `}`, false},
		"a large exponent":     {`{"n":1e100}`, false},
		"too large":            {`{"n":1e126}`, true},
		"much too large":       {`{"n":1e99999999999999999999}`, true},
		"too small":            {`{"n":1e-131}`, true},
		"an empty name":        {`{"a":{"":1}}`, true},
		"a deep object":        {deep, true},
		"a less deep object":   {`{"d":` + strings.Repeat(`[`, 28) + strings.Repeat("]", 28) + `}`, false},
		"many small values":    {`{"l":[` + strings.Repeat("0,", 140_000) + `0]}`, true},
		"as much, in one text": {`{"l":"` + strings.Repeat("0,", 140_000) + `"}`, false},
	} {
		r := stored(t, newItem(c.body))
		if _, raw := r["raw"]; raw != c.raw {
			t.Errorf("%s: stored as text: %v, want %v", name, raw, c.raw)
		}
		if got, want := normal(t, loaded(t, r).Body), normal(t, []byte(c.body)); got != want {
			t.Errorf("%s: %.100s came back as %.100s", name, want, got)
		}
	}
}

func TestABodyMustBeOneJSONObject(t *testing.T) {
	t.Parallel()
	store := dynamostore.New(&fakeTable{}, "table") // which panics on any call
	for _, body := range []string{``, `null`, `[]`, `"a"`, `1`, `{`, `{}{}`, `{} x`} {
		if err := store.Put(t.Context(), newItem(body)); err == nil {
			t.Errorf("%q was accepted", body)
		}
	}
}

func TestAnExpiryIsRoundedUpToASecond(t *testing.T) {
	t.Parallel()
	item := newItem(`{}`)
	for expires, want := range map[time.Time]time.Time{
		time.Unix(100, 0): time.Unix(100, 0),
		time.Unix(100, 1): time.Unix(101, 0),
		{}:                {},
	} {
		item.Expires = expires
		if got := loaded(t, stored(t, item)).Expires; !got.Equal(want) {
			t.Errorf("%v came back as %v, want %v", expires, got, want)
		}
	}
}

func TestGetManyAsksAgainForKeysThatWereNotProcessed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		requests := 0
		store := dynamostore.New(&fakeTable{batchGet: func(in *dynamodb.BatchGetItemInput) *dynamodb.BatchGetItemOutput {
			requests++
			keys := in.RequestItems["table"]
			if !aws.ToBool(keys.ConsistentRead) || len(keys.Keys) > 100 {
				t.Errorf("asked for %d keys, consistent %v", len(keys.Keys), keys.ConsistentRead)
			}
			n := min(40, len(keys.Keys))
			out := &dynamodb.BatchGetItemOutput{Responses: map[string][]row{"table": {}}}
			for _, key := range keys.Keys[:n] {
				out.Responses["table"] = append(out.Responses["table"], row{
					"pk": key["pk"], "sk": key["sk"], "ver": &types.AttributeValueMemberN{Value: "1"}, "body": &types.AttributeValueMemberM{},
				})
			}
			if n < len(keys.Keys) {
				keys.Keys = keys.Keys[n:]
				out.UnprocessedKeys = map[string]types.KeysAndAttributes{"table": keys}
			}
			return out
		}}, "table")
		var keys []platform.Key
		for i := range 130 {
			keys = append(keys, platform.Key{Partition: "p", Sort: fmt.Sprint(i)})
		}
		items, err := store.GetMany(t.Context(), keys)
		if err != nil {
			t.Fatal(err)
		}
		for i, item := range items {
			if item.Key != keys[i] || !item.Exists() {
				t.Errorf("item %d is %v", i, item)
			}
		}
		if requests != 4 { // 40 + 40 + 20 of the first hundred, then 30
			t.Errorf("%d requests, want 4", requests)
		}
	})
}

func TestGetManyGivesUpOnATableThatAnswersNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := dynamostore.New(&fakeTable{batchGet: func(in *dynamodb.BatchGetItemInput) *dynamodb.BatchGetItemOutput {
			return &dynamodb.BatchGetItemOutput{UnprocessedKeys: in.RequestItems}
		}}, "table")
		if _, err := store.GetMany(t.Context(), []platform.Key{{Partition: "p", Sort: "s"}}); err == nil {
			t.Error("no error")
		}
	})
}

func TestErrorsOfDynamoDBAreTranslatedOnce(t *testing.T) {
	t.Parallel()
	put := func(err error) error {
		return dynamostore.New(&fakeTable{put: func(*dynamodb.PutItemInput) error { return err }}, "table").Put(t.Context(), newItem(`{}`))
	}
	refused := &types.ConditionalCheckFailedException{}
	if conflict, ok := errors.AsType[*platform.ConflictError](put(refused)); !ok || conflict.Stored.Version != 0 || conflict.Stored.Key.Sort != "s" {
		t.Errorf("a refused put over nothing: %v", conflict)
	}
	refused.Item = stored(t, platform.Item{Key: newItem("").Key, Version: 7, Body: []byte(`{"a":1}`)})
	if conflict, ok := errors.AsType[*platform.ConflictError](put(refused)); !ok || conflict.Stored.Version != 7 || string(conflict.Stored.Body) != `{"a":1}` {
		t.Errorf("a refused put: %v", conflict)
	}
	large := &smithy.GenericAPIError{Code: "ValidationException", Message: "Item size has exceeded the maximum allowed size"}
	if err := put(large); !errors.Is(err, platform.ErrTooLarge) {
		t.Errorf("an item over DynamoDB's limit: %v", err)
	}
	throttled := &types.ProvisionedThroughputExceededException{}
	if err := put(throttled); !errors.Is(err, throttled) {
		t.Errorf("a throttled put: %v", err)
	}
}

// exported lets cmp look at the SDK's unexported marker fields, which are empty.
func exported(reflect.Type) bool { return true }

func normal(t *testing.T, body []byte) string {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(string(body)))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}
