package adapters

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	ddbtypes "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/scheduler"
	schedtypes "github.com/aws/aws-sdk-go-v2/service/scheduler/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/errand-dev/errand/localstack/endpoint"
	"github.com/errand-dev/errand/shared/awsclient"
	"github.com/errand-dev/errand/shared/dynamostore"
	"github.com/errand-dev/errand/shared/platform"
)

// testedMiniStack is the version that the list below describes.
const testedMiniStack = "1.5.33"

// probe asks an endpoint one question that AWS answers with yes.
type probe struct {
	sentence string
	// ministack says whether testedMiniStack does as AWS documents.
	ministack bool
	ask       func(*probes) bool
}

var behaviours = []probe{
	{"SQS: deleting a message again succeeds", false, (*probes).deleteTwice},
	{"SQS: a delay over 15 minutes is refused", false, (*probes).longDelay},
	{"SQS: a delay on a FIFO queue is refused", true, (*probes).delayedTurn},
	{"SQS: receiving more than 10 is refused", true, (*probes).largeReceive},
	{"SQS: a visibility over 12 hours is refused", false, (*probes).longVisibility},
	{"SQS: a batch with an id twice is refused", true, (*probes).batchWithDuplicates},
	{"SQS: a lost receive can be had again by its attempt id", false, (*probes).receiveAttempt},
	{"SQS: dead letters can be moved by StartMessageMoveTask", false, (*probes).moveTask},
	{"Scheduler: a client token makes a creation repeatable", false, (*probes).clientToken},
	{"Scheduler: a nonsense expression is refused", false, (*probes).nonsenseExpression},
	{"DynamoDB: a strong read of 9 KB bills three units", false, (*probes).readUnits},
	{"DynamoDB: an item over 400 KB is refused", true, (*probes).largeItem},
	{"DynamoDB: a number of 39 digits is refused", true, (*probes).longNumber},
	{"DynamoDB: 33 levels of nesting are refused", true, (*probes).deepItem},
	{"DynamoDB: a batch read that names a key twice is refused", true, (*probes).batchGetTwice},
	{"DynamoDB: a start key outside the prefix is refused", true, (*probes).strayStartKey},
	{"DynamoDB: a page ends at 1 MB", true, (*probes).pageSize},
	{"S3: an upload that does not match its checksum is refused", true, (*probes).wrongChecksum},
}

// TestTheKnownDeviationsAreStillThere holds the list in docs/emulators.md to the
// truth for the MiniStack that it names. Of another endpoint it only logs the differences.
func TestTheKnownDeviationsAreStillThere(t *testing.T) {
	p := newProbes(t)
	known := miniStackVersion(endpoint.URL(t)) == testedMiniStack
	for _, b := range behaviours {
		asAWS := b.ask(p)
		if !asAWS {
			t.Logf("known deviation: not so: %s", b.sentence)
		}
		if known && asAWS != b.ministack {
			t.Errorf("%s: %v, but the list says %v", b.sentence, asAWS, b.ministack)
		}
	}
}

// miniStackVersion returns "" for any other endpoint.
func miniStackVersion(url string) string {
	response, err := http.Get(url + "/_ministack/health")
	if err != nil {
		return ""
	}
	defer response.Body.Close()
	var health struct{ Version string }
	if json.NewDecoder(response.Body).Decode(&health) != nil {
		return ""
	}
	return health.Version
}

type probes struct {
	*testing.T
	*awsclient.Clients
	table, bucket, group, turns, runs, runsDead string
}

func newProbes(t *testing.T) *probes {
	p := &probes{T: t, Clients: endpoint.Clients(t, awsclient.Config{}), table: endpoint.Name("table"), bucket: endpoint.Name("bucket"), group: endpoint.Name("group")}
	_, urls := newQueues(t, p.Clients)
	p.turns, p.runs, p.runsDead = urls[platform.Turns].Queue, urls[platform.Runs].Queue, urls[platform.Runs].DeadLetters
	_, err := p.Scheduler.CreateScheduleGroup(t.Context(), &scheduler.CreateScheduleGroupInput{Name: &p.group})
	p.must(err)
	p.must(dynamostore.CreateTable(t.Context(), p.DynamoDB, p.table))
	_, err = p.S3.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: &p.bucket})
	p.must(err)
	return p
}

