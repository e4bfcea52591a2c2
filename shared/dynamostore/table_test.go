package dynamostore_test

import (
	"context"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/errand-dev/errand/shared/dynamostore"
)

type described types.TableDescription

func (d described) DescribeTable(context.Context, *dynamodb.DescribeTableInput, ...func(*dynamodb.Options)) (*dynamodb.DescribeTableOutput, error) {
	table := types.TableDescription(d)
	return &dynamodb.DescribeTableOutput{Table: &table}, nil
}

func table(hash, sort string, sortType types.ScalarAttributeType) described {
	return described{
		TableStatus: types.TableStatusActive,
		AttributeDefinitions: []types.AttributeDefinition{
			{AttributeName: &hash, AttributeType: types.ScalarAttributeTypeS}, {AttributeName: &sort, AttributeType: sortType},
		},
		KeySchema: []types.KeySchemaElement{
			{AttributeName: &hash, KeyType: types.KeyTypeHash}, {AttributeName: &sort, KeyType: types.KeyTypeRange},
		},
	}
}

func TestCheckReportsEveryDifferenceOfATable(t *testing.T) {
	t.Parallel()
	if err := dynamostore.Check(t.Context(), table("pk", "sk", types.ScalarAttributeTypeS), "t"); err != nil {
		t.Errorf("the right table: %v", err)
	}
	wrong := table("id", "sk", types.ScalarAttributeTypeN)
	wrong.TableStatus = types.TableStatusDeleting
	err := dynamostore.Check(t.Context(), wrong, "t")
	if err == nil {
		t.Fatal("a wrong table passed")
	}
	for _, want := range []string{"DELETING", `"id"`, `type "N"`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %s", err, want)
		}
	}
}

func TestCreateTableIsRefusedOnAWS(t *testing.T) {
	t.Parallel()
	client := dynamodb.New(dynamodb.Options{Region: "us-east-1", Credentials: aws.AnonymousCredentials{}})
	if err := dynamostore.CreateTable(t.Context(), client, "t"); err == nil || !strings.Contains(err.Error(), "local endpoint") {
		t.Errorf("got %v", err)
	}
}
