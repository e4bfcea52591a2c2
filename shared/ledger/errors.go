package ledger

import (
	"errors"

	"github.com/errand-dev/errand/shared/platform"
)

// storeError marks a failure of the platform.
type storeError struct{ error }

func (e *storeError) Unwrap() error { return e.error }

// failed marks an error of the store, unless it will be the same every time.
func failed(err error) error {
	if errors.Is(err, platform.ErrTooLarge) || errors.Is(err, platform.ErrNoBlob) {
		return err
	}
	return &storeError{err}
}

// IsTransient reports whether err is a failure of the platform, or contention: whoever
// was in the middle of something tries again later.
func IsTransient(err error) bool {
	return errors.As(err, new(*storeError)) || errors.Is(err, ErrContended)
}
