package ledger

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/errand-dev/errand/shared/platform"
	"github.com/errand-dev/errand/shared/subagent"
)

// Sizes of values, in bytes: up to inlineValue in the row itself, so that the row
// stays under the platform's billing unit of 1 KB; up to itemValue in an item of its
// own; above that in a blob.
const (
	inlineValue = 200
	itemValue   = 200 << 10
	// MaxValue is the largest input, output or message.
	MaxValue = 16 << 20
)

// valueItem is a value in an item of its own, or tells that a blob is there: so that the
// blob goes with its conversation.
type valueItem struct {
	Text string `json:"text,omitempty"`
	Blob string `json:"blob,omitempty"`
}

// StoreValue keeps text where its size puts it. Storing the same text twice is
// storing it once.
func (l *Ledger) StoreValue(ctx context.Context, o subagent.Owner, text string) (subagent.Value, error) {
	v := subagent.Value{Size: len(text)}
	if len(text) <= inlineValue {
		v.Inline = text
		return v, nil
	}
	sum := sha256.Sum256([]byte(text))
	hash := hex.EncodeToString(sum[:])
	if len(text) <= itemValue {
		v.Item = hash
		_, _, err := create(ctx, l, valueKey(o, hash), valueItem{Text: text})
		return v, err
	}
	v.Blob = partition(o) + "/" + hash
	if _, _, err := create(ctx, l, valueKey(o, hash), valueItem{Blob: v.Blob}); err != nil {
		return v, err
	}
	if err := l.store.PutBlob(ctx, v.Blob, []byte(text)); err != nil {
		return v, fmt.Errorf("storing a value of %d bytes: %w", len(text), failed(err))
	}
	return v, nil
}

// LoadValue returns the text of v.
func (l *Ledger) LoadValue(ctx context.Context, o subagent.Owner, v subagent.Value) (string, error) {
	switch {
	case v.Item != "":
		r, err := load[valueItem](ctx, l, valueKey(o, v.Item))
		if err == nil && r.version == 0 {
			err = fmt.Errorf("value %s of %s is gone", v.Item, partition(o))
		}
		return r.value.Text, err
	case v.Blob != "":
		data, err := l.store.GetBlob(ctx, v.Blob)
		if err != nil {
			return "", fmt.Errorf("loading a value of %d bytes: %w", v.Size, failed(err))
		}
		return string(data), nil
	}
	return v.Inline, nil
}

// eraseValue deletes a value's item, after its blob if it has one.
func (l *Ledger) eraseValue(ctx context.Context, item platform.Item) error {
	r, err := decode[valueItem](item)
	if err != nil {
		return err
	}
	if r.value.Blob != "" {
		if err := l.store.DeleteBlob(ctx, r.value.Blob); err != nil {
			return err
		}
	}
	return l.store.Delete(ctx, item.Key, 0)
}
