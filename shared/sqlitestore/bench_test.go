package sqlitestore_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/errand-dev/errand/shared/platform"
	"github.com/errand-dev/errand/shared/sqlitestore"
)

func open(t testing.TB, dir string) *sqlitestore.Store {
	t.Helper()
	s, err := sqlitestore.Open(t.Context(), dir, sqlitestore.Options{})
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

// row is about as large as a control row.
var row = fmt.Appendf(nil, `{"status":"running","pad":"%0600d"}`, 0)

func BenchmarkPut(b *testing.B) {
	s := open(b, b.TempDir())
	for i := 0; b.Loop(); i++ {
		put(b, s, platform.Item{Key: platform.Key{Partition: "p", Sort: fmt.Sprintf("run#%09d", i)}, Version: 1, Body: row})
	}
}

func BenchmarkUpdate(b *testing.B) {
	s := open(b, b.TempDir())
	for i := 0; b.Loop(); i++ {
		put(b, s, platform.Item{Key: platform.Key{Partition: "p", Sort: "run"}, Version: int64(i + 1), Body: row})
	}
}

func BenchmarkPutParallel(b *testing.B) {
	s := open(b, b.TempDir())
	var n atomic.Int64
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			put(b, s, platform.Item{Key: platform.Key{Partition: "p", Sort: fmt.Sprintf("run#%09d", n.Add(1))}, Version: 1, Body: row})
		}
	})
}

func BenchmarkGet(b *testing.B) {
	s := open(b, b.TempDir())
	key := platform.Key{Partition: "p", Sort: "run"}
	put(b, s, platform.Item{Key: key, Version: 1, Body: row})
	for b.Loop() {
		if _, err := s.Get(b.Context(), key); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAtomically(b *testing.B) {
	s := open(b, b.TempDir())
	for i := 0; b.Loop(); i++ {
		dispatch(b, s, int64(i+1))
	}
}

func BenchmarkAtomicallyParallel(b *testing.B) {
	s := open(b, b.TempDir())
	var n atomic.Int64
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			dispatch(b, s, n.Add(1))
		}
	})
}

// BenchmarkSendReceiveAcknowledge measures one message through a queue, with the
// two fsyncs it needs, and reports the time from Send to its receipt.
func BenchmarkSendReceiveAcknowledge(b *testing.B) {
	s := open(b, b.TempDir())
	ctx, cancel := context.WithCancel(b.Context())
	received := make(chan platform.Received)
	go func() {
		defer close(received)
		for ctx.Err() == nil {
			batch, err := s.Receive(ctx, platform.Runs, 1, time.Minute)
			if err != nil {
				return
			}
			received <- batch[0]
		}
	}()
	var waited time.Duration
	for b.Loop() {
		start := time.Now()
		if err := s.Send(ctx, platform.Message{Queue: platform.Runs, Group: "tenant", Body: []byte(`{"run":"r"}`)}); err != nil {
			b.Fatal(err)
		}
		r := <-received
		waited += time.Since(start)
		if err := s.Acknowledge(ctx, r); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(waited.Nanoseconds())/float64(b.N), "ns-to-receipt")
	cancel()
	<-received
}

// dispatch does the six writes that start a run.
func dispatch(b *testing.B, s *sqlitestore.Store, n int64) {
	id := fmt.Sprintf("%09d", n)
	err := s.Atomically(b.Context(), func(s platform.Store) error {
		for _, sort := range []string{"backbone#", "run#", "input#", "step#"} {
			put(b, s, platform.Item{Key: platform.Key{Partition: "p", Sort: sort + id}, Version: 1, Body: row})
		}
		for _, queue := range []string{platform.Runs, platform.Ticks} {
			if err := s.Send(b.Context(), platform.Message{Queue: queue, Body: []byte(`{"run":"r"}`)}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
}

func put(t testing.TB, s platform.Store, item platform.Item) {
	t.Helper()
	if err := s.Put(t.Context(), item); err != nil {
		t.Fatal(err)
	}
}
