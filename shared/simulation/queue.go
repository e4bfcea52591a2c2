package simulation

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/errand-dev/errand/shared/platform"
)

// queue holds its messages in the order in which they were sent.
type queue struct {
	name     string
	messages []*message
	dead     []*message
	// remembered are the deduplication values of turns, with the time of their end.
	remembered map[string]time.Time
}

type message struct {
	platform.Received
	// visible is when it may be handed out (again).
	visible time.Time
}

// memory is how long a deduplication value is remembered.
const memory = 5 * time.Minute

func (q *queue) fifo() bool { return q.name == platform.Turns }

// available returns the messages that can be handed out at now: of a group of turns
// its head only, and that only if it is not in flight.
func (q *queue) available(now time.Time) []*message {
	var found []*message
	seen := map[string]bool{}
	for _, m := range q.messages {
		if q.fifo() {
			if seen[m.Group] {
				continue
			}
			seen[m.Group] = true
		}
		if !m.visible.After(now) {
			found = append(found, m)
		}
	}
	return found
}

// Send implements platform.Sender.
func (s *Store) Send(ctx context.Context, m platform.Message) error {
	return s.change(ctx, func() error { return s.send(m) })
}

func (s *Store) send(m platform.Message) error {
	q, err := s.queue(m.Queue)
	switch {
	case err != nil:
		return err
	case len(m.Body) > platform.MaxMessage:
		return platform.ErrTooLarge
	case m.Delay < 0 || m.Delay > platform.MaxDelay || q.fifo() && m.Delay > 0:
		return fmt.Errorf("sending to %s: a delay of %v", m.Queue, m.Delay)
	case q.fifo() && (m.Group == "" || m.Dedup == ""):
		return fmt.Errorf("sending to %s: no group or no deduplication value", m.Queue)
	}
	now := s.now()
	if q.fifo() {
		if now.Before(q.remembered[m.Dedup]) {
			return nil
		}
		before := q.remembered[m.Dedup]
		q.remembered[m.Dedup] = now.Add(memory)
		s.undo = append(s.undo, func() { q.remembered[m.Dedup] = before })
	}
	m.Body = bytes.Clone(m.Body)
	s.lastID++
	e := &message{visible: now.Add(m.Delay)}
	e.Message, e.ID, e.SentAt = m, strconv.Itoa(s.lastID), now
	q.messages = append(q.messages, e)
	s.did(func() { q.remove(e.ID) }, func(o Observer) { o.Sent(m) })
	s.announce()
	return nil
}

func (s *Store) queue(name string) (*queue, error) {
	q, ok := s.queues[name]
	if !ok {
		return nil, fmt.Errorf("there is no queue %q", name)
	}
	return q, nil
}

// announce ends the waiting of receivers.
func (s *Store) announce() {
	close(s.arrived)
	s.arrived = make(chan struct{})
}

func (q *queue) remove(id string) *message {
	i := slices.IndexFunc(q.messages, func(m *message) bool { return m.ID == id })
	if i < 0 {
		return nil
	}
	m := q.messages[i]
	q.messages = slices.Delete(q.messages, i, i+1)
	return m
}

// Receive implements platform.Receiver.
func (s *Store) Receive(ctx context.Context, name string, limit int, visibility time.Duration) ([]platform.Received, error) {
	for {
		s.mu.Lock()
		q, err := s.queue(name)
		if err != nil {
			s.mu.Unlock()
			return nil, err
		}
		batch := s.take(q, limit, visibility)
		next, arrived := q.next(s.now()), s.arrived
		s.mu.Unlock()
		if len(batch) > 0 {
			return batch, nil
		}
		timer := time.NewTimer(next.Sub(s.now()))
		if next.IsZero() {
			timer.Stop()
		}
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil, ctx.Err()
		case <-arrived:
		case <-timer.C:
		}
		timer.Stop()
	}
}

func (s *Store) take(q *queue, limit int, visibility time.Duration) []platform.Received {
	var batch []platform.Received
	for again := true; again; {
		again = false
		for _, m := range q.available(s.now()) {
			if len(batch) == limit {
				return batch
			}
			if r, ok := s.hand(q, m, visibility); ok {
				batch = append(batch, r)
			} else {
				again = true // a dead head frees its group
			}
		}
	}
	return batch
}

// hand hands out one message, or moves it to the dead letters.
func (s *Store) hand(q *queue, m *message, visibility time.Duration) (platform.Received, bool) {
	if m.Receives >= platform.MaxReceives {
		q.remove(m.ID)
		q.dead = append(q.dead, m)
		return platform.Received{}, false
	}
	m.Receives++
	m.Receipt = m.ID + "/" + strconv.Itoa(m.Receives)
	m.visible = s.now().Add(visibility)
	return m.Received, true
}

// next is when the first hidden message becomes visible after now, zero if there is none.
func (q *queue) next(now time.Time) time.Time {
	var next time.Time
	for _, m := range q.messages {
		if m.visible.After(now) && (next.IsZero() || m.visible.Before(next)) {
			next = m.visible
		}
	}
	return next
}

// Acknowledge implements platform.Receiver.
func (s *Store) Acknowledge(ctx context.Context, r platform.Received) error {
	return s.change(ctx, func() error {
		q, err := s.queue(r.Queue)
		if err != nil {
			return err
		}
		if m := q.remove(r.ID); m != nil {
			s.said = append(s.said, func(o Observer) { o.Removed(m.Message) })
			s.announce()
		}
		return nil
	})
}

// Extend implements platform.Receiver. A receipt that a later receive has replaced
// changes nothing.
func (s *Store) Extend(ctx context.Context, r platform.Received, visibility time.Duration) error {
	return s.change(ctx, func() error {
		q, err := s.queue(r.Queue)
		if err != nil {
			return err
		}
		for _, m := range q.messages {
			if m.Receipt == r.Receipt && m.ID == r.ID {
				m.visible = s.now().Add(visibility)
				s.announce()
			}
		}
		return nil
	})
}

// DeadLetters implements platform.Receiver.
func (s *Store) DeadLetters(_ context.Context, name string, limit int) ([]platform.Received, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q, err := s.queue(name)
	if err != nil {
		return nil, err
	}
	// A message that can be handed out no more dies when somebody asks.
	for _, m := range q.available(s.now()) {
		if m.Receives >= platform.MaxReceives {
			s.hand(q, m, 0)
		}
	}
	var letters []platform.Received
	for _, m := range q.dead[:min(limit, len(q.dead))] {
		letters = append(letters, m.Received)
	}
	return letters, nil
}

// Redrive implements platform.Receiver.
func (s *Store) Redrive(ctx context.Context, name string) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q, err := s.queue(name)
	if err != nil || ctx.Err() != nil {
		return 0, err
	}
	letters := q.dead
	q.dead = nil
	for _, m := range letters {
		s.lastID++
		m.ID, m.Receives, m.visible = strconv.Itoa(s.lastID), 0, s.now()
		q.messages = append(q.messages, m)
	}
	s.announce()
	return len(letters), nil
}
