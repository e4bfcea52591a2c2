package sqlitestore

import (
	"context"
	"errors"
	"fmt"

	"github.com/errand-dev/errand/shared/platform"
)

// errViewOver is returned by the view that Atomically gave out, after its end.
var errViewOver = errors.New("view of the store was used after Atomically had ended")

// tx is a call's membership in a group: the platform.Store that Atomically hands
// out, and what the store's own single writes run on. It sees the writes of its
// group. It lives only while its call holds the turn.
type tx struct {
	s    *Store
	g    *group
	over bool
}

var _ platform.Store = (*tx)(nil)

// run uses the writer's connection. Any error of SQLite ends the whole group: it
// means a full disk or worse, and after such errors SQLite may or may not have
// rolled back already.
func (t *tx) run(fn func(*conn) error) error {
	switch {
	case t.over:
		return errViewOver
	case t.g.ended:
		return t.g.err
	}
	if err := fn(t.s.writer); err != nil {
		t.s.end(t.g, err)
		return err
	}
	return nil
}

// exec is run for one statement.
func (t *tx) exec(query string, args ...any) (changed int64, err error) {
	err = t.run(func(c *conn) error {
		changed, err = c.exec(query, args...)
		return err
	})
	return changed, err
}

// Atomically runs fn in one transaction: all that it wrote is durable when the
// call returns nil, none of it took place if fn failed.
func (s *Store) Atomically(ctx context.Context, fn func(platform.Store) error) error {
	return s.write(ctx, func(t *tx) error {
		if t.g.members == 1 {
			return t.scope(fn, "", `ROLLBACK`, `BEGIN IMMEDIATE`)
		}
		return t.Atomically(ctx, fn)
	})
}

// Atomically undoes what fn did, and only that, if fn fails.
func (t *tx) Atomically(_ context.Context, fn func(platform.Store) error) error {
	if _, err := t.exec(`SAVEPOINT call`); err != nil {
		return err
	}
	return t.scope(fn, `RELEASE call`, `ROLLBACK TO call`, `RELEASE call`)
}

// scope runs fn on a view of its own, then the statement keep, or those of undo if
// fn failed. The first member of a group has nothing to spare: it needs no
// savepoint, so a lone call saves two statements.
func (t *tx) scope(fn func(platform.Store) error, keep string, undo ...string) (err error) {
	sent, acked, keys := len(t.g.sent), len(t.g.acked), len(t.g.keys)
	view := &tx{s: t.s, g: t.g}
	finished := false
	defer func() {
		view.over = true
		if t.g.ended || finished && err == nil {
			return
		}
		for _, e := range t.g.acked[acked:] {
			e.queue.restore(e)
		}
		t.g.sent, t.g.acked, t.g.keys = t.g.sent[:sent], t.g.acked[:acked], t.g.keys[:keys]
		for _, statement := range undo {
			if _, undoErr := t.exec(statement); undoErr != nil {
				err = errors.Join(err, fmt.Errorf("undoing: %w", undoErr))
				return
			}
		}
	}()
	err = fn(view)
	finished = true
	if err == nil && keep != "" {
		_, err = t.exec(keep)
	}
	return err
}