func (p *probes) must(err error) {
	p.Helper()
	if err != nil {
		p.Fatal(err)
	}
}

func (p *probes) deleteTwice() bool {
	_, err := p.SQS.SendMessage(p.Context(), &sqs.SendMessageInput{QueueUrl: &p.runs, MessageBody: aws.String("x")})
	p.must(err)
	out, err := p.SQS.ReceiveMessage(p.Context(), &sqs.ReceiveMessageInput{QueueUrl: &p.runs})
	p.must(err)
	in := &sqs.DeleteMessageInput{QueueUrl: &p.runs, ReceiptHandle: out.Messages[0].ReceiptHandle}
	_, err = p.SQS.DeleteMessage(p.Context(), in)
	p.must(err)
	_, err = p.SQS.DeleteMessage(p.Context(), in)
	return err == nil
}

func (p *probes) longDelay() bool {
	_, err := p.SQS.SendMessage(p.Context(), &sqs.SendMessageInput{QueueUrl: &p.runs, MessageBody: aws.String("x"), DelaySeconds: 901})
	return err != nil
}

func (p *probes) delayedTurn() bool {
	_, err := p.SQS.SendMessage(p.Context(), &sqs.SendMessageInput{
		QueueUrl: &p.turns, MessageBody: aws.String("x"), DelaySeconds: 5, MessageGroupId: aws.String("g"), MessageDeduplicationId: aws.String("d"),
	})
	return err != nil
}

func (p *probes) largeReceive() bool {
	_, err := p.SQS.ReceiveMessage(p.Context(), &sqs.ReceiveMessageInput{QueueUrl: &p.runs, MaxNumberOfMessages: 11})
	return err != nil
}

func (p *probes) longVisibility() bool {
	_, err := p.SQS.ReceiveMessage(p.Context(), &sqs.ReceiveMessageInput{QueueUrl: &p.runs, VisibilityTimeout: 43201})
	return err != nil
}

func (p *probes) batchWithDuplicates() bool {
	entry := sqstypes.SendMessageBatchRequestEntry{Id: aws.String("1"), MessageBody: aws.String("x")}
	_, err := p.SQS.SendMessageBatch(p.Context(), &sqs.SendMessageBatchInput{QueueUrl: &p.runs, Entries: []sqstypes.SendMessageBatchRequestEntry{entry, entry}})
	return err != nil
}

func (p *probes) receiveAttempt() bool {
	_, err := p.SQS.SendMessage(p.Context(), &sqs.SendMessageInput{
		QueueUrl: &p.turns, MessageBody: aws.String("x"), MessageGroupId: aws.String("attempt"), MessageDeduplicationId: aws.String("attempt"),
	})
	p.must(err)
	in := &sqs.ReceiveMessageInput{QueueUrl: &p.turns, VisibilityTimeout: 600, MaxNumberOfMessages: 10, ReceiveRequestAttemptId: aws.String("a1")}
	first, err := p.SQS.ReceiveMessage(p.Context(), in)
	p.must(err)
	second, err := p.SQS.ReceiveMessage(p.Context(), in)
	p.must(err)
	return len(first.Messages) > 0 && len(second.Messages) == len(first.Messages)
}

func (p *probes) moveTask() bool {
	_, err := p.SQS.StartMessageMoveTask(p.Context(), &sqs.StartMessageMoveTaskInput{SourceArn: aws.String(queueARN(p.T, p.Clients, p.runsDead))})
	return err == nil
}

func (p *probes) createSchedule(name, expression, token string) error {
	_, err := p.Scheduler.CreateSchedule(p.Context(), &scheduler.CreateScheduleInput{
		Name: &name, GroupName: &p.group, ScheduleExpression: &expression, ClientToken: &token,
		FlexibleTimeWindow: &schedtypes.FlexibleTimeWindow{Mode: schedtypes.FlexibleTimeWindowModeOff},
		Target:             &schedtypes.Target{Arn: aws.String(queueARN(p.T, p.Clients, p.runs)), RoleArn: aws.String("arn:aws:iam::000000000000:role/r")},
	})
	return err
}

