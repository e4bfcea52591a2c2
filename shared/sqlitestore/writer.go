package sqlitestore

import (
	"cmp"
	"context"
	"fmt"

	"github.com/errand-dev/errand/shared/platform"
)

// group is one SQLite transaction that carries the writes of several calls.
// Its fields are guarded by Store.turn until done is closed, and fixed after.
type group struct {
	done    chan struct{} // closed when the transaction has ended
	err     error         // set if it was rolled back: nothing of it took place
	ended   bool
	members int

	// What to do in memory when the transaction has ended.
	keys  []platform.Key // changed
	sent  []sent         // to hand out from now on
	acked []*entry       // deleted, or to hand out again if rolled back
}

// sent is one message of a group.
type sent struct {
	queue *queue
	entry *entry
	group string
}

// write runs fn in a transaction and returns when that is durable. A call that
// finds a transaction open joins it; the one that opened it commits it, after all
// calls that were waiting by then have joined. So a lone write pays one fsync and
// waits for nobody, and a crowd shares one.
//
// fn's own error is returned after the commit as well, because fn may have
// decided on what others of the group wrote. When ctx ends during the wait, the
// outcome is open.
func (s *Store) write(ctx context.Context, fn func(*tx) error) (err error) {
	if err := s.enter(ctx); err != nil {
		return err
	}
	if g := s.open; g != nil {
		err := s.join(g, fn)
		select {
		case <-g.done:
			return cmp.Or(g.err, err)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	g := &group{done: make(chan struct{})}
	if _, err := s.writer.exec(`BEGIN IMMEDIATE`); err != nil {
		<-s.turn
		return fmt.Errorf("beginning a transaction: %w", err)
	}
	s.open = g
	// Deferred, since others depend on the commit even if fn panics.
	defer func() {
		select {
		case s.turn <- struct{}{}: // behind those who wait already
			s.commit(g)
			<-s.turn
		case <-g.done: // by an error
		}
		err = cmp.Or(g.err, err)
	}()
	return s.join(g, fn)
}

// enter waits for the turn.
func (s *Store) enter(ctx context.Context) error {
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	case <-s.closing:
		return ErrClosed
	}
	// A select with several ready cases chooses any.
	select {
	case <-s.closing:
		<-s.turn
		return ErrClosed
	case <-ctx.Done():
		<-s.turn
		return ctx.Err()
	default:
		return nil
	}
}

// join runs fn as a member of g and gives the turn on.
func (s *Store) join(g *group, fn func(*tx) error) error {
	defer func() { <-s.turn }()
	g.members++
	return fn(&tx{s: s, g: g})
}

// commit makes the group durable, unless an error has ended it before.
func (s *Store) commit(g *group) {
	if g.ended {
		return
	}
	if err := s.counts.flush(s.writer); err != nil {
		s.end(g, fmt.Errorf("counting receives: %w", err))
		return
	}
	if _, err := s.writer.exec(`COMMIT`); err != nil {
		s.end(g, fmt.Errorf("committing: %w", err))
		return
	}
	s.end(g, nil)
}

// end settles the group: with err, the transaction is rolled back and every
// member gets that error.
func (s *Store) end(g *group, err error) {
	if err != nil {
		// After some errors SQLite has rolled back by itself and refuses; then the
		// state is the wanted one.
		_, _ = s.writer.exec(`ROLLBACK`)
	}
	g.ended, g.err, s.open = true, err, nil
	for _, e := range g.acked {
		if err == nil {
			e.queue.remove(e)
		} else {
			e.queue.restore(e)
		}
	}
	if err == nil {
		for _, m := range g.sent {
			m.queue.push(m.entry, m.group)
		}
		s.watches.notify(g.keys)
	}
	close(g.done)
}
