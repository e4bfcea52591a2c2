package ledger_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/errand-dev/errand/shared/ledger"
	"github.com/errand-dev/errand/shared/platform"
	"github.com/errand-dev/errand/shared/sqlitestore"
	"github.com/errand-dev/errand/shared/subagent"
)

// counting notes each call of a store.
type counting struct {
	platform.Store
	calls *[]string
}

func (c counting) Get(ctx context.Context, k platform.Key) (platform.Item, error) {
	*c.calls = append(*c.calls, "get")
	return c.Store.Get(ctx, k)
}

func (c counting) List(ctx context.Context, q platform.Query) ([]platform.Item, error) {
	*c.calls = append(*c.calls, "list")
	return c.Store.List(ctx, q)
}

func (c counting) Put(ctx context.Context, item platform.Item) error {
	err := c.Store.Put(ctx, item)
	if err != nil {
		*c.calls = append(*c.calls, "refused put")
		return err
	}
	*c.calls = append(*c.calls, "put")
	return nil
}

func (c counting) Atomically(ctx context.Context, fn func(platform.Store) error) error {
	return c.Store.Atomically(ctx, func(s platform.Store) error { return fn(counting{s, c.calls}) })
}

// world is one store and several processes' ledgers over it.
type world struct {
	t     *testing.T
	store platform.Store
	now   time.Time
	calls []string
}

var owner = subagent.Owner{Tenant: "t", Conversation: "c"}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, now: time.UnixMilli(1_000_000)}
	clock := func() time.Time { return w.now }
	store, err := sqlitestore.Open(t.Context(), t.TempDir(), sqlitestore.Options{Now: clock})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	w.store = counting{store, &w.calls}
	return w
}

func (w *world) process(terms subagent.Terms) *ledger.Ledger {
	return ledger.New(w.store, terms, func() time.Time { return w.now }, rand.Text)
}

func (w *world) emit(l *ledger.Ledger, typ string) {
	w.t.Helper()
	if err := l.Emit(w.t.Context(), owner, l.NewEvent(typ, "", "", nil)); err != nil {
		w.t.Fatal(err)
	}
}

// called checks what was called since the last time.
func (w *world) called(what string, want ...string) {
	w.t.Helper()
	if diff := cmp.Diff(want, w.calls); diff != "" {
		w.t.Errorf("%s (-want +called):\n%s", what, diff)
	}
	w.calls = nil
}

func (w *world) reserve(l *ledger.Ledger, hint subagent.Backbone, run string) subagent.Backbone {
	w.t.Helper()
	b, outcome, err := l.UpdateBackbone(w.t.Context(), owner, hint, func(b subagent.Backbone) (subagent.Backbone, subagent.Outcome) {
		return b.Reserve(run, 64, subagent.Arming{Sent: b.Epoch + 1}, 0, w.now)
	})
	if err != nil || outcome != subagent.Apply {
		w.t.Fatal(outcome, err)
	}
	return b
}

func TestTheBackboneAndTheEndOfTheLogComeInOneRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, c := range []struct{ events, backbone int }{{0, 0}, {1, 0}, {2, 0}, {2, 1}, {3, 2}} {
		writer := w.process(subagent.DefaultTerms)
		for range c.events {
			w.emit(writer, "x")
		}
		if c.backbone > 0 {
			w.reserve(writer, subagent.Backbone{}, fmt.Sprint("run-", c.backbone))
		}
		w.calls = nil
		l := w.process(subagent.DefaultTerms)
		b, err := l.BackboneAndTail(t.Context(), owner)
		if err != nil || len(b.Open) != c.backbone {
			t.Errorf("%+v: %d reservations (%v)", c, len(b.Open), err)
		}
		w.called("reading", "list")
		w.emit(l, "y")
		w.called("appending", "put")
		// Now that it is known, the backbone alone is read.
		if _, err := l.BackboneAndTail(t.Context(), owner); err != nil {
			t.Error(err)
		}
		w.called("reading again", "get")
	}
}

func TestABackboneThatIsNotThereIsReadOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	l := w.process(subagent.DefaultTerms)
	b, err := l.BackboneAndTail(t.Context(), owner)
	if err != nil {
		t.Fatal(err)
	}
	b = w.reserve(l, b, "run-1")
	w.called("the first reservation", "list", "put")
	if b.Version != 1 || b.Open["run-1"].Generation != 1 {
		t.Errorf("the backbone is %+v", b)
	}
	// A hint that says "absent" and is wrong costs a write, and loses nothing.
	b = w.reserve(w.process(subagent.DefaultTerms), subagent.Backbone{Open: map[string]subagent.Reservation{}}, "run-2")
	w.called("a reservation with a wrong hint", "refused put", "put")
	if len(b.Open) != 2 {
		t.Errorf("the backbone is %+v", b)
	}
	// No hint is no wrong hint.
	w.reserve(l, subagent.Backbone{}, "run-3")
	w.called("a reservation without a hint", "get", "put")
}

func TestWhereTheLogEndsIsBelievedForSecondsUnlessNobodyElseWrites(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one, other := w.process(subagent.DefaultTerms), w.process(subagent.DefaultTerms)
	w.emit(one, "a")
	w.called("the first batch", "list", "put")
	w.emit(other, "b")
	w.called("another process's", "list", "put")
	w.now = w.now.Add(5 * time.Second)
	w.emit(one, "c")
	w.called("with a belief that is wrong", "refused put", "list", "put")
	w.now = w.now.Add(6 * time.Second)
	w.emit(one, "d")
	w.called("without a belief", "list", "put")

	alone := subagent.DefaultTerms
	alone.Process = "p"
	only := w.process(alone)
	w.emit(only, "e")
	w.now = w.now.Add(24 * time.Hour)
	w.calls = nil
	w.emit(only, "f")
	w.called("alone", "put")

	events, err := only.Events(t.Context(), owner, 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	var types []string
	for _, e := range events {
		types = append(types, e.Type)
	}
	if diff := cmp.Diff([]string{"a", "b", "c", "d", "e", "f"}, types); diff != "" || !slices.IsSortedFunc(events, func(a, b ledger.Event) int { return int(a.Seq - b.Seq) }) {
		t.Errorf("the log is %+v\n%s", events, diff)
	}
}

func TestAJobTellsWhereTheLogEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	sender := w.process(subagent.DefaultTerms)
	w.emit(sender, "a")
	if err := sender.SendJob(t.Context(), subagent.Run{Owner: owner, ID: "r"}, subagent.Backbone{}, 0); err != nil {
		t.Fatal(err)
	}
	received, err := w.store.(counting).Store.(platform.Receiver).Receive(t.Context(), platform.Runs, 1, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	wake, err := ledger.ParseWake(platform.Runs, received[0].Body)
	if err != nil {
		t.Fatal(err)
	}
	w.calls = nil
	fresh := w.process(subagent.DefaultTerms)
	fresh.LearnTail(wake)
	w.emit(fresh, "b")
	w.called("the executor's batch", "put")

	// What is told late is not believed, nor put above what is known.
	w.now = w.now.Add(10 * time.Second)
	late := w.process(subagent.DefaultTerms)
	late.LearnTail(wake)
	w.emit(late, "c")
	w.called("of an old job", "list", "put")
	late.LearnTail(wake)
	w.emit(late, "d")
	w.called("of a job that comes again", "put")
}

// rival is a store in which somebody else takes the place of every single write first.
type rival struct{ platform.Store }

func (r rival) Put(ctx context.Context, item platform.Item) error {
	taken := item
	taken.Body = []byte(`{"events":[{"seq":1}]}`)
	if err := r.Store.Put(ctx, taken); err != nil {
		return err
	}
	return r.Store.Put(ctx, item)
}

func TestEventsFindTheirPlaceInTheLogHoweverManyAppend(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.store = rival{w.store}
	w.emit(w.process(subagent.DefaultTerms), "x")
}

// hasty is a store in which somebody else changes each row right before every single write.
type hasty struct{ platform.Store }

func (h hasty) Put(ctx context.Context, item platform.Item) error {
	other, err := h.Store.Get(ctx, item.Key)
	if err != nil {
		return err
	}
	other.Version++
	if other.Body == nil {
		other.Body = []byte(`{}`)
	}
	if err := h.Store.Put(ctx, other); err != nil {
		return err
	}
	return h.Store.Put(ctx, item)
}

func TestARowThatManyChangeIsWrittenAllTheSame(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.store = hasty{w.store}
	w.reserve(w.process(subagent.DefaultTerms), subagent.Backbone{}, "r")
}
