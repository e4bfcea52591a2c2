package sqlitestore_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/errand-dev/errand/shared/platform"
	"github.com/errand-dev/errand/shared/sqlitestore"
)

var key = platform.Key{Partition: "p", Sort: "a"}

func TestOneProcessHasTheFolder(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "new", "data?x=1 %41")
	first := open(t, dir)
	_, err := sqlitestore.Open(t.Context(), dir, sqlitestore.Options{})
	locked, ok := errors.AsType[*sqlitestore.LockedError](err)
	if !ok || locked.PID != os.Getpid() || locked.Dir != dir {
		t.Fatalf("got error %v, want a LockedError that names this process", err)
	}
	if want := fmt.Sprintf("data folder %s is in use by process %d; stop it or choose another with --data", dir, os.Getpid()); err.Error() != want {
		t.Errorf("got message %q, want %q", err, want)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	open(t, dir)
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("folder has mode %v, error %v, want 0700", info.Mode(), err)
	}
	if _, err := os.Stat(filepath.Join(dir, "errand.db")); err != nil {
		t.Error(err)
	}
}

func TestAClosedStoreRefusesCalls(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	waiting := make(chan error)
	go func() {
		_, err := s.Receive(context.Background(), platform.Turns, 1, time.Minute)
		waiting <- err
	}()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	_, getErr := s.Get(t.Context(), key)
	for _, err := range []error{
		<-waiting, getErr,
		s.Put(t.Context(), platform.Item{Key: key, Version: 1, Body: row}),
		s.Send(t.Context(), platform.Message{Queue: platform.Runs}),
		s.Extend(t.Context(), platform.Received{Message: platform.Message{Queue: platform.Runs}}, 0),
	} {
		if !errors.Is(err, sqlitestore.ErrClosed) {
			t.Errorf("got error %v, want %v", err, sqlitestore.ErrClosed)
		}
	}
}

func TestCloseWaitsForWritesUnderWay(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir)
	var writers sync.WaitGroup
	var acknowledged [8]int64
	started := make(chan struct{}, len(acknowledged))
	for w := range acknowledged {
		writers.Go(func() {
			for i := int64(1); ; i++ {
				err := s.Put(context.Background(), platform.Item{Key: platform.Key{Partition: "p", Sort: fmt.Sprint(w)}, Version: i, Body: row})
				if err != nil {
					if !errors.Is(err, sqlitestore.ErrClosed) {
						t.Errorf("got error %v", err)
					}
					return
				}
				acknowledged[w] = i
				if i == 10 {
					started <- struct{}{}
				}
			}
		})
	}
	for range acknowledged {
		<-started
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	writers.Wait()
	s = open(t, dir)
	for w, want := range acknowledged {
		if item, err := s.Get(t.Context(), platform.Key{Partition: "p", Sort: fmt.Sprint(w)}); err != nil || item.Version != want {
			t.Errorf("writer %d: version %d, error %v, want %d", w, item.Version, err, want)
		}
	}
}

func TestAFileOfANewerProgramIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir)
	if err := s.Script("PRAGMA user_version = 99"); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the refusal gives the lock free
		_, err := sqlitestore.Open(t.Context(), dir, sqlitestore.Options{})
		if schema, ok := errors.AsType[*sqlitestore.SchemaError](err); !ok || schema.Found != 99 {
			t.Fatalf("got error %v, want a SchemaError", err)
		}
	}
}

func TestAFullDiskFailsAWriteAsAWhole(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	put(t, s, platform.Item{Key: key, Version: 1, Body: row})
	if err := s.Script("PRAGMA max_page_count = 1"); err != nil { // means: no more than now
		t.Fatal(err)
	}
	large := fmt.Appendf(nil, `{"pad":%q}`, strings.Repeat("x", 200<<10))
	other := platform.Key{Partition: "p", Sort: "b"}
	err := s.Atomically(t.Context(), func(s platform.Store) error {
		put(t, s, platform.Item{Key: key, Version: 2, Body: []byte(`{"half":"done"}`)})
		_ = s.Put(t.Context(), platform.Item{Key: other, Version: 1, Body: large})
		return nil // an error that fn swallows still fails the whole
	})
	if err == nil || !strings.Contains(err.Error(), "full") {
		t.Errorf("got error %v, want that the disk is full", err)
	}
	if err := s.Put(t.Context(), platform.Item{Key: other, Version: 1, Body: large}); err == nil {
		t.Error("a put succeeded on the full disk")
	}
	wantVersion(t, s, key, 1)
	wantVersion(t, s, other, 0)
	if err := s.Script("PRAGMA max_page_count = 100000"); err != nil {
		t.Fatal(err)
	}
	put(t, s, platform.Item{Key: other, Version: 1, Body: large})
	put(t, s, platform.Item{Key: key, Version: 2, Body: row})
	wantVersion(t, s, other, 1)
}

func TestAnErrorOfSQLiteUndoesTheWholeCall(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	if err := s.Script("ALTER TABLE blobs RENAME TO hidden"); err != nil {
		t.Fatal(err)
	}
	err := s.Atomically(t.Context(), func(s platform.Store) error {
		put(t, s, platform.Item{Key: key, Version: 1, Body: row})
		return s.PutBlob(t.Context(), "name", row)
	})
	if err == nil {
		t.Error("a write to a missing table succeeded")
	}
	wantVersion(t, s, key, 0)
	put(t, s, platform.Item{Key: key, Version: 1, Body: row})
}

func TestAnErrorOfTheDiskReachesEveryoneInTheGroup(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	put(t, s, platform.Item{Key: key, Version: 1, Body: row})
	if err := s.Script("PRAGMA max_page_count = 1"); err != nil {
		t.Fatal(err)
	}
	large := fmt.Appendf(nil, `{"pad":%q}`, strings.Repeat("x", 200<<10))
	var group sync.WaitGroup
	var acknowledged atomic.Int64
	for i := range 32 {
		group.Go(func() {
			item := platform.Item{Key: platform.Key{Partition: "group", Sort: fmt.Sprint(i)}, Version: 1, Body: []byte(`{}`)}
			if i%8 == 0 {
				item.Body = large
			}
			if s.Put(context.Background(), item) == nil {
				acknowledged.Add(1)
			}
		})
	}
	group.Wait()
	items, err := s.List(t.Context(), platform.Query{Partition: "group"})
	if err != nil || int64(len(items)) != acknowledged.Load() {
		t.Errorf("%d puts were acknowledged, %d items are there, error %v", acknowledged.Load(), len(items), err)
	}
}

func TestAPanicInAtomicallyUndoesItAndLeavesTheStoreWorking(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		_ = s.Atomically(t.Context(), func(s platform.Store) error {
			put(t, s, platform.Item{Key: key, Version: 1, Body: row})
			panic("bug")
		})
	}()
	wantVersion(t, s, key, 0)
	put(t, s, platform.Item{Key: key, Version: 1, Body: row})
}

func TestAViewDiesWithItsCall(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	var kept platform.Store
	if err := s.Atomically(t.Context(), func(s platform.Store) error { kept = s; return nil }); err != nil {
		t.Fatal(err)
	}
	if err := kept.Put(t.Context(), platform.Item{Key: key, Version: 1, Body: row}); err == nil {
		t.Error("a put on a view that is over succeeded")
	}
	wantVersion(t, s, key, 0)
}

func TestSweepDeletesWhatHasExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, t.TempDir())
		now := time.Now()
		for i := range 120 {
			item := platform.Item{Key: platform.Key{Partition: "p", Sort: fmt.Sprintf("%03d", i)}, Version: 1, Body: row}
			switch i % 3 {
			case 0:
				item.Expires = now.Add(-time.Second)
			case 1:
				item.Expires = now.Add(time.Second)
			}
			put(t, s, item)
		}
		for _, want := range []int{30, 10, 0} {
			if deleted, err := s.Sweep(t.Context(), now, 30); err != nil || deleted != want {
				t.Errorf("deleted %d, error %v, want %d", deleted, err, want)
			}
		}
		items, err := s.List(t.Context(), platform.Query{Partition: "p"})
		if err != nil || len(items) != 80 {
			t.Errorf("%d items are left, error %v, want 80", len(items), err)
		}
	})
}

func wantVersion(t *testing.T, s platform.Store, key platform.Key, want int64) {
	t.Helper()
	if item, err := s.Get(t.Context(), key); err != nil || item.Version != want {
		t.Errorf("item %v has version %d, error %v, want %d", key, item.Version, err, want)
	}
}
