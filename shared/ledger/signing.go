package ledger

import (
	"context"
	"crypto/rand"
)

// signing is the key by which the deployment knows its own callback tokens.
type signing struct {
	Key []byte `json:"key"`
}

const signingKeyBytes = 32

// SigningKey returns the deployment's key for callback tokens. The first call of any process
// makes it. Whoever deletes its item makes all tokens void that are under way.
func (l *Ledger) SigningKey(ctx context.Context) ([]byte, error) {
	r, err := load[signing](ctx, l, signingKey())
	if err != nil || len(r.value.Key) > 0 {
		return r.value.Key, err
	}
	fresh := signing{make([]byte, signingKeyBytes)}
	_, _ = rand.Read(fresh.Key) // never fails (crypto/rand)
	stored, _, err := create(ctx, l, signingKey(), fresh)
	return stored.Key, err
}
