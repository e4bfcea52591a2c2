package executor_test

import (
	"errors"
	"testing"
	"time"

	"github.com/errand-dev/errand/shared/executor"
	"github.com/errand-dev/errand/shared/ledger"
	"github.com/errand-dev/errand/shared/platform"
)

func TestAcceptedWorkOutlastsAnOutageOfSomeMinutes(t *testing.T) {
	t.Parallel()
	var all time.Duration
	for receives := 1; receives < platform.MaxReceives; receives++ {
		all += executor.RetryAfter(errors.New("the store is down"), receives)
	}
	if all < 6*time.Minute || all > 7*time.Minute {
		t.Errorf("all pauses before the last receive are %v", all)
	}
	if d := executor.RetryAfter(ledger.ErrPoison, 4); d != time.Second {
		t.Errorf("poison rests for %v", d)
	}
	if d := executor.RetryAfter(&executor.RetryError{After: 7 * time.Second}, 4); d != 7*time.Second {
		t.Errorf("asked for 7 s, rests for %v", d)
	}
}
