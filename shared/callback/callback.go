// Package callback makes the tokens by which somebody outside, who has no other
// credential, ends one wait of one run or turn, or reports its progress. A token names what
// it is for and is signed with the deployment's own key: it serves nothing else, nobody can
// guess one, and none is stored.
package callback

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/errand-dev/errand/shared/ledger"
	"github.com/errand-dev/errand/shared/subagent"
)

// Target is what a token is for.
type Target struct {
	Owner subagent.Owner `json:"o"`
	// Run or Turn is set. Life tells it from another one that had its id before.
	Run  string `json:"r,omitempty"`
	Turn string `json:"u,omitempty"`
	Life int64  `json:"l"`
	// Key is that of the wait.
	Key string `json:"k"`
}

// ErrToken is returned for a token that this deployment did not make.
var ErrToken = errors.New("no such callback")

// Signer makes and opens tokens. Its key is read from the ledger, where the first use of any
// process has put it, and kept.
type Signer struct {
	Ledger *ledger.Ledger

	mu  sync.Mutex
	key []byte
}

// Token returns the token of a target: the same each time.
func (s *Signer) Token(ctx context.Context, t Target) (string, error) {
	body, err := json.Marshal(t)
	if err != nil {
		return "", fmt.Errorf("encoding a callback: %w", err)
	}
	sum, err := s.sum(ctx, body)
	return encode(body) + "." + encode(sum), err
}

// Open returns what the token is for. Errors: ErrToken.
func (s *Signer) Open(ctx context.Context, token string) (Target, error) {
	var t Target
	first, second, _ := strings.Cut(token, ".")
	body, err1 := base64.RawURLEncoding.DecodeString(first)
	given, err2 := base64.RawURLEncoding.DecodeString(second)
	if err1 != nil || err2 != nil || len(given) == 0 {
		return t, ErrToken
	}
	sum, err := s.sum(ctx, body)
	if err != nil {
		return t, err
	}
	if !hmac.Equal(sum, given) || json.Unmarshal(body, &t) != nil {
		return Target{}, ErrToken
	}
	return t, nil
}

func (s *Signer) sum(ctx context.Context, body []byte) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.key == nil {
		key, err := s.Ledger.SigningKey(ctx)
		if err != nil {
			return nil, err
		}
		s.key = key
	}
	mac := hmac.New(sha256.New, s.key)
	mac.Write(body)
	return mac.Sum(nil), nil
}

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }
