package sqlitestore

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net/url"

	"modernc.org/sqlite"
)

// conn is one SQLite connection with its prepared statements, for one goroutine
// at a time. It uses the driver without database/sql, whose pool, locks and
// conversions cost more than the statements here do.
type conn struct {
	raw   driver.Conn
	stmts map[string]driver.Stmt
	args  []driver.NamedValue
	row   []driver.Value
}

// openConn opens the file with the given pragmas, such as "synchronous(FULL)".
func openConn(path string, pragmas ...string) (*conn, error) {
	name := url.URL{Scheme: "file", Path: path, RawQuery: url.Values{"_pragma": pragmas}.Encode()}
	raw, err := (&sqlite.Driver{}).Open(name.String())
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", path, err)
	}
	return &conn{raw: raw, stmts: make(map[string]driver.Stmt)}, nil
}

// exec runs a statement and returns how many rows it changed. It is never
// interrupted half-way, so it takes no context.
func (c *conn) exec(query string, args ...any) (changed int64, err error) {
	stmt, err := c.prepare(query)
	if err != nil {
		return 0, err
	}
	result, err := stmt.(driver.StmtExecContext).ExecContext(context.Background(), c.bind(args))
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// query calls row for each row found. The values are valid during the call only;
// byte slices and strings in them may be kept.
func (c *conn) query(row func([]driver.Value), query string, args ...any) error {
	stmt, err := c.prepare(query)
	if err != nil {
		return err
	}
	rows, err := stmt.(driver.StmtQueryContext).QueryContext(context.Background(), c.bind(args))
	if err != nil {
		return err
	}
	values := c.values(len(rows.Columns()))
	for err == nil {
		if err = rows.Next(values); err == nil {
			row(values)
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return errors.Join(err, rows.Close())
}

// script runs statements that are used once.
func (c *conn) script(text string) error {
	_, err := c.raw.(driver.ExecerContext).ExecContext(context.Background(), text, nil)
	return err
}

func (c *conn) prepare(query string) (driver.Stmt, error) {
	if stmt, ok := c.stmts[query]; ok {
		return stmt, nil
	}
	stmt, err := c.raw.Prepare(query)
	if err != nil {
		return nil, err
	}
	c.stmts[query] = stmt
	return stmt, nil
}

func (c *conn) bind(args []any) []driver.NamedValue {
	c.args = c.args[:0]
	for i, arg := range args {
		c.args = append(c.args, driver.NamedValue{Ordinal: i + 1, Value: arg})
	}
	return c.args
}

func (c *conn) values(n int) []driver.Value {
	for len(c.row) < n {
		c.row = append(c.row, nil)
	}
	return c.row[:n]
}

func (c *conn) close() error {
	var errs []error
	for _, stmt := range c.stmts {
		errs = append(errs, stmt.Close())
	}
	return errors.Join(append(errs, c.raw.Close())...)
}
