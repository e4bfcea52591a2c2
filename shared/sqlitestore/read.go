package sqlitestore

import (
	"context"
)

// read lends fn a connection that sees all that was committed so far.
func (s *Store) read(ctx context.Context, fn func(*conn) error) (err error) {
	var c *conn
	select {
	case <-s.closing:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	case c = <-s.readers:
	}
	defer func() { s.readers <- c }()
	select {
	case <-s.closing:
		return ErrClosed
	default:
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if c == nil {
		if c, err = openConn(s.path, "busy_timeout(5000)", "query_only(1)"); err != nil {
			return err
		}
	}
	return fn(c)
}
