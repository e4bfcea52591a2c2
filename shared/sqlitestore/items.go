package sqlitestore

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"

	"github.com/errand-dev/errand/shared/platform"
)

// defaultLimit is platform.Items.List's.
const defaultLimit = 1000

// Get returns the item, or one with version 0.
func (s *Store) Get(ctx context.Context, key platform.Key) (item platform.Item, err error) {
	err = s.read(ctx, func(c *conn) error {
		item, err = getItem(c, key)
		return err
	})
	return item, err
}

// GetMany returns one item per key, in order.
func (s *Store) GetMany(ctx context.Context, keys []platform.Key) (items []platform.Item, err error) {
	err = s.read(ctx, func(c *conn) error {
		items, err = getItems(c, keys)
		return err
	})
	return items, err
}

// List returns a range of one partition.
func (s *Store) List(ctx context.Context, q platform.Query) (items []platform.Item, err error) {
	err = s.read(ctx, func(c *conn) error {
		items, err = listItems(c, q)
		return err
	})
	return items, err
}

// Put writes the item if the stored version is one less than the item's.
func (s *Store) Put(ctx context.Context, item platform.Item) error {
	return s.write(ctx, func(t *tx) error { return t.Put(ctx, item) })
}

// Delete removes the item if it has this version.
func (s *Store) Delete(ctx context.Context, key platform.Key, version int64) error {
	return s.write(ctx, func(t *tx) error { return t.Delete(ctx, key, version) })
}

// Get sees the writes of the transaction.
func (t *tx) Get(_ context.Context, key platform.Key) (item platform.Item, err error) {
	err = t.run(func(c *conn) error {
		item, err = getItem(c, key)
		return err
	})
	return item, err
}

// GetMany sees the writes of the transaction.
func (t *tx) GetMany(_ context.Context, keys []platform.Key) (items []platform.Item, err error) {
	err = t.run(func(c *conn) error {
		items, err = getItems(c, keys)
		return err
	})
	return items, err
}

// List sees the writes of the transaction.
func (t *tx) List(_ context.Context, q platform.Query) (items []platform.Item, err error) {
	err = t.run(func(c *conn) error {
		items, err = listItems(c, q)
		return err
	})
	return items, err
}

// Put writes the item under its version condition.
func (t *tx) Put(ctx context.Context, item platform.Item) error {
	if len(item.Body) > platform.MaxBody {
		return fmt.Errorf("putting item %q %q: %d bytes: %w", item.Key.Partition, item.Key.Sort, len(item.Body), platform.ErrTooLarge)
	}
	if item.Version < 1 {
		return fmt.Errorf("putting item %q %q: version %d is not positive", item.Key.Partition, item.Key.Sort, item.Version)
	}
	var changed int64
	var err error
	if item.Version == 1 {
		changed, err = t.exec(`INSERT INTO items (partition, sort, version, body, expires) VALUES (?, ?, 1, ?, ?) ON CONFLICT DO NOTHING`,
			item.Key.Partition, item.Key.Sort, notNil(item.Body), millisOrNull(item.Expires))
	} else {
		changed, err = t.exec(`UPDATE items SET version = ?, body = ?, expires = ? WHERE partition = ? AND sort = ? AND version = ?`,
			item.Version, notNil(item.Body), millisOrNull(item.Expires), item.Key.Partition, item.Key.Sort, item.Version-1)
	}
	if err != nil {
		return fmt.Errorf("putting item %q %q: %w", item.Key.Partition, item.Key.Sort, err)
	}
	return t.wrote(ctx, item.Key, changed)
}

// Delete removes the item under its version condition.
func (t *tx) Delete(ctx context.Context, key platform.Key, version int64) error {
	changed, err := t.exec(`DELETE FROM items WHERE partition = ?1 AND sort = ?2 AND (?3 = 0 OR version = ?3)`, key.Partition, key.Sort, version)
	if err != nil {
		return fmt.Errorf("deleting item %q %q: %w", key.Partition, key.Sort, err)
	}
	err = t.wrote(ctx, key, changed)
	if conflict, ok := errors.AsType[*platform.ConflictError](err); ok && !conflict.Stored.Exists() {
		return nil
	}
	return err
}

// wrote notes a change of key, or finds out why there was none.
func (t *tx) wrote(ctx context.Context, key platform.Key, changed int64) error {
	if changed > 0 {
		t.g.keys = append(t.g.keys, key)
		return nil
	}
	stored, err := t.Get(ctx, key)
	if err != nil {
		return err
	}
	return &platform.ConflictError{Stored: stored}
}

func getItem(c *conn, key platform.Key) (platform.Item, error) {
	item := platform.Item{Key: key}
	err := c.query(func(v []driver.Value) {
		item.Version, item.Body, item.Expires = v[0].(int64), bytesOf(v[1]), timeOf(v[2])
	}, `SELECT version, body, expires FROM items WHERE partition = ? AND sort = ?`, key.Partition, key.Sort)
	if err != nil {
		return platform.Item{}, fmt.Errorf("getting item %q %q: %w", key.Partition, key.Sort, err)
	}
	return item, nil
}

func getItems(c *conn, keys []platform.Key) ([]platform.Item, error) {
	items := make([]platform.Item, len(keys))
	for i, key := range keys {
		var err error
		if items[i], err = getItem(c, key); err != nil {
			return nil, err
		}
	}
	return items, nil
}

func listItems(c *conn, q platform.Query) ([]platform.Item, error) {
	from, to := q.Prefix, prefixEnd(q.Prefix)
	order := `ASC`
	switch {
	case q.After == "":
	case q.Descending:
		to = min(to, q.After)
	default:
		from = max(from, q.After+"\x00")
	}
	if q.Descending {
		order = `DESC`
	}
	limit := q.Limit
	if limit <= 0 {
		limit = defaultLimit
	}
	var items []platform.Item
	err := c.query(func(v []driver.Value) {
		key := platform.Key{Partition: q.Partition, Sort: textOf(v[0])}
		items = append(items, platform.Item{Key: key, Version: v[1].(int64), Body: bytesOf(v[2]), Expires: timeOf(v[3])})
	}, `SELECT sort, version, body, expires FROM items WHERE partition = ? AND sort >= ? AND sort < ? ORDER BY sort `+order+` LIMIT ?`,
		q.Partition, from, to, int64(limit))
	if err != nil {
		return nil, fmt.Errorf("listing %q %q: %w", q.Partition, q.Prefix, err)
	}
	return items, nil
}

// prefixEnd is the smallest string above all that begin with prefix. Keys are UTF-8,
// which has no byte 0xff, so the last byte of a prefix can be raised.
func prefixEnd(prefix string) string {
	if prefix == "" {
		return "\xff"
	}
	last := len(prefix) - 1
	return prefix[:last] + string([]byte{prefix[last] + 1})
}

func millisOrNull(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return ceilMillis(t)
}

// ceilMillis rounds up, so that nothing happens before its time.
func ceilMillis(t time.Time) int64 {
	return t.Add(time.Millisecond - time.Nanosecond).UnixMilli()
}

func timeOf(v driver.Value) time.Time {
	if v == nil {
		return time.Time{}
	}
	return time.UnixMilli(v.(int64)).UTC()
}

func textOf(v driver.Value) string {
	text, _ := v.(string)
	return text
}

// bytesOf undoes the driver's habit of giving nil for an empty blob.
func bytesOf(v driver.Value) []byte {
	data, _ := v.([]byte)
	return notNil(data)
}

func notNil(data []byte) []byte {
	if data == nil {
		return []byte{}
	}
	return data
}
