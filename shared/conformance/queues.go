package conformance

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/errand-dev/errand/shared/platform"
)

// Queues checks platform.Sender and platform.Receiver in what holds for every queue.
func (s Suite) Queues(t *testing.T) {
	for _, queue := range platform.Queues {
		t.Run(queue, func(t *testing.T) { s.run(t, queueSentences(queue)) })
	}
	s.run(t, []sentence{
		{"a message to an unknown queue is refused", func(e *env) {
			e.wantRefused(platform.Message{Queue: "nowhere", Group: "g", Dedup: "d", Body: []byte("x")})
		}},
		{"a receive from an unknown queue is refused", func(e *env) {
			ctx, cancel := e.within(quiet)
			defer cancel()
			if _, err := e.Receiver.Receive(ctx, "nowhere", 1, e.visibility); err == nil || errors.Is(err, context.DeadlineExceeded) {
				e.Errorf("got error %v, want a refusal", err)
			}
		}},
		{"queues do not mix", func(e *env) {
			for _, queue := range platform.Queues {
				e.must(e.Store.Send(e.Context(), message(queue, queue)))
			}
			for _, queue := range platform.Queues {
				e.wantBodies(e.receive(queue, 10, e.visibility), queue)
				e.wantQuiet(queue)
			}
		}},
	})
}

func queueSentences(queue string) []sentence {
	send := func(e *env, body string) { e.must(e.Store.Send(e.Context(), message(queue, body))) }
	return []sentence{
		{"a sent message is received as it was sent", func(e *env) {
			m := message(queue, "body ü 🚀")
			before := time.Now()
			e.must(e.Store.Send(e.Context(), m))
			r := e.receive(queue, 10, time.Minute)[0]
			if r.Queue != queue || r.Group != m.Group || !bytes.Equal(r.Body, m.Body) || queue == platform.Turns && r.Dedup != m.Dedup {
				e.Errorf("got %+v, want %+v", r.Message, m)
			}
			if r.ID == "" || r.Receipt == "" || r.Receives != 1 {
				e.Errorf("got id %q, receipt %q, receives %d", r.ID, r.Receipt, r.Receives)
			}
			if r.SentAt.Before(before.Add(-2*time.Second)) || r.SentAt.After(time.Now().Add(2*time.Second)) {
				e.Errorf("sent at %v, want about %v", r.SentAt, before)
			}
		}},
		{"a message in flight is hidden from others", func(e *env) {
			send(e, "x")
			e.receive(queue, 1, time.Minute)
			e.wantQuiet(queue)
		}},
		{"a message whose visibility ran out is handed out again", func(e *env) {
			send(e, "x")
			first := e.receive(queue, 1, e.visibility)[0]
			second := e.receive(queue, 1, time.Minute)[0]
			if second.ID != first.ID || second.Receipt == first.Receipt || second.Receives != 2 {
				e.Errorf("got id %q, receipt %q, receives %d after %q, %q, 1", second.ID, second.Receipt, second.Receives, first.ID, first.Receipt)
			}
		}},
		{"an acknowledged message never comes back, and may be acknowledged again", func(e *env) {
			send(e, "x")
			r := e.receive(queue, 1, e.visibility)[0]
			e.must(e.Receiver.Acknowledge(e.Context(), r))
			e.must(e.Receiver.Acknowledge(e.Context(), r))
			e.advance(e.visibility)
			e.wantQuiet(queue)
		}},
		{"extending by zero makes a message available at once", func(e *env) {
			send(e, "x")
			r := e.receive(queue, 1, time.Minute)[0]
			e.must(e.Receiver.Extend(e.Context(), r, 0))
			if again := e.receive(queue, 1, time.Minute)[0]; again.ID != r.ID {
				e.Errorf("got %q, want %q again", again.ID, r.ID)
			}
		}},
		{"extending hides a message beyond its first visibility", func(e *env) {
			send(e, "x")
			r := e.receive(queue, 1, e.visibility)[0]
			e.must(e.Receiver.Extend(e.Context(), r, time.Minute))
			e.advance(e.visibility)
			e.wantQuiet(queue)
			e.must(e.Receiver.Acknowledge(e.Context(), r))
		}},
		{"extending an acknowledged message succeeds and does nothing", func(e *env) {
			send(e, "x")
			r := e.receive(queue, 1, time.Minute)[0]
			e.must(e.Receiver.Acknowledge(e.Context(), r))
			e.must(e.Receiver.Extend(e.Context(), r, 0))
			e.wantQuiet(queue)
		}},
		{"no more messages are handed out than asked for", func(e *env) {
			for i := range 5 {
				m := message(queue, fmt.Sprint(i))
				m.Group = fmt.Sprint("g", i)
				e.must(e.Store.Send(e.Context(), m))
			}
			var bodies []string
			for len(bodies) < 5 {
				batch := e.receive(queue, 2, time.Minute)
				if len(batch) > 2 {
					e.Fatalf("got %d messages, want at most 2", len(batch))
				}
				bodies = append(bodies, bodiesOf(batch)...)
			}
			slices.Sort(bodies)
			if got := strings.Join(bodies, " "); got != "0 1 2 3 4" {
				e.Errorf("got %s", got)
			}
		}},
		{"a receive waits for a message", func(e *env) {
			received := make(chan []platform.Received, 1)
			go func() {
				ctx, cancel := e.within(settling)
				defer cancel()
				batch, err := e.Receiver.Receive(ctx, queue, 1, time.Minute)
				if err != nil {
					e.Errorf("receiving: %v", err)
				}
				received <- batch
			}()
			e.advance(quiet)
			send(e, "late")
			e.wantBodies(<-received, "late")
		}},
		{"a receive ends with its context", func(e *env) {
			ctx, cancel := e.within(quiet)
			defer cancel()
			if got, err := e.Receiver.Receive(ctx, queue, 1, time.Minute); err == nil {
				e.Errorf("got %d messages from an empty queue, want an error", len(got))
			}
		}},
		{"a message over the limit is refused and nothing sent", func(e *env) {
			m := message(queue, strings.Repeat("x", platform.MaxMessage+1))
			e.wantTooLarge(e.Store.Send(e.Context(), m))
			m.Body = m.Body[1:]
			e.must(e.Store.Send(e.Context(), m))
			if got := e.receive(queue, 10, time.Minute); len(got) != 1 || !bytes.Equal(got[0].Body, m.Body) {
				e.Errorf("got %d messages, want the one of the largest size", len(got))
			}
		}},
		{"a message handed out too often becomes a dead letter and can be sent again", func(e *env) {
			send(e, "poison")
			for i := range platform.MaxReceives {
				r := e.receive(queue, 1, time.Minute)[0]
				if r.Receives != i+1 {
					e.Errorf("receive %d counts %d", i+1, r.Receives)
				}
				e.must(e.Receiver.Extend(e.Context(), r, 0))
			}
			e.wantQuiet(queue)
			e.wantBodies(e.deadLetters(queue, 1), "poison")
			sent, err := e.Receiver.Redrive(e.Context(), queue)
			e.must(err)
			if sent != 1 {
				e.Errorf("redrive sent %d, want 1", sent)
			}
			e.wantBodies(e.receive(queue, 1, time.Minute), "poison")
			e.deadLetters(queue, 0)
		}},
		{"of many messages among many receivers each is handled", func(e *env) { e.wantAllHandled(queue) }},
	}
}

