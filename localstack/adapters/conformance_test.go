package adapters

import (
	"testing"

	"github.com/errand-dev/errand/localstack/endpoint"
	"github.com/errand-dev/errand/shared/awsclient"
	"github.com/errand-dev/errand/shared/conformance"
	"github.com/errand-dev/errand/shared/platform"
)

func TestTheAdaptersConform(t *testing.T) {
	clients := endpoint.Clients(t, awsclient.Config{})
	items, blobs := newItems(t, clients), newBlobs(t, clients)
	suite := conformance.Suite{
		Open: func(t *testing.T) conformance.Harness {
			queues, _ := newQueues(t, clients)
			return conformance.Harness{Store: platform.Join(items, queues, blobs), Receiver: queues}
		},
	}
	for name, run := range map[string]func(*testing.T){
		"items": suite.Items, "blobs": suite.Blobs, "queues": suite.Queues,
		"fifo": suite.FIFO, "delays": suite.Delays, "atomically": suite.Atomically,
	} {
		// Mostly they wait: together it takes as long as the slowest.
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t)
		})
	}
}
