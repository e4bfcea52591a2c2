package sqlitestore

import (
	"context"
	"database/sql/driver"
	"fmt"
	"strconv"
	"time"

	"github.com/errand-dev/errand/shared/platform"
)

const messageColumns = `grp, dedup, body, sent, id, receives`

// scanMessage reads a row of messageColumns.
func scanMessage(queue string, v []driver.Value) platform.Received {
	return platform.Received{
		Message:  platform.Message{Queue: queue, Group: textOf(v[0]), Dedup: textOf(v[1]), Body: bytesOf(v[2])},
		ID:       strconv.FormatInt(v[4].(int64), 10),
		Receives: int(v[5].(int64)),
		SentAt:   timeOf(v[3]),
	}
}

// readMessage reads a message that is not in memory.
func (s *Store) readMessage(ctx context.Context, queue string, id int64) (*platform.Message, time.Time, error) {
	var found *platform.Received
	err := s.read(ctx, func(c *conn) error {
		return c.query(func(v []driver.Value) {
			r := scanMessage(queue, v)
			found = &r
		}, `SELECT `+messageColumns+` FROM messages WHERE id = ?`, id)
	})
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("reading message %d of %s: %w", id, queue, err)
	}
	if found == nil {
		return nil, time.Time{}, fmt.Errorf("message %d of %s has no row", id, queue)
	}
	return &found.Message, found.SentAt, nil
}

// DeadLetters returns up to limit dead letters, the first to die first.
func (s *Store) DeadLetters(ctx context.Context, queue string, limit int) (letters []platform.Received, err error) {
	if _, err := s.queue(queue); err != nil {
		return nil, err
	}
	err = s.read(ctx, func(c *conn) error {
		return c.query(func(v []driver.Value) { letters = append(letters, scanMessage(queue, v)) },
			`SELECT `+messageColumns+` FROM messages WHERE queue = ? AND dead IS NOT NULL ORDER BY dead, id LIMIT ?`, queue, int64(limit))
	})
	if err != nil {
		return nil, fmt.Errorf("listing dead letters of %s: %w", queue, err)
	}
	return letters, nil
}

// redriveBatch bounds the dead letters that one transaction sends again.
const redriveBatch = 100

// Redrive sends every dead letter again, as a new message at the end of its queue
// and group, past the deduplication. After an error some may have been sent.
func (s *Store) Redrive(ctx context.Context, queue string) (sentAgain int, err error) {
	q, err := s.queue(queue)
	if err != nil {
		return 0, err
	}
	for {
		letters, err := s.DeadLetters(ctx, queue, redriveBatch)
		if err != nil || len(letters) == 0 {
			return sentAgain, err
		}
		var moved int
		err = s.write(ctx, func(t *tx) error {
			moved, err = t.redrive(q, letters)
			return err
		})
		if err != nil {
			return sentAgain, fmt.Errorf("redriving %s: %w", queue, err)
		}
		sentAgain += moved
	}
}

func (t *tx) redrive(q *queue, letters []platform.Received) (moved int, err error) {
	for _, letter := range letters {
		id, err := strconv.ParseInt(letter.ID, 10, 64)
		if err != nil {
			return moved, err
		}
		e := &entry{id: t.s.lastID + 1, at: t.s.elapsed()}
		changed, err := t.exec(`UPDATE messages SET id = ?, dead = NULL, receives = 0, not_before = 0 WHERE id = ? AND dead IS NOT NULL`, e.id, id)
		if err != nil {
			return moved, err
		}
		if changed == 0 {
			continue // another redrive was faster
		}
		t.s.lastID++
		t.g.sent = append(t.g.sent, sent{q, e, letter.Group})
		moved++
	}
	return moved, nil
}
