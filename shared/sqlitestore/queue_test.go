package sqlitestore_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/errand-dev/errand/shared/platform"
	"github.com/errand-dev/errand/shared/sqlitestore"
)

func TestQueuesOfAReopenedStore(t *testing.T) {
	// reopen is what a new process does after the old one has died.
	reopen := func(t *testing.T, s *sqlitestore.Store, dir string) *sqlitestore.Store {
		t.Helper()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		return open(t, dir)
	}
	for name, test := range map[string]func(t *testing.T, dir string){
		"have at once what was in flight, and its count": func(t *testing.T, dir string) {
			s := open(t, dir)
			send(t, s, platform.Message{Queue: platform.Turns, Group: "g", Dedup: "1", Body: []byte("first")})
			send(t, s, platform.Message{Queue: platform.Turns, Group: "g", Dedup: "2", Body: []byte("second")})
			before := receive(t, s, platform.Turns, time.Hour)
			s = reopen(t, s, dir)
			start := time.Now()
			after := receive(t, s, platform.Turns, time.Hour)
			if string(after.Body) != "first" || after.ID != before.ID || after.Receives != 2 || !after.SentAt.Equal(before.SentAt) || after.Group != "g" || after.Dedup != "1" {
				t.Errorf("got %+v after %+v", after, before)
			}
			if waited := time.Since(start); waited != 0 {
				t.Errorf("it took %v", waited)
			}
			wantQuiet(t, s, platform.Turns)
		},
		"keep the time of a delayed message": func(t *testing.T, dir string) {
			s := open(t, dir)
			start := time.Now()
			send(t, s, platform.Message{Queue: platform.Ticks, Delay: 10 * time.Second})
			time.Sleep(4 * time.Second)
			s = reopen(t, s, dir)
			receive(t, s, platform.Ticks, time.Hour)
			if took := time.Since(start); took != 10*time.Second {
				t.Errorf("it came after %v, want 10s", took)
			}
		},
		"go on to suppress duplicates": func(t *testing.T, dir string) {
			s := open(t, dir)
			turn := platform.Message{Queue: platform.Turns, Group: "g", Dedup: "1"}
			send(t, s, turn)
			acknowledge(t, s, receive(t, s, platform.Turns, time.Hour))
			s = reopen(t, s, dir)
			send(t, s, turn)
			wantQuiet(t, s, platform.Turns)
		},
		"do not take the receipt of an earlier life": func(t *testing.T, dir string) {
			s := open(t, dir)
			send(t, s, platform.Message{Queue: platform.Runs})
			old := receive(t, s, platform.Runs, time.Hour)
			s = reopen(t, s, dir)
			current := receive(t, s, platform.Runs, time.Minute)
			acknowledge(t, s, old)
			if again := receive(t, s, platform.Runs, time.Minute); again.ID != current.ID {
				t.Error("got another message")
			}
		},
		"keep dead letters out of the way": func(t *testing.T, dir string) {
			s := open(t, dir)
			send(t, s, platform.Message{Queue: platform.Runs, Body: []byte("poison")})
			for range platform.MaxReceives {
				receive(t, s, platform.Runs, 0)
			}
			wantQuiet(t, s, platform.Runs)
			s = reopen(t, s, dir)
			wantQuiet(t, s, platform.Runs)
			if n, err := s.Redrive(t.Context(), platform.Runs); err != nil || n != 1 {
				t.Errorf("redrive sent %d, error %v", n, err)
			}
			s = reopen(t, s, dir)
			if r := receive(t, s, platform.Runs, time.Hour); string(r.Body) != "poison" || r.Receives != 1 {
				t.Errorf("got %+v", r)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { test(t, t.TempDir()) })
		})
	}
}

func TestAnOutdatedReceiptDoesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, t.TempDir())
		send(t, s, platform.Message{Queue: platform.Turns, Group: "g", Dedup: "1"})
		old := receive(t, s, platform.Turns, time.Second)
		current := receive(t, s, platform.Turns, time.Minute)
		if err := s.Extend(t.Context(), old, 0); err != nil {
			t.Error(err)
		}
		acknowledge(t, s, old)
		wantQuiet(t, s, platform.Turns)
		again := receive(t, s, platform.Turns, time.Minute)
		if again.ID != current.ID {
			t.Error("got another message")
		}
		acknowledge(t, s, again)
		time.Sleep(time.Hour)
		wantQuiet(t, s, platform.Turns)
	})
}

func TestAcknowledgingJoinsATransaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, t.TempDir())
		send(t, s, platform.Message{Queue: platform.Runs, Body: []byte("job")})
		job := receive(t, s, platform.Runs, time.Hour)
		errRefused := errors.New("refused")
		for _, want := range []error{errRefused, nil} {
			err := s.Atomically(t.Context(), func(view platform.Store) error {
				acknowledger := view.(interface {
					Acknowledge(context.Context, platform.Received) error
				})
				if err := acknowledger.Acknowledge(t.Context(), job); err != nil {
					t.Error(err)
				}
				return want
			})
			if !errors.Is(err, want) {
				t.Errorf("got error %v, want %v", err, want)
			}
			if want != nil { // undone: the message is back
				job = receive(t, s, platform.Runs, time.Minute)
			}
		}
		time.Sleep(time.Hour)
		wantQuiet(t, s, platform.Runs)
	})
}

func TestManyBodiesStayInTheFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, t.TempDir())
		const n = 100 // more than the queue keeps in memory
		for i := range n {
			send(t, s, platform.Message{Queue: platform.Runs, Body: fmt.Appendf(nil, "%0*d", platform.MaxMessage, i)})
		}
		for i := range n {
			r := receive(t, s, platform.Runs, time.Hour)
			if want := fmt.Sprintf("%0*d", platform.MaxMessage, i); string(r.Body) != want || r.SentAt.IsZero() {
				t.Fatalf("message %d has another body", i)
			}
			acknowledge(t, s, r)
		}
	})
}

func TestAnIdleStoreWaitsForNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, t.TempDir())
		go func() {
			if _, err := s.Receive(t.Context(), platform.Ticks, 1, time.Minute); err == nil {
				t.Error("received a message")
			}
		}()
		start := time.Now()
		synctest.Wait() // returns only if nothing in the store runs or polls
		time.Sleep(24 * time.Hour)
		if took := time.Since(start); took != 24*time.Hour {
			t.Errorf("%v passed", took)
		}
	})
}

func send(t testing.TB, s platform.Store, m platform.Message) {
	t.Helper()
	if err := s.Send(t.Context(), m); err != nil {
		t.Fatal(err)
	}
}

func receive(t testing.TB, s *sqlitestore.Store, queue string, visibility time.Duration) platform.Received {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Hour)
	defer cancel()
	batch, err := s.Receive(ctx, queue, 1, visibility)
	if err != nil {
		t.Fatal(err)
	}
	return batch[0]
}

func acknowledge(t testing.TB, s *sqlitestore.Store, r platform.Received) {
	t.Helper()
	if err := s.Acknowledge(t.Context(), r); err != nil {
		t.Fatal(err)
	}
}

func wantQuiet(t testing.TB, s *sqlitestore.Store, queue string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if batch, err := s.Receive(ctx, queue, 1, time.Minute); err == nil {
		t.Fatalf("received %q, want nothing", batch[0].Body)
	}
}
