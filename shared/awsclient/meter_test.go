package awsclient_test

import (
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/errand-dev/errand/shared/awsclient"
)

func TestABillAddsUpUnitsAndListPrices(t *testing.T) {
	t.Parallel()
	var meter awsclient.Meter
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() { meter.Add(awsclient.WriteUnit, "PutItem", 2) })
	}
	wg.Wait()
	meter.Add(awsclient.FIFORequest, "SendMessage", 1)
	meter.Add(awsclient.HTTPRequest, "turns", 1)
	bill := meter.Bill()
	if got, want := bill.Dollars(), 20*0.625+0.50+1.00; math.Abs(got-want) > 1e-9 || bill.Units() != 22 {
		t.Errorf("%d units for $%.3f, want 22 for $%.3f:\n%s", bill.Units(), got, want, bill)
	}
	lines := strings.Split(strings.TrimSpace(bill.String()), "\n")
	if len(lines) != 1+3+1 || !strings.Contains(lines[1], "PutItem") || !strings.Contains(lines[4], "14.000") {
		t.Errorf("the table is\n%s", bill)
	}
	meter.Reset()
	if got := meter.Bill(); len(got) != 0 {
		t.Errorf("after a reset: %v", got)
	}
}

func TestTheSizeOfAnItemIsDynamoDBs(t *testing.T) {
	t.Parallel()
	for want, item := range map[int]map[string]types.AttributeValue{
		0:  {},
		5:  {"pk": &types.AttributeValueMemberS{Value: "abc"}},
		8:  {"n": &types.AttributeValueMemberN{Value: "1234567890"}}, // a byte for two digits, and at most two more
		3:  {"no": &types.AttributeValueMemberBOOL{Value: false}},
		11: {"m": &types.AttributeValueMemberM{Value: map[string]types.AttributeValue{"k": &types.AttributeValueMemberS{Value: "value"}}}},
		10: {"l": &types.AttributeValueMemberL{Value: []types.AttributeValue{
			&types.AttributeValueMemberNULL{Value: true}, &types.AttributeValueMemberS{Value: "abc"},
		}}},
	} {
		if got := awsclient.ItemSize(item); got != want {
			t.Errorf("%v has %d bytes, want %d", item, got, want)
		}
	}
}

func ExampleBill() {
	var meter awsclient.Meter
	meter.Add(awsclient.WriteUnit, "PutItem", 1)
	meter.Add(awsclient.FIFORequest, "SendMessage", 1)
	fmt.Printf("$%.3f per million\n", meter.Bill().Dollars())
	// Output: $1.125 per million
}
