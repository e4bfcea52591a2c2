package sqlitestore

import (
	"context"
	"database/sql/driver"
	"fmt"

	"github.com/errand-dev/errand/shared/platform"
)

// PutBlob stores data under the name. A blob that is there already stays.
func (s *Store) PutBlob(ctx context.Context, name string, data []byte) error {
	return s.write(ctx, func(t *tx) error { return t.PutBlob(ctx, name, data) })
}

// GetBlob returns platform.ErrNoBlob if there is none.
func (s *Store) GetBlob(ctx context.Context, name string) (data []byte, err error) {
	err = s.read(ctx, func(c *conn) error {
		data, err = getBlob(c, name)
		return err
	})
	return foundBlob(name, data, err)
}

// DeleteBlob succeeds if there is none.
func (s *Store) DeleteBlob(ctx context.Context, name string) error {
	return s.write(ctx, func(t *tx) error { return t.DeleteBlob(ctx, name) })
}

// PutBlob is part of the transaction.
func (t *tx) PutBlob(_ context.Context, name string, data []byte) error {
	if _, err := t.exec(`INSERT INTO blobs (name, data) VALUES (?, ?) ON CONFLICT DO NOTHING`, name, notNil(data)); err != nil {
		return fmt.Errorf("putting blob %q: %w", name, err)
	}
	return nil
}

// GetBlob sees the writes of the transaction.
func (t *tx) GetBlob(_ context.Context, name string) (data []byte, err error) {
	err = t.run(func(c *conn) error {
		data, err = getBlob(c, name)
		return err
	})
	return foundBlob(name, data, err)
}

// DeleteBlob is part of the transaction.
func (t *tx) DeleteBlob(_ context.Context, name string) error {
	if _, err := t.exec(`DELETE FROM blobs WHERE name = ?`, name); err != nil {
		return fmt.Errorf("deleting blob %q: %w", name, err)
	}
	return nil
}

// getBlob returns nil if there is none. That is no error here, for an error would
// end the transaction that asks.
func getBlob(c *conn, name string) (data []byte, err error) {
	err = c.query(func(v []driver.Value) { data = bytesOf(v[0]) }, `SELECT data FROM blobs WHERE name = ?`, name)
	return data, err
}

func foundBlob(name string, data []byte, err error) ([]byte, error) {
	switch {
	case err != nil:
		return nil, fmt.Errorf("getting blob %q: %w", name, err)
	case data == nil:
		return nil, fmt.Errorf("getting blob %q: %w", name, platform.ErrNoBlob)
	}
	return data, nil
}
