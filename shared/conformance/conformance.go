// Package conformance is the one suite that every platform passes, and a wrapper
// that makes a platform misbehave. It is for tests: nothing but _test files may
// import it, which a test here checks along with the other import rules.
//
// Each sentence of package platform's documentation is a subtest named by a
// sentence. A platform is judged by what its contract says only, so the suites
// accept more than one behaviour where the contract does.
//
//	func TestStore(t *testing.T) {
//		conformance.Suite{Open: open, FakeTime: true}.All(t)
//	}
package conformance

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/errand-dev/errand/shared/platform"
)

// Harness is one platform under test.
type Harness struct {
	// Store is the platform. A harness for one service may join it with nils and
	// run only the suite of that service. Items and blobs may be shared by all
	// subtests, which use names of their own.
	Store platform.Store
	// Receiver takes from the queues that Store sends to. The queues must be this
	// subtest's own, and empty.
	Receiver platform.Receiver
	// Advance lets time pass. If nil, the suite waits, which takes no time under
	// Suite.FakeTime.
	Advance func(time.Duration)
	// Transactions says that Atomically does all or nothing.
	Transactions bool
}

// Suite runs the suites on one platform.
type Suite struct {
	// Open returns a harness for one subtest and releases it in t.Cleanup.
	Open func(t *testing.T) Harness
	// FakeTime runs each subtest in a bubble of testing/synctest, in which Open is
	// called too. Without it, the queue suites wait some seconds in real time.
	FakeTime bool
	// Deviations maps a subtest's sentence to the reason why an endpoint is known
	// not to satisfy it; the subtest is skipped with that reason.
	Deviations map[string]string
	// Visibility is how long the suites hide a message that shall come back;
	// 1 s if zero.
	Visibility time.Duration
}

// All runs every suite.
func (s Suite) All(t *testing.T) {
	t.Run("items", s.Items)
	t.Run("blobs", s.Blobs)
	t.Run("queues", s.Queues)
	t.Run("fifo", s.FIFO)
	t.Run("delays", s.Delays)
	t.Run("atomically", s.Atomically)
	t.Run("watch", s.Watch)
}

// sentence is one subtest.
type sentence struct {
	name string
	test func(*env)
}

func (s Suite) run(t *testing.T, sentences []sentence) {
	for _, sentence := range sentences {
		t.Run(sentence.name, func(t *testing.T) {
			t.Parallel()
			if reason, ok := s.Deviations[sentence.name]; ok {
				t.Skip("known deviation: " + reason)
			}
			body := func(t *testing.T) {
				e := &env{T: t, Harness: s.Open(t), fake: s.FakeTime, visibility: s.Visibility}
				if e.visibility == 0 {
					e.visibility = time.Second
				}
				sentence.test(e)
			}
			if s.FakeTime {
				synctest.Test(t, body)
				return
			}
			body(t)
		})
	}
}

// env is what one subtest works with.
type env struct {
	*testing.T
	Harness
	fake       bool
	visibility time.Duration
}

// advance lets d pass.
func (e *env) advance(d time.Duration) {
	if e.Harness.Advance != nil {
		e.Harness.Advance(d)
		return
	}
	<-time.After(d)
}

// partition is a partition of this subtest's own.
func (e *env) partition() string {
	return fmt.Sprintf("conformance#%s#%d", e.Name(), time.Now().UnixNano())
}

func (e *env) must(err error) {
	e.Helper()
	if err != nil {
		e.Fatal(err)
	}
}

// mustConflict returns the stored item that err carries.
func (e *env) mustConflict(err error) platform.Item {
	e.Helper()
	conflict, ok := errors.AsType[*platform.ConflictError](err)
	if !ok {
		e.Fatalf("got error %v, want a conflict", err)
	}
	return conflict.Stored
}

// settling is long enough for a message that should come, and quiet for one that
// should not, when time is real.
const (
	settling = 20 * time.Second
	quiet    = 300 * time.Millisecond
)

// within is a context that ends after d.
func (e *env) within(d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(e.Context(), d)
}
