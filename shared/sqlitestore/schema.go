package sqlitestore

import (
	"database/sql/driver"
	"fmt"
)

// schemaVersion is kept in the file's user_version. A change of the schema below
// raises it and adds a step to migrate.
const schemaVersion = 1

// Times are Unix milliseconds. A message's id is its place in the queue.
const schema = `
CREATE TABLE items (
	partition TEXT NOT NULL,
	sort      TEXT NOT NULL,
	version   INTEGER NOT NULL,
	body      BLOB NOT NULL,
	expires   INTEGER,
	PRIMARY KEY (partition, sort)
);
CREATE INDEX items_expires ON items (expires) WHERE expires IS NOT NULL;

CREATE TABLE messages (
	id         INTEGER PRIMARY KEY,
	queue      TEXT NOT NULL,
	grp        TEXT NOT NULL,
	dedup      TEXT NOT NULL,
	body       BLOB NOT NULL,
	sent       INTEGER NOT NULL,
	not_before INTEGER NOT NULL,
	receives   INTEGER NOT NULL DEFAULT 0,
	dead       INTEGER
);
CREATE INDEX messages_dead ON messages (queue, dead, id) WHERE dead IS NOT NULL;

CREATE TABLE dedups (
	queue   TEXT NOT NULL,
	dedup   TEXT NOT NULL,
	expires INTEGER NOT NULL,
	PRIMARY KEY (queue, dedup)
) WITHOUT ROWID;
CREATE INDEX dedups_expires ON dedups (expires);

CREATE TABLE blobs (
	name TEXT PRIMARY KEY,
	data BLOB NOT NULL
);

PRAGMA user_version = 1;
`

// SchemaError is returned by Open for a file that a newer program has written.
type SchemaError struct {
	Path        string
	Found, Know int
}

func (e *SchemaError) Error() string {
	return fmt.Sprintf("%s has schema version %d, this program knows only %d: use a newer program or another folder", e.Path, e.Found, e.Know)
}

// migrate brings the file to schemaVersion in one transaction.
func migrate(c *conn, path string) error {
	found := 0
	err := c.query(func(v []driver.Value) { found = int(v[0].(int64)) }, `PRAGMA user_version`)
	if err != nil {
		return fmt.Errorf("reading the schema version of %s: %w", path, err)
	}
	switch {
	case found > schemaVersion:
		return &SchemaError{Path: path, Found: found, Know: schemaVersion}
	case found == schemaVersion:
		return nil
	}
	if err := c.script("BEGIN IMMEDIATE;" + schema + "COMMIT;"); err != nil {
		return fmt.Errorf("creating the schema of %s: %w", path, err)
	}
	return nil
}
