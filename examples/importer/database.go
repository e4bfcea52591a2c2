package importer

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"

	_ "modernc.org/sqlite" // the driver "sqlite"
)

// database is the target file, used through one connection.
type database struct{ *sql.DB }

func openDatabase(path string) (database, error) {
	if path == "" {
		return database{}, problem(ErrDatabase, "no database to import into was named")
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return database{}, fmt.Errorf("resolving the path of the database: %w", err)
	}
	// As a URI, so that a '?' or '%' in the path is only a character.
	uri := url.URL{Scheme: "file", Path: abs, RawQuery: "_pragma=busy_timeout(10000)&_txlock=immediate"}
	db, err := sql.Open("sqlite", uri.String())
	if err != nil {
		return database{}, databaseProblem(path, err)
	}
	db.SetMaxOpenConns(1)
	return database{db}, nil
}

func rejectedTable(table string) string { return table + "_rejected" }

// stagingPrefix begins the names of the tables that imports of table are filling.
func stagingPrefix(table string) string { return table + "__importing_" }

func quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// staging is the pair of tables that one pass fills. Its name is never used again:
// a second import of the same table, say by a retry while the first still runs,
// drops it, and then the first fails instead of mixing its rows in.
type staging struct {
	db     database
	schema Schema
	name   string

	tx     *sql.Tx
	insert *sql.Stmt
	// dropped says that we dropped the tables ourselves.
	dropped bool
}

// newStaging creates the tables, and drops those that crashed imports left.
func (db database) newStaging(ctx context.Context, schema Schema) (*staging, error) {
	s := &staging{db: db, schema: schema, name: stagingPrefix(schema.Table) + rand.Text()}
	columns := make([]string, len(schema.Columns))
	for i, c := range schema.Columns {
		columns[i] = quote(c.Name) + " " + string(c.Type)
	}
	return s, db.inTx(ctx, func(tx *sql.Tx) error {
		if err := dropStaging(ctx, tx, stagingPrefix(schema.Table)); err != nil {
			return err
		}
		for _, create := range []string{
			"CREATE TABLE " + quote(s.name) + " (" + strings.Join(columns, ", ") + ")",
			"CREATE TABLE " + quote(rejectedTable(s.name)) + " (line INTEGER, reason TEXT, row TEXT)",
		} {
			if _, err := tx.ExecContext(ctx, create); err != nil {
				return fmt.Errorf("creating the staging table: %w", err)
			}
		}
		return nil
	})
}

func (db database) inTx(ctx context.Context, fn func(*sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := fn(tx); err != nil {
		tx.Rollback()
		return err
	}
	return tx.Commit()
}

func dropStaging(ctx context.Context, tx *sql.Tx, prefix string) error {
	rows, err := tx.QueryContext(ctx, "SELECT name FROM sqlite_master WHERE type = 'table' AND substr(name, 1, length(?1)) = ?1", prefix)
	if err != nil {
		return err
	}
	defer rows.Close()
	var names []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return err
		}
		names = append(names, name)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	for _, name := range names {
		if _, err := tx.ExecContext(ctx, "DROP TABLE "+quote(name)); err != nil {
			return err
		}
	}
	return nil
}

// begin starts a batch unless one is under way.
func (s *staging) begin(ctx context.Context) error {
	if s.tx != nil {
		return nil
	}
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	marks := strings.TrimSuffix(strings.Repeat("?, ", len(s.schema.Columns)), ", ")
	s.insert, err = tx.PrepareContext(ctx, "INSERT INTO "+quote(s.name)+" VALUES ("+marks+")")
	if err != nil {
		tx.Rollback()
		return err
	}
	s.tx = tx
	return nil
}

func (s *staging) add(ctx context.Context, values []any) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	_, err := s.insert.ExecContext(ctx, values...)
	return err
}

// reject keeps a row that cannot be stored, as a JSON array if it was readable.
func (s *staging) reject(ctx context.Context, rec record) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	var row any
	if rec.values != nil {
		text, err := json.Marshal(rec.values)
		if err != nil {
			return err
		}
		row = string(text)
	}
	_, err := s.tx.ExecContext(ctx, "INSERT INTO "+quote(rejectedTable(s.name))+" VALUES (?, ?, ?)", rec.line, rec.reject, row)
	return err
}

func (s *staging) commit() error {
	if s.tx == nil {
		return nil
	}
	tx := s.tx
	s.tx = nil
	return tx.Commit()
}

func (s *staging) rollback() {
	if s.tx != nil {
		s.tx.Rollback()
		s.tx = nil
	}
}

// discard drops the tables.
func (s *staging) discard(ctx context.Context) error {
	s.rollback()
	s.dropped = true
	return s.db.inTx(ctx, func(tx *sql.Tx) error { return dropStaging(ctx, tx, s.name) })
}

// exists reports whether the staging table is still there.
func (s *staging) exists(ctx context.Context) (bool, error) {
	var n int
	err := s.db.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_master WHERE name = ?", s.name).Scan(&n)
	return n > 0, err
}

// replace puts the staging table in the target's place, in one transaction.
func (s *staging) replace(ctx context.Context, rejected int64) error {
	table := s.schema.Table
	steps := []string{
		"DROP TABLE IF EXISTS " + quote(table),
		"DROP TABLE IF EXISTS " + quote(rejectedTable(table)),
		"ALTER TABLE " + quote(s.name) + " RENAME TO " + quote(table),
	}
	if rejected > 0 {
		steps = append(steps, "ALTER TABLE "+quote(rejectedTable(s.name))+" RENAME TO "+quote(rejectedTable(table)))
	} else {
		steps = append(steps, "DROP TABLE "+quote(rejectedTable(s.name)))
	}
	return s.db.inTx(ctx, func(tx *sql.Tx) error {
		for _, step := range steps {
			if _, err := tx.ExecContext(ctx, step); err != nil {
				return fmt.Errorf("replacing table %s: %w", table, err)
			}
		}
		return nil
	})
}
