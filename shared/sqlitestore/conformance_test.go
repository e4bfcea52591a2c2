package sqlitestore_test

import (
	"testing"

	"github.com/errand-dev/errand/shared/conformance"
)

func TestStoreConforms(t *testing.T) {
	conformance.Suite{
		FakeTime: true,
		Open: func(t *testing.T) conformance.Harness {
			s := open(t, t.TempDir())
			return conformance.Harness{Store: s, Receiver: s, Transactions: true}
		},
	}.All(t)
}