// message is a valid message for any queue.
func message(queue, body string) platform.Message {
	m := platform.Message{Queue: queue, Body: []byte(body)}
	switch queue {
	case platform.Turns:
		m.Group, m.Dedup = "conversation", rand.Text()
	case platform.Runs:
		m.Group = "tenant"
	}
	return m
}

// receive takes at least one message.
func (e *env) receive(queue string, limit int, visibility time.Duration) []platform.Received {
	e.Helper()
	ctx, cancel := e.within(settling)
	defer cancel()
	batch, err := e.Receiver.Receive(ctx, queue, limit, visibility)
	if err != nil || len(batch) == 0 {
		e.Fatalf("receiving from %s: %d messages, error %v", queue, len(batch), err)
	}
	return batch
}

// wantQuiet checks that no message can be had.
func (e *env) wantQuiet(queue string) {
	e.Helper()
	ctx, cancel := e.within(quiet)
	defer cancel()
	if batch, err := e.Receiver.Receive(ctx, queue, 10, e.visibility); err == nil && len(batch) > 0 {
		e.Fatalf("received %q from %s, want nothing", bodiesOf(batch), queue)
	}
}

// deadLetters waits until there are n; moving them may take a platform a while.
func (e *env) deadLetters(queue string, n int) []platform.Received {
	e.Helper()
	for deadline := time.Now().Add(settling); ; e.advance(quiet) {
		letters, err := e.Receiver.DeadLetters(e.Context(), queue, 10)
		e.must(err)
		if len(letters) == n {
			return letters
		}
		if time.Now().After(deadline) {
			e.Fatalf("got %d dead letters, want %d", len(letters), n)
		}
	}
}

func (e *env) wantRefused(m platform.Message) {
	e.Helper()
	if err := e.Store.Send(e.Context(), m); err == nil {
		e.Errorf("sending %.80q to %s with group %q and delay %v succeeded", m.Body, m.Queue, m.Group, m.Delay)
	}
}

func (e *env) wantBodies(got []platform.Received, want ...string) {
	e.Helper()
	if bodies := bodiesOf(got); !slices.Equal(bodies, want) {
		e.Fatalf("got %q, want %q", bodies, want)
	}
}

func bodiesOf(batch []platform.Received) []string {
	bodies := make([]string, len(batch))
	for i, r := range batch {
		bodies[i] = string(r.Body)
	}
	return bodies
}

// wantAllHandled sends from several goroutines and takes with several.
func (e *env) wantAllHandled(queue string) {
	const senders, each, receivers = 4, 10, 3
	e.race(senders, func(s int) error {
		for i := range each {
			body := fmt.Sprintf("%d-%d", s, i)
			m := message(queue, body)
			m.Group = fmt.Sprint("g", i)
			if queue == platform.Turns {
				m.Dedup = body
			}
			if err := e.Store.Send(e.Context(), m); err != nil {
				e.Errorf("sending: %v", err)
			}
		}
		return nil
	})
	ctx, cancel := e.within(2 * settling)
	defer cancel()
	var mu sync.Mutex
	handled := make(map[string]bool)
	e.race(receivers, func(int) error {
		for {
			batch, err := e.Receiver.Receive(ctx, queue, 3, time.Minute)
			if err != nil {
				return err
			}
			for _, r := range batch {
				if err := e.Receiver.Acknowledge(ctx, r); err != nil {
					return err
				}
				mu.Lock()
				handled[string(r.Body)] = true
				if len(handled) == senders*each {
					cancel()
				}
				mu.Unlock()
			}
		}
	})
	if len(handled) != senders*each {
		e.Errorf("%d of %d messages were handled", len(handled), senders*each)
	}
}
