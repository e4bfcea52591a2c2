package cli

import (
	"bufio"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/errand-dev/errand/shared/subagent"
)

var errNoToken = errors.New("no valid bearer token")

// bearer finds the tenant of a request by its bearer token. It looks up a hash, so the
// time that takes tells nothing of the tokens.
func bearer(tokens map[string]string) func(*http.Request) (string, error) {
	tenants := make(map[[sha256.Size]byte]string, len(tokens))
	for token, tenant := range tokens {
		tenants[sha256.Sum256([]byte(token))] = tenant
	}
	return func(r *http.Request) (string, error) {
		scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		tenant, ok := tenants[sha256.Sum256([]byte(strings.TrimSpace(token)))]
		if !ok || !strings.EqualFold(scheme, "Bearer") {
			return "", errNoToken
		}
		return tenant, nil
	}
}

// readTokens reads a file of 'TOKEN TENANT' lines; '#' begins a comment.
func readTokens(name string) (map[string]string, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("reading the tokens: %w", err)
	}
	defer file.Close()
	tokens := map[string]string{}
	lines := bufio.NewScanner(file)
	for n := 1; lines.Scan(); n++ {
		fields := strings.Fields(strings.TrimPrefix(lines.Text(), "\ufeff"))
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		const shortest = 16
		switch {
		case len(fields) != 2:
			return nil, fmt.Errorf("%s line %d: want 'TOKEN TENANT'", name, n)
		case len(fields[0]) < shortest:
			return nil, fmt.Errorf("%s line %d: the token has fewer than %d characters", name, n, shortest)
		case tokens[fields[0]] != "":
			return nil, fmt.Errorf("%s line %d: this token is there already", name, n)
		}
		if err := subagent.CheckID(fields[1]); err != nil {
			return nil, fmt.Errorf("%s line %d: tenant %q: %w", name, n, fields[1], err)
		}
		tokens[fields[0]] = fields[1]
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("reading the tokens: %w", err)
	}
	if len(tokens) == 0 {
		return nil, errors.New(name + " has no tokens; give one 'TOKEN TENANT' a line")
	}
	return tokens, nil
}
