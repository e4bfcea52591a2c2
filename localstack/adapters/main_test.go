// Package adapters tests the AWS adapters through the real SDK against an
// AWS-compatible endpoint (see package endpoint): the conformance suites, the race
// for one item, the SDK's retries of writes whose answer was lost, and what a bill
// counts. Its tests prove the wiring and the conditions, not AWS itself:
// docs/emulators.md lists where the endpoint differs, and
// TestTheKnownDeviationsAreStillThere holds the list to the truth.
package adapters

import (
	"os"
	"testing"

	"github.com/errand-dev/errand/localstack/endpoint"
	"github.com/errand-dev/errand/shared/awsclient"
	"github.com/errand-dev/errand/shared/dynamostore"
	"github.com/errand-dev/errand/shared/s3blob"
	"github.com/errand-dev/errand/shared/sqsqueue"
)

func TestMain(m *testing.M) { os.Exit(endpoint.Main(m)) }

func newItems(t *testing.T, clients *awsclient.Clients) *dynamostore.Store {
	t.Helper()
	table := endpoint.Name("table")
	if err := dynamostore.CreateTable(t.Context(), clients.DynamoDB, table); err != nil {
		t.Fatal(err)
	}
	if err := dynamostore.Check(t.Context(), clients.DynamoDB, table); err != nil {
		t.Fatal(err)
	}
	return dynamostore.New(clients.DynamoDB, table)
}

func newQueues(t *testing.T, clients *awsclient.Clients) (*sqsqueue.Queues, map[string]sqsqueue.URLs) {
	t.Helper()
	urls, err := sqsqueue.CreateQueues(t.Context(), clients.SQS, endpoint.Name("queue"))
	if err != nil {
		t.Fatal(err)
	}
	return sqsqueue.New(clients.SQS, urls), urls
}

func newBlobs(t *testing.T, clients *awsclient.Clients) *s3blob.Blobs {
	t.Helper()
	bucket := endpoint.Name("bucket")
	if err := s3blob.CreateBucket(t.Context(), clients.S3, bucket); err != nil {
		t.Fatal(err)
	}
	return s3blob.New(clients.S3, bucket, "blobs/")
}
