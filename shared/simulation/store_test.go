package simulation

import (
	"testing"
	"time"

	"github.com/errand-dev/errand/shared/conformance"
)

func TestStoreConforms(t *testing.T) {
	conformance.Suite{
		FakeTime: true,
		Open: func(*testing.T) conformance.Harness {
			s := NewStore(time.Now, nil)
			return conformance.Harness{Store: s, Receiver: s, Transactions: true}
		},
	}.All(t)
}
