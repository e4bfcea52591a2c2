package conformance_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/errand-dev/errand/shared/conformance"
	"github.com/errand-dev/errand/shared/platform"
	"github.com/errand-dev/errand/shared/sqlitestore"
)

func open(t *testing.T) *sqlitestore.Store {
	t.Helper()
	s, err := sqlitestore.Open(t.Context(), t.TempDir(), sqlitestore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("closing: %v", err)
		}
	})
	return s
}

// faulty makes every operation of one kind misbehave.
func faulty(s *sqlitestore.Store, kind conformance.Kind, fault conformance.Fault) *conformance.Faults {
	return &conformance.Faults{Inner: s, Receiver: s, Lateness: time.Minute, Decide: func(op conformance.Op) conformance.Fault {
		if op.Kind == kind {
			return fault
		}
		return conformance.None
	}}
}

func TestWithoutFaultsTheWrapperConforms(t *testing.T) {
	for name, split := range map[string]bool{"through the inner transaction": false, "split": true} {
		t.Run(name, func(t *testing.T) {
			conformance.Suite{FakeTime: true, Open: func(t *testing.T) conformance.Harness {
				f := faulty(open(t), "", conformance.None)
				f.SplitAtomically = split
				return conformance.Harness{Store: f, Receiver: f, Transactions: !split}
			}}.Atomically(t)
		})
	}
}

func TestFaultsOfAPut(t *testing.T) {
	item := platform.Item{Key: platform.Key{Partition: "p", Sort: "a"}, Version: 1, Body: []byte(`{}`)}
	for _, c := range []struct {
		name    string
		fault   conformance.Fault
		stored  int64
		wantErr func(error) bool
	}{
		{"not applied", conformance.NotApplied, 0, isFault(false)},
		{"applied", conformance.Applied, 1, isFault(true)},
		{"duplicate meets its own success", conformance.Duplicate, 1, func(err error) bool {
			conflict, ok := errors.AsType[*platform.ConflictError](err)
			return ok && conflict.Stored.Version == 1
		}},
		{"late means nothing", conformance.Late, 1, func(err error) bool { return err == nil }},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := open(t)
			if err := faulty(s, conformance.Put, c.fault).Put(t.Context(), item); !c.wantErr(err) {
				t.Errorf("got error %v", err)
			}
			if got, err := s.Get(t.Context(), item.Key); err != nil || got.Version != c.stored {
				t.Errorf("stored version %d, error %v, want %d", got.Version, err, c.stored)
			}
		})
	}
}

func TestAFaultOfAtomicallyConcernsTheWhole(t *testing.T) {
	for fault, stored := range map[conformance.Fault]int64{conformance.NotApplied: 0, conformance.Applied: 1} {
		s := open(t)
		item := platform.Item{Key: platform.Key{Partition: "p", Sort: "a"}, Version: 1, Body: []byte(`{}`)}
		err := faulty(s, conformance.Atomically, fault).Atomically(t.Context(), func(s platform.Store) error { return s.Put(t.Context(), item) })
		if !isFault(fault == conformance.Applied)(err) {
			t.Errorf("got error %v", err)
		}
		if got, err := s.Get(t.Context(), item.Key); err != nil || got.Version != stored {
			t.Errorf("stored version %d, error %v, want %d", got.Version, err, stored)
		}
	}
}

func TestASplitCallFailsHalfway(t *testing.T) {
	s := open(t)
	f := faulty(s, conformance.Send, conformance.NotApplied)
	f.SplitAtomically = true
	item := platform.Item{Key: platform.Key{Partition: "p", Sort: "a"}, Version: 1, Body: []byte(`{}`)}
	err := f.Atomically(t.Context(), func(s platform.Store) error {
		if err := s.Put(t.Context(), item); err != nil {
			return err
		}
		return s.Send(t.Context(), platform.Message{Queue: platform.Ticks})
	})
	if !isFault(false)(err) {
		t.Errorf("got error %v", err)
	}
	if got, err := s.Get(t.Context(), item.Key); err != nil || got.Version != 1 {
		t.Errorf("stored version %d, error %v, want the first step", got.Version, err)
	}
}

func TestFaultsOfMessages(t *testing.T) {
	receive := func(t *testing.T, r platform.Receiver) platform.Received {
		t.Helper()
		batch, err := r.Receive(t.Context(), platform.Ticks, 1, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		return batch[0]
	}
	send := func(t *testing.T, s platform.Store) error {
		return s.Send(t.Context(), platform.Message{Queue: platform.Ticks, Body: []byte("tick")})
	}
	for name, test := range map[string]func(t *testing.T, s *sqlitestore.Store){
		"a duplicate send makes two messages": func(t *testing.T, s *sqlitestore.Store) {
			if err := send(t, faulty(s, conformance.Send, conformance.Duplicate)); err != nil {
				t.Fatal(err)
			}
			if first, second := receive(t, s), receive(t, s); first.ID == second.ID {
				t.Error("got the same message twice")
			}
		},
		"a late message comes late": func(t *testing.T, s *sqlitestore.Store) {
			start := time.Now()
			if err := send(t, faulty(s, conformance.Send, conformance.Late)); err != nil {
				t.Fatal(err)
			}
			receive(t, s)
			if took := time.Since(start); took != time.Minute {
				t.Errorf("came after %v, want %v", took, time.Minute)
			}
		},
		"a receive whose answer is lost hides the message": func(t *testing.T, s *sqlitestore.Store) {
			if err := send(t, s); err != nil {
				t.Fatal(err)
			}
			if _, err := faulty(s, conformance.Receive, conformance.Applied).Receive(t.Context(), platform.Ticks, 1, time.Hour); !isFault(true)(err) {
				t.Errorf("got error %v", err)
			}
			start := time.Now()
			if r := receive(t, s); r.Receives != 2 || time.Since(start) != time.Hour {
				t.Errorf("receive %d after %v, want the second after an hour", r.Receives, time.Since(start))
			}
		},
		"a duplicate receive gives the message to another too": func(t *testing.T, s *sqlitestore.Store) {
			if err := send(t, s); err != nil {
				t.Fatal(err)
			}
			first := receive(t, faulty(s, conformance.Receive, conformance.Duplicate))
			if second := receive(t, s); second.ID != first.ID {
				t.Error("got another message")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, open(t)) })
		})
	}
}

func TestOperationsAreNumberedByKindAndName(t *testing.T) {
	var seen []conformance.Op
	s := open(t)
	f := &conformance.Faults{Inner: s, Decide: func(op conformance.Op) conformance.Fault {
		seen = append(seen, op)
		return conformance.NotApplied
	}}
	a, b := platform.Key{Partition: "p", Sort: "a"}, platform.Key{Partition: "p", Sort: "b"}
	for _, key := range []platform.Key{a, b, a} {
		if _, err := f.Get(t.Context(), key); !isFault(false)(err) {
			t.Errorf("got error %v", err)
		}
	}
	want := []conformance.Op{{Kind: conformance.Get, Key: a, N: 1}, {Kind: conformance.Get, Key: b, N: 1}, {Kind: conformance.Get, Key: a, N: 2}}
	for i := range want {
		if seen[i] != want[i] {
			t.Errorf("operation %d is %v, want %v", i, seen[i], want[i])
		}
	}
}

func isFault(applied bool) func(error) bool {
	return func(err error) bool {
		fault, ok := errors.AsType[*conformance.FaultError](err)
		return ok && fault.Applied == applied
	}
}
