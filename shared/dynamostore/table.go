package dynamostore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// tableWait bounds how long CreateTable waits for the table to become active.
const tableWait = 30 * time.Second

// CreateTable creates the table on a local endpoint and waits until it can be
// used. On AWS the deployed template owns the table, so a client without an
// endpoint override is refused.
func CreateTable(ctx context.Context, client *dynamodb.Client, table string) error {
	if client.Options().BaseEndpoint == nil {
		return fmt.Errorf("creating table %s: only on a local endpoint; on AWS deploy the stack", table)
	}
	_, err := client.CreateTable(ctx, &dynamodb.CreateTableInput{
		TableName:   &table,
		BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{
			{AttributeName: ptr(PartitionKey), AttributeType: types.ScalarAttributeTypeS},
			{AttributeName: ptr(SortKey), AttributeType: types.ScalarAttributeTypeS},
		},
		KeySchema: []types.KeySchemaElement{
			{AttributeName: ptr(PartitionKey), KeyType: types.KeyTypeHash},
			{AttributeName: ptr(SortKey), KeyType: types.KeyTypeRange},
		},
	})
	if err != nil {
		return fmt.Errorf("creating table %s: %w", table, err)
	}
	if err := dynamodb.NewTableExistsWaiter(client).Wait(ctx, &dynamodb.DescribeTableInput{TableName: &table}, tableWait); err != nil {
		return fmt.Errorf("waiting for table %s: %w", table, err)
	}
	_, err = client.UpdateTimeToLive(ctx, &dynamodb.UpdateTimeToLiveInput{
		TableName:               &table,
		TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: ptr(TTL), Enabled: ptr(true)},
	})
	if err != nil {
		return fmt.Errorf("enabling expiry on table %s: %w", table, err)
	}
	return nil
}

// Describer is what Check calls of *dynamodb.Client.
type Describer interface {
	DescribeTable(context.Context, *dynamodb.DescribeTableInput, ...func(*dynamodb.Options)) (*dynamodb.DescribeTableOutput, error)
}

// Check reports every way in which the table is not what this package expects.
func Check(ctx context.Context, client Describer, table string) error {
	out, err := client.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &table})
	if err != nil {
		return fmt.Errorf("checking table %s: %w", table, err)
	}
	var wrong []error
	if status := out.Table.TableStatus; status != types.TableStatusActive && status != types.TableStatusUpdating {
		wrong = append(wrong, fmt.Errorf("its status is %s", status))
	}
	kinds := make(map[string]types.ScalarAttributeType)
	for _, a := range out.Table.AttributeDefinitions {
		kinds[aws.ToString(a.AttributeName)] = a.AttributeType
	}
	keys := make(map[types.KeyType]string)
	for _, k := range out.Table.KeySchema {
		keys[k.KeyType] = aws.ToString(k.AttributeName)
	}
	for kind, name := range map[types.KeyType]string{types.KeyTypeHash: PartitionKey, types.KeyTypeRange: SortKey} {
		if keys[kind] != name || kinds[name] != types.ScalarAttributeTypeS {
			wrong = append(wrong, fmt.Errorf("its %s key is %q of type %q, not %q of type S", kind, keys[kind], kinds[keys[kind]], name))
		}
	}
	if len(wrong) > 0 {
		return fmt.Errorf("checking table %s: %w", table, errors.Join(wrong...))
	}
	return nil
}
