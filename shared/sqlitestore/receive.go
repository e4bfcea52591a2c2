package sqlitestore

import (
	"bytes"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/errand-dev/errand/shared/platform"
)

// loadMessages fills the queues from the file. What was in flight when the last
// process ended is available at once, what was delayed at its time.
func (s *Store) loadMessages() error {
	s.lastID = s.opened.UnixMicro() // above every id of an earlier process
	err := s.writer.query(func(v []driver.Value) {
		e := &entry{id: v[0].(int64), receives: int(v[4].(int64)), recovered: true}
		if notBefore := v[3].(int64); notBefore != 0 {
			e.at = max(0, time.UnixMilli(notBefore).Sub(s.opened))
		}
		s.queues[textOf(v[1])].push(e, textOf(v[2]))
	}, `SELECT id, queue, grp, not_before, receives FROM messages WHERE dead IS NULL ORDER BY id`)
	if err == nil {
		err = s.writer.query(func(v []driver.Value) { s.lastID = max(s.lastID, v[0].(int64)) }, `SELECT coalesce(max(id), 0) FROM messages`)
	}
	if err != nil {
		return fmt.Errorf("loading the queues of %s: %w", s.path, err)
	}
	return nil
}

// Receive waits for messages, woken by the commit that sends one or by the time
// that shows one. It costs no disk write: the count of receives is written with
// the next group. Only a message from before this process started is counted
// durably first, so that one that kills each process that touches it still ends
// among the dead letters.
func (s *Store) Receive(ctx context.Context, queue string, limit int, visibility time.Duration) ([]platform.Received, error) {
	q, err := s.queue(queue)
	if err != nil {
		return nil, err
	}
	for {
		if err := s.usable(ctx); err != nil {
			return nil, err
		}
		hands, dead, wait := q.take(max(limit, 1), max(visibility, 0))
		if len(dead) > 0 {
			switch err := s.bury(ctx, dead); {
			case err != nil && len(hands) == 0:
				return nil, err
			case err != nil:
				s.log.ErrorContext(ctx, "dead letters stay in their queue", "queue", queue, "error", err)
			}
		}
		if len(hands) > 0 {
			return s.handOut(ctx, q, hands)
		}
		if wait == nil {
			continue
		}
		select {
		case <-wait:
		case <-ctx.Done():
			q.giveUp(wait)
		case <-s.closing:
			q.giveUp(wait)
		}
	}
}

// handOut completes what take has chosen. It no longer stops for ctx: the
// messages are hidden by now.
func (s *Store) handOut(ctx context.Context, q *queue, hands []hand) (_ []platform.Received, err error) {
	ctx = context.WithoutCancel(ctx)
	defer func() {
		if err != nil {
			for _, h := range hands {
				s.counts.forget(h.entry)
				q.takeBack(h)
			}
		}
	}()
	if err := s.count(ctx, hands); err != nil {
		return nil, err
	}
	received := make([]platform.Received, len(hands))
	for i, h := range hands {
		if h.message == nil {
			if h.message, h.sent, err = s.readMessage(ctx, q.name, h.entry.id); err != nil {
				return nil, err
			}
		}
		received[i] = platform.Received{
			Message:  *h.message,
			ID:       strconv.FormatInt(h.entry.id, 10),
			Receipt:  s.life + "." + strconv.FormatInt(h.receipt, 10),
			Receives: h.receives,
			SentAt:   h.sent,
		}
		received[i].Body = bytes.Clone(h.message.Body)
	}
	return received, nil
}

// count records the receives: at once for recovered messages, else with the next
// group.
func (s *Store) count(ctx context.Context, hands []hand) error {
	recovered := false
	for _, h := range hands {
		s.counts.add(h)
		recovered = recovered || h.entry.recovered
	}
	if !recovered {
		return nil
	}
	return s.write(ctx, func(*tx) error { return nil })
}

// bury turns messages into dead letters.
func (s *Store) bury(ctx context.Context, dead []*entry) error {
	err := s.write(context.WithoutCancel(ctx), func(t *tx) error {
		return t.run(func(c *conn) error {
			for _, e := range dead {
				t.g.acked = append(t.g.acked, e)
				s.counts.forget(e)
				if _, err := c.exec(`UPDATE messages SET dead = ?, receives = ? WHERE id = ?`, s.now().UnixMilli(), int64(platform.MaxReceives), e.id); err != nil {
					return err
				}
			}
			return nil
		})
	})
	if err != nil {
		for _, e := range dead {
			e.queue.restore(e)
		}
		return fmt.Errorf("moving dead letters: %w", err)
	}
	for _, e := range dead {
		// Nobody else would tell: there is no alarm here as there is on AWS.
		s.log.ErrorContext(ctx, "message is a dead letter", "queue", e.queue.name, "message_id", e.id)
	}
	return nil
}

