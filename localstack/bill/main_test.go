// Package bill counts what AWS bills for Errand's work, over the AWS adapters and
// against an AWS-compatible endpoint (see package endpoint). Each invocation of a
// Lambda is a stack of its own, as cold as a process that has just started.
package bill

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/errand-dev/errand/localstack/endpoint"
	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/awsclient"
	"github.com/errand-dev/errand/shared/cloud"
	"github.com/errand-dev/errand/shared/config"
	"github.com/errand-dev/errand/shared/dynamostore"
	"github.com/errand-dev/errand/shared/ingress"
	"github.com/errand-dev/errand/shared/lab"
	"github.com/errand-dev/errand/shared/ledger"
	"github.com/errand-dev/errand/shared/platform"
	"github.com/errand-dev/errand/shared/s3blob"
	"github.com/errand-dev/errand/shared/sqsqueue"
	"github.com/errand-dev/errand/shared/subagent"
)

func TestMain(m *testing.M) { os.Exit(endpoint.Main(m)) }

// account is one deployment whose operations are counted.
type account struct {
	t       *testing.T
	config  config.Deployment
	agents  *agent.Registry
	clients *awsclient.Clients
	meter   awsclient.Meter
	// now stands still, so that a slow machine counts the same.
	now time.Time

	mu    sync.Mutex
	calls []string
}

func newAccount(t *testing.T, cadence subagent.Cadence) *account {
	t.Helper()
	a := &account{t: t, agents: agent.NewRegistry(), now: time.Now()}
	if err := lab.Register(a.agents); err != nil {
		t.Fatal(err)
	}
	setup := endpoint.Clients(t, awsclient.Config{})
	a.config = config.Deployment{
		Table: endpoint.Name("table"), Bucket: endpoint.Name("bucket"), BlobPrefix: "blobs/",
		Cadence: cadence, Lease: subagent.DefaultTerms.Lease, MaxRuns: subagent.DefaultCap,
	}
	if err := dynamostore.CreateTable(t.Context(), setup.DynamoDB, a.config.Table); err != nil {
		t.Fatal(err)
	}
	if err := s3blob.CreateBucket(t.Context(), setup.S3, a.config.Bucket); err != nil {
		t.Fatal(err)
	}
	urls, err := sqsqueue.CreateQueues(t.Context(), setup.SQS, endpoint.Name("queue"))
	if err != nil {
		t.Fatal(err)
	}
	a.config.TurnsURL, a.config.RunsURL, a.config.TicksURL = urls[platform.Turns].Queue, urls[platform.Runs].Queue, urls[platform.Ticks].Queue
	a.clients = endpoint.Clients(t, awsclient.Config{Meter: &a.meter, HTTPClient: a})
	return a
}

// Do implements awsclient.HTTPClient: it notes each request of the SDK.
func (a *account) Do(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r.Body = io.NopCloser(strings.NewReader(string(body)))
	a.note(describe(r.Header.Get("X-Amz-Target"), body))
	return http.DefaultClient.Do(r)
}

func (a *account) note(call string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.calls = append(a.calls, call)
}

// describe names a request by its operation and the kind of row, or the queue.
func describe(target string, body []byte) string {
	type text struct{ S string }
	var in struct {
		QueueUrl  string
		Item, Key struct {
			SK text `json:"sk"`
		}
		ExpressionAttributeValues map[string]text
		RequestItems              map[string]struct {
			Keys []struct {
				SK text `json:"sk"`
			}
		}
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return target
	}
	_, operation, _ := strings.Cut(target, ".")
	subject := in.Item.SK.S + in.Key.SK.S + in.ExpressionAttributeValues[":prefix"].S
	for _, request := range in.RequestItems {
		subject = fmt.Sprint(len(request.Keys), " ", request.Keys[0].SK.S)
	}
	if in.QueueUrl != "" {
		subject = strings.TrimSuffix(in.QueueUrl[strings.LastIndex(in.QueueUrl, "-")+1:], ".fifo")
	}
	subject, _, _ = strings.Cut(subject, "#")
	return operation + " " + subject
}

// since returns what was called and billed since the last since.
func (a *account) since() ([]string, awsclient.Bill) {
	a.mu.Lock()
	defer a.mu.Unlock()
	calls, bill := a.calls, a.meter.Bill()
	a.calls = nil
	a.meter.Reset()
	return calls, bill
}

// invoke counts one invocation of a Lambda, with a new process.
func (a *account) invoke(function string) *cloud.Stack {
	a.t.Helper()
	a.meter.Add(awsclient.LambdaRequest, "Invoke "+function, 1)
	a.note("Invoke " + function)
	stack, err := cloud.New(a.t.Context(), cloud.Options{
		Config: a.config, Clients: a.clients, Agents: a.agents, StopBefore: time.Second,
		Now: func() time.Time { return a.now }, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		a.t.Fatal(err)
	}
	return stack
}

// post sends a request through the HTTP API, and returns the answer's body.
func (a *account) post(path, body string) string {
	a.t.Helper()
	a.meter.Add(awsclient.HTTPRequest, "POST", 1)
	a.note("POST api")
	api := ingress.NewHandler(a.invoke("ingress").Service, ingress.HandlerOptions{})
	r := httptest.NewRequestWithContext(a.t.Context(), http.MethodPost, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	api.ServeHTTP(w, r)
	if w.Code != http.StatusAccepted {
		a.t.Fatalf("%s: %d %s", path, w.Code, w.Body)
	}
	return w.Body.String()
}

// drain takes one message of the queue as its event source mapping would, and hands
// it to an invocation.
func (a *account) drain(queue string) {
	a.t.Helper()
	function := "executor"
	if queue == platform.Ticks {
		function = "reconcile"
	}
	queues := a.invoke(function)
	received, err := queues.Queues.Receive(a.t.Context(), queue, 1, time.Minute)
	if err != nil {
		a.t.Fatal(err)
	}
	if queue == platform.Turns {
		// As package sqsbatch does for a FIFO queue.
		if err := queues.Queues.Extend(a.t.Context(), received[0], 90*time.Second); err != nil {
			a.t.Fatal(err)
		}
	}
	if err := handle(a.t.Context(), queues, received[0]); err != nil {
		a.t.Fatalf("message of %s: %v", queue, err)
	}
	if err := queues.Queues.Acknowledge(a.t.Context(), received[0]); err != nil {
		a.t.Fatal(err)
	}
}

func handle(ctx context.Context, s *cloud.Stack, r platform.Received) error {
	w, err := ledger.ParseWake(r.Queue, r.Body)
	switch {
	case err != nil:
		return err
	case r.Queue == platform.Turns:
		return s.Executor.Turn(ctx, w, r.Receives)
	case r.Queue == platform.Runs:
		return s.Executor.Run(ctx, w)
	}
	return s.Reconciler.Tick(ctx, w)
}