func (p *probes) clientToken() bool {
	at := time.Now().Add(time.Hour).UTC().Format("at(2006-01-02T15:04:05)")
	p.must(p.createSchedule("token", at, "token-1"))
	return p.createSchedule("token", at, "token-1") == nil
}

func (p *probes) nonsenseExpression() bool {
	return p.createSchedule("nonsense", "rate(5 seconds)", "token-2") != nil
}

func text(s string) ddbtypes.AttributeValue { return &ddbtypes.AttributeValueMemberS{Value: s} }

func (p *probes) put(sort string, value ddbtypes.AttributeValue) error {
	_, err := p.DynamoDB.PutItem(p.Context(), &dynamodb.PutItemInput{
		TableName: &p.table, Item: map[string]ddbtypes.AttributeValue{"pk": text("p"), "sk": text(sort), "v": value},
	})
	return err
}

func (p *probes) readUnits() bool {
	p.must(p.put("9k", text(strings.Repeat("x", 9000))))
	out, err := p.DynamoDB.GetItem(p.Context(), &dynamodb.GetItemInput{
		TableName: &p.table, Key: map[string]ddbtypes.AttributeValue{"pk": text("p"), "sk": text("9k")},
		ConsistentRead: aws.Bool(true), ReturnConsumedCapacity: ddbtypes.ReturnConsumedCapacityTotal,
	})
	p.must(err)
	return out.ConsumedCapacity != nil && aws.ToFloat64(out.ConsumedCapacity.CapacityUnits) == 3
}

func (p *probes) largeItem() bool { return p.put("large", text(strings.Repeat("x", 401<<10))) != nil }

func (p *probes) longNumber() bool {
	return p.put("number", &ddbtypes.AttributeValueMemberN{Value: strings.Repeat("1", 39)}) != nil
}

func (p *probes) deepItem() bool {
	value := text("x")
	for range 33 {
		value = &ddbtypes.AttributeValueMemberL{Value: []ddbtypes.AttributeValue{value}}
	}
	return p.put("deep", value) != nil
}

func (p *probes) batchGetTwice() bool {
	key := map[string]ddbtypes.AttributeValue{"pk": text("p"), "sk": text("s")}
	_, err := p.DynamoDB.BatchGetItem(p.Context(), &dynamodb.BatchGetItemInput{
		RequestItems: map[string]ddbtypes.KeysAndAttributes{p.table: {Keys: []map[string]ddbtypes.AttributeValue{key, key}}},
	})
	return err != nil
}

func (p *probes) query(prefix, after string) (*dynamodb.QueryOutput, error) {
	in := &dynamodb.QueryInput{
		TableName: &p.table, KeyConditionExpression: aws.String("pk = :p AND begins_with(sk, :s)"),
		ExpressionAttributeValues: map[string]ddbtypes.AttributeValue{":p": text("p"), ":s": text(prefix)},
	}
	if after != "" {
		in.ExclusiveStartKey = map[string]ddbtypes.AttributeValue{"pk": text("p"), "sk": text(after)}
	}
	return p.DynamoDB.Query(p.Context(), in)
}

func (p *probes) strayStartKey() bool {
	_, err := p.query("m", "a")
	return err != nil
}

func (p *probes) pageSize() bool {
	for _, sort := range []string{"page-1", "page-2", "page-3", "page-4"} {
		p.must(p.put(sort, text(strings.Repeat("x", 300<<10))))
	}
	out, err := p.query("page-", "")
	p.must(err)
	return len(out.LastEvaluatedKey) > 0
}

func (p *probes) wrongChecksum() bool {
	_, err := p.S3.PutObject(p.Context(), &s3.PutObjectInput{
		Bucket: &p.bucket, Key: aws.String("k"), Body: strings.NewReader("data"),
		ChecksumSHA256: aws.String("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="),
	})
	return err != nil
}
