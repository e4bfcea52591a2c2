// Package dynamostore implements platform.Items on one DynamoDB table.
//
// An item is one row: its key (pk, sk), its version (ver), an expiry for
// DynamoDB's TTL (ttl, epoch seconds) and its JSON body as real attributes
// (body, a map), so that an operator can read and filter rows in the console. A
// body that attributes cannot hold exactly is kept as JSON text (raw) instead.
//
//	method   call            consistency  condition
//	Get      GetItem         strong       -
//	GetMany  BatchGetItem    strong       -
//	List     Query           strong       -
//	Put      PutItem         -            the row is absent, or has the version before
//	Delete   DeleteItem      -            the row is absent, or has this version
//
// Main path: Put in put.go, then body.go.
package dynamostore

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/errand-dev/errand/shared/platform"
)

// The attributes of a row. Template and table share them.
const (
	PartitionKey = "pk"
	SortKey      = "sk"
	TTL          = "ttl"

	version = "ver"
	body    = "body"
	raw     = "raw"
)

// api is what the store calls of *dynamodb.Client.
type api interface {
	GetItem(context.Context, *dynamodb.GetItemInput, ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error)
	BatchGetItem(context.Context, *dynamodb.BatchGetItemInput, ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error)
	PutItem(context.Context, *dynamodb.PutItemInput, ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error)
	DeleteItem(context.Context, *dynamodb.DeleteItemInput, ...func(*dynamodb.Options)) (*dynamodb.DeleteItemOutput, error)
	Query(context.Context, *dynamodb.QueryInput, ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error)
}

// Store reads and writes the items of one table. It is safe for concurrent use.
type Store struct {
	client api
	table  string
}

var _ platform.Items = (*Store)(nil)

// New returns the store of a table that exists. It calls nothing.
func New(client api, table string) *Store { return &Store{client: client, table: table} }

// row is an item as DynamoDB holds it.
type row = map[string]types.AttributeValue

func keyRow(key platform.Key) row {
	return row{
		PartitionKey: &types.AttributeValueMemberS{Value: key.Partition},
		SortKey:      &types.AttributeValueMemberS{Value: key.Sort},
	}
}
