package sqlitestore

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"time"

	"github.com/errand-dev/errand/shared/platform"
)

// dedupWindow is how long a queue remembers a deduplication value.
const dedupWindow = 5 * time.Minute

// BadMessageError is returned by Send for a message that no retry can make valid.
// Nothing was written.
type BadMessageError struct{ Queue, Reason string }

func (e *BadMessageError) Error() string {
	return fmt.Sprintf("message for queue %q: %s", e.Queue, e.Reason)
}

// sqsName is what SQS takes as a group or deduplication id.
var sqsName = regexp.MustCompile("^[a-zA-Z0-9!\"#$%&'()*+,\\-./:;<=>?@[\\\\\\]^_`{|}~]*$")

// Send makes the message durable, then available to receivers.
func (s *Store) Send(ctx context.Context, m platform.Message) error {
	if err := s.check(m); err != nil {
		return err
	}
	return s.write(ctx, func(t *tx) error { return t.Send(ctx, m) })
}

// Send makes the message part of the transaction: receivers see it after the commit.
func (t *tx) Send(_ context.Context, m platform.Message) error {
	if err := t.s.check(m); err != nil {
		return err
	}
	now := t.s.now()
	if m.Queue == platform.Turns {
		first, err := t.exec(`INSERT INTO dedups (queue, dedup, expires) VALUES (?1, ?2, ?3)
			ON CONFLICT DO UPDATE SET expires = ?3 WHERE expires <= ?4`,
			m.Queue, m.Dedup, ceilMillis(now.Add(dedupWindow)), now.UnixMilli())
		if err != nil {
			return fmt.Errorf("sending to %s: %w", m.Queue, err)
		}
		if first == 0 {
			return nil
		}
	}
	t.s.lastID++
	e := &entry{id: t.s.lastID, at: t.s.elapsed() + m.Delay, sent: time.UnixMilli(now.UnixMilli()).UTC()}
	var notBefore int64
	if m.Delay > 0 {
		notBefore = ceilMillis(now.Add(m.Delay))
	}
	_, err := t.exec(`INSERT INTO messages (id, queue, grp, dedup, body, sent, not_before) VALUES (?, ?, ?, ?, ?, ?, ?)`,
		e.id, m.Queue, m.Group, m.Dedup, notNil(m.Body), now.UnixMilli(), notBefore)
	if err != nil {
		return fmt.Errorf("sending to %s: %w", m.Queue, err)
	}
	m.Body, m.Delay = bytes.Clone(notNil(m.Body)), 0
	e.message = &m
	t.g.sent = append(t.g.sent, sent{t.s.queues[m.Queue], e, m.Group})
	return nil
}

// check refuses what SQS would refuse.
func (s *Store) check(m platform.Message) error {
	bad := func(reason string) error { return &BadMessageError{Queue: m.Queue, Reason: reason} }
	fifo := m.Queue == platform.Turns
	switch {
	case s.queues[m.Queue] == nil:
		return bad("no such queue")
	case len(m.Body) > platform.MaxMessage:
		return fmt.Errorf("sending %d bytes to %s: %w", len(m.Body), m.Queue, platform.ErrTooLarge)
	case m.Delay < 0 || m.Delay > platform.MaxDelay:
		return bad(fmt.Sprintf("delay %v is not within 0 and %v", m.Delay, platform.MaxDelay))
	case fifo && m.Delay != 0:
		return bad("a FIFO queue takes no delay")
	case fifo && m.Group == "":
		return bad("a FIFO queue needs a group")
	case fifo && m.Dedup == "":
		return bad("a FIFO queue needs a deduplication value")
	case len(m.Group) > 128 || !sqsName.MatchString(m.Group):
		return bad(fmt.Sprintf("group %q has more than 128 characters, or others than letters, digits and punctuation", m.Group))
	case len(m.Dedup) > 64 || !sqsName.MatchString(m.Dedup):
		return bad(fmt.Sprintf("deduplication value %q has more than 64 characters, or others than letters, digits and punctuation", m.Dedup))
	}
	return nil
}
