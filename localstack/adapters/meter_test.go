package adapters

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/errand-dev/errand/localstack/endpoint"
	"github.com/errand-dev/errand/shared/awsclient"
	"github.com/errand-dev/errand/shared/platform"
)

func TestTheMeterCountsWhatAWSBills(t *testing.T) {
	t.Parallel()
	meter := &awsclient.Meter{}
	clients := endpoint.Clients(t, awsclient.Config{Meter: meter})
	items, blobs := newItems(t, clients), newBlobs(t, clients)
	timer, receiver := newTimer(t, clients, time.Now)
	ctx := t.Context()
	small := platform.Item{Key: platform.Key{Partition: "p", Sort: "small"}, Version: 1, Body: []byte(`{}`)}
	large := platform.Item{Key: platform.Key{Partition: "p", Sort: "large"}, Version: 1, Body: []byte(`{"text":"` + strings.Repeat("x", 9000) + `"}`)}
	send := func(m platform.Message) func() error { return func() error { return timer.Send(ctx, m) } }
	body := []byte(`{}`)

	if bill := meter.Bill(); bill.Units() != 0 {
		t.Errorf("making tables and queues was billed:\n%s", bill)
	}
	for _, c := range []struct {
		what string
		call func() error
		want awsclient.Bill
	}{
		{"a small put", func() error { return items.Put(ctx, small) }, bill(awsclient.WriteUnit, "PutItem", 1)},
		{"a put of 9 KB", func() error { return items.Put(ctx, large) }, bill(awsclient.WriteUnit, "PutItem", 9)},
		{"a refused put of 9 KB", func() error { return ignore(items.Put(ctx, large)) }, bill(awsclient.WriteUnit, "PutItem", 9)},
		{"a small get", func() error { return get(ctx, items, small.Key) }, bill(awsclient.ReadUnit, "GetItem", 1)},
		{"a get of 9 KB", func() error { return get(ctx, items, large.Key) }, bill(awsclient.ReadUnit, "GetItem", 3)},
		{"an absent get", func() error { return get(ctx, items, platform.Key{Partition: "p", Sort: "absent"}) }, bill(awsclient.ReadUnit, "GetItem", 1)},
		{"two gets at once", func() error {
			_, err := items.GetMany(ctx, []platform.Key{small.Key, large.Key})
			return err
		}, bill(awsclient.ReadUnit, "BatchGetItem", 4)},
		{"a list of both", func() error {
			_, err := items.List(ctx, platform.Query{Partition: "p"})
			return err
		}, bill(awsclient.ReadUnit, "Query", 3)},
		{"a delete", func() error { return items.Delete(ctx, small.Key, 1) }, bill(awsclient.WriteUnit, "DeleteItem", 1)},
		{"a turn", send(platform.Message{Queue: platform.Turns, Group: "g", Dedup: "d", Body: body}), bill(awsclient.FIFORequest, "SendMessage", 1)},
		{"a run", send(platform.Message{Queue: platform.Runs, Group: "tenant", Body: body}), bill(awsclient.FairRequest, "SendMessage", 1)},
		{"a tick", send(platform.Message{Queue: platform.Ticks, Body: body}), bill(awsclient.StandardRequest, "SendMessage", 1)},
		{"a late tick", send(platform.Message{Queue: platform.Ticks, Body: body, Delay: time.Hour}), bill(awsclient.Schedule, "CreateSchedule", 1)},
		{"a receive and its acknowledgement", func() error {
			got, err := receiver.Receive(ctx, platform.Ticks, 10, time.Minute)
			if err != nil {
				return err
			}
			return receiver.Acknowledge(ctx, got[0])
		}, append(bill(awsclient.StandardRequest, "DeleteMessage", 1), bill(awsclient.StandardRequest, "ReceiveMessage", 1)...)},
		{"a blob", func() error { return blobs.PutBlob(ctx, "b", body) }, bill(awsclient.S3Write, "PutObject", 1)},
	} {
		meter.Reset()
		if err := c.call(); err != nil {
			t.Fatalf("%s: %v", c.what, err)
		}
		if diff := cmp.Diff(c.want, meter.Bill()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.what, diff)
		}
	}
}

func TestTheMeterCountsEachAttempt(t *testing.T) {
	t.Parallel()
	meter, client := &awsclient.Meter{}, &forgetful{}
	items := newItems(t, endpoint.Clients(t, awsclient.Config{Meter: meter, HTTPClient: client}))
	client.arm()
	_ = items.Put(t.Context(), platform.Item{Key: platform.Key{Partition: "p", Sort: "s"}, Version: 1, Body: []byte(`{}`)})
	want := awsclient.Bill{{Kind: awsclient.WriteUnit, Operation: "PutItem", Calls: 2, Units: 2}}
	if diff := cmp.Diff(want, meter.Bill()); diff != "" {
		t.Errorf("a put whose answer was lost (-want +got):\n%s", diff)
	}
}

// bill is a bill of one call.
func bill(kind awsclient.Kind, operation string, units int) awsclient.Bill {
	return awsclient.Bill{{Kind: kind, Operation: operation, Calls: 1, Units: units}}
}

func get(ctx context.Context, items platform.Items, key platform.Key) error {
	_, err := items.Get(ctx, key)
	return err
}

// ignore drops the error of a call whose refusal is the point.
func ignore(error) error { return nil }