// Acknowledge deletes the message durably, unless its visibility ran out and it
// was handed out again: then it is the other receiver's, and stays.
func (s *Store) Acknowledge(ctx context.Context, r platform.Received) error {
	return s.write(ctx, func(t *tx) error { return t.Acknowledge(ctx, r) })
}

// Acknowledge deletes the message with the transaction. It is not part of
// platform.Store; a caller may ask the view for it.
func (t *tx) Acknowledge(_ context.Context, r platform.Received) error {
	q, err := t.s.queue(r.Queue)
	if err != nil {
		return err
	}
	err = t.run(func(c *conn) error {
		e := q.claim(t.s.handle(r))
		if e == nil {
			return nil
		}
		t.g.acked = append(t.g.acked, e)
		t.s.counts.forget(e)
		_, err := c.exec(`DELETE FROM messages WHERE id = ?`, e.id)
		return err
	})
	if err != nil {
		return fmt.Errorf("acknowledging message %s: %w", r.ID, err)
	}
	return nil
}

// soon is the longest that a deletion without a waiting caller stays unwritten.
const soon = 100 * time.Millisecond

// AcknowledgeSoon deletes the message with the next group that is written, or a moment
// later by itself: a write less for who need not wait. A crash before brings the
// message back, as a queue that delivers at least once may.
func (s *Store) AcknowledgeSoon(r platform.Received) error {
	q, err := s.queue(r.Queue)
	if err != nil {
		return err
	}
	e := q.claim(s.handle(r))
	if e == nil {
		return nil
	}
	s.counts.forget(e)
	first := s.counts.remove(e.id)
	q.remove(e)
	if first {
		time.AfterFunc(soon, func() {
			if err := s.write(context.Background(), func(*tx) error { return nil }); err != nil && !errors.Is(err, ErrClosed) {
				s.log.Error("deleting acknowledged messages failed", "error", err)
			}
		})
	}
	return nil
}

// Extend sets the remaining visibility. Nothing of it is durable.
func (s *Store) Extend(ctx context.Context, r platform.Received, visibility time.Duration) error {
	q, err := s.queue(r.Queue)
	if err != nil {
		return err
	}
	if err := s.usable(ctx); err != nil {
		return err
	}
	id, receipt := s.handle(r)
	q.extend(id, receipt, max(visibility, 0))
	return nil
}

// handle returns what the index knows a hand-out by; zeros match nothing.
func (s *Store) handle(r platform.Received) (id, receipt int64) {
	number, ok := strings.CutPrefix(r.Receipt, s.life+".")
	if !ok {
		return 0, 0
	}
	id, idErr := strconv.ParseInt(r.ID, 10, 64)
	receipt, receiptErr := strconv.ParseInt(number, 10, 64)
	if errors.Join(idErr, receiptErr) != nil {
		return 0, 0
	}
	return id, receipt
}

func (s *Store) queue(name string) (*queue, error) {
	q := s.queues[name]
	if q == nil {
		return nil, fmt.Errorf("no queue %q", name)
	}
	return q, nil
}

// usable reports why a call must not go on.
func (s *Store) usable(ctx context.Context) error {
	select {
	case <-s.closing:
		return ErrClosed
	default:
		return ctx.Err()
	}
}

// counts collects what is still to be written about messages: receives, and
// deletions that nobody waits for.
type counts struct {
	mu      sync.Mutex
	pending map[*entry]int
	deleted []int64
}

func (c *counts) add(h hand) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pending == nil {
		c.pending = make(map[*entry]int)
	}
	c.pending[h.entry] = h.receives
}

func (c *counts) forget(e *entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.pending, e)
}

// remove notes a deletion and reports whether it is the first since the last flush.
func (c *counts) remove(id int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deleted = append(c.deleted, id)
	return len(c.deleted) == 1
}

// flush writes them into the transaction about to be committed. Should that fail,
// they are lost: the next receive writes a higher count, and a message whose deletion
// is lost comes back after a restart.
func (c *counts) flush(w *conn) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for e, receives := range c.pending {
		if _, err := w.exec(`UPDATE messages SET receives = ? WHERE id = ?`, int64(receives), e.id); err != nil {
			return err
		}
	}
	for _, id := range c.deleted {
		if _, err := w.exec(`DELETE FROM messages WHERE id = ?`, id); err != nil {
			return err
		}
	}
	clear(c.pending)
	c.deleted = c.deleted[:0]
	return nil
}
