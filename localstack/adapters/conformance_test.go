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
	conformance.Suite{
		Open: func(t *testing.T) conformance.Harness {
			queues, _ := newQueues(t, clients)
			return conformance.Harness{Store: platform.Join(items, queues, blobs), Receiver: queues}
		},
	}.All(t)
}
