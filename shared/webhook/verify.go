package webhook

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// Tolerance is how far a message's timestamp may lie from the receiver's clock.
const Tolerance = 5 * time.Minute

// Verify tells a receiver whether a message comes from somebody who has the secret, is
// unchanged, and was sent within Tolerance of now. body is what came in, byte for byte.
//
// Errors wrap those of the Standard Webhooks library: ErrRequiredHeaders,
// ErrInvalidHeaders, ErrNoMatchingSignature, ErrMessageTooOld, ErrMessageTooNew. Answer
// 401 to them, and deduplicate what is verified by its webhook-id.
func Verify(secret string, header http.Header, body []byte, now time.Time) error {
	key, err := keyOf(secret)
	if err != nil {
		return fmt.Errorf("verifying a webhook: %w", err)
	}
	// The library's own check of the time asks the system's clock.
	if err := key.VerifyIgnoringTimestamp(body, header); err != nil {
		return fmt.Errorf("verifying a webhook: %w", err)
	}
	seconds, err := strconv.ParseInt(header.Get(standardwebhooks.HeaderWebhookTimestamp), 10, 64)
	if err != nil {
		return fmt.Errorf("verifying a webhook: %w", standardwebhooks.ErrInvalidHeaders)
	}
	switch age := now.Sub(time.Unix(seconds, 0)); {
	case age > Tolerance:
		return fmt.Errorf("verifying a webhook: %w", standardwebhooks.ErrMessageTooOld)
	case age < -Tolerance:
		return fmt.Errorf("verifying a webhook: %w", standardwebhooks.ErrMessageTooNew)
	}
	return nil
}

const (
	secretPrefix = "whsec_"
	leastSecret  = 24 // bytes, says the specification
)

// keyOf reads a secret. The library would take an empty one, which signs nothing. The
// error does not repeat it.
func keyOf(secret string) (*standardwebhooks.Webhook, error) {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, secretPrefix))
	if err != nil || len(key) < leastSecret {
		return nil, errors.New(`a secret is "whsec_" and at least 24 random bytes in base64; make one with: echo whsec_$(openssl rand -base64 32)`)
	}
	return standardwebhooks.NewWebhookRaw(key)
}
