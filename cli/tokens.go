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

// credential is what a token stands for.
type credential struct {
	tenant   string
	operator bool
}

// gate tells who asks, and whether that is an operator. A nil operator is everybody.
type gate struct {
	authenticate func(*http.Request) (tenant string, err error)
	operator     func(*http.Request) bool
}

// bearer is the gate of bearer tokens. It looks up a hash, so the time that takes tells
// nothing of the tokens.
func bearer(tokens map[string]credential) gate {
	known := make(map[[sha256.Size]byte]credential, len(tokens))
	for token, c := range tokens {
		known[sha256.Sum256([]byte(token))] = c
	}
	find := func(r *http.Request) (credential, bool) {
		scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		c, ok := known[sha256.Sum256([]byte(strings.TrimSpace(token)))]
		return c, ok && strings.EqualFold(scheme, "Bearer")
	}
	return gate{
		authenticate: func(r *http.Request) (string, error) {
			c, ok := find(r)
			if !ok {
				return "", errNoToken
			}
			return c.tenant, nil
		},
		operator: func(r *http.Request) bool {
			c, ok := find(r)
			return ok && c.operator
		},
	}
}

// operatorRole, behind the tenant, makes the bearer of a token an operator.
const operatorRole = "operator"

// readTokens reads a file of 'TOKEN TENANT' or 'TOKEN TENANT operator' lines; '#' begins a
// comment.
func readTokens(name string) (map[string]credential, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("reading the tokens: %w", err)
	}
	defer file.Close()
	tokens := map[string]credential{}
	lines := bufio.NewScanner(file)
	for n := 1; lines.Scan(); n++ {
		fields := strings.Fields(strings.TrimPrefix(lines.Text(), "\ufeff"))
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		const shortest = 16
		switch {
		case len(fields) != 2 && (len(fields) != 3 || fields[2] != operatorRole):
			return nil, fmt.Errorf("%s line %d: want 'TOKEN TENANT' or 'TOKEN TENANT operator'", name, n)
		case len(fields[0]) < shortest:
			return nil, fmt.Errorf("%s line %d: the token has fewer than %d characters", name, n, shortest)
		case tokens[fields[0]].tenant != "":
			return nil, fmt.Errorf("%s line %d: this token is there already", name, n)
		}
		if err := subagent.CheckID(fields[1]); err != nil {
			return nil, fmt.Errorf("%s line %d: tenant %q: %w", name, n, fields[1], err)
		}
		tokens[fields[0]] = credential{tenant: fields[1], operator: len(fields) == 3}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("reading the tokens: %w", err)
	}
	if len(tokens) == 0 {
		return nil, errors.New(name + " has no tokens; give one 'TOKEN TENANT' a line")
	}
	return tokens, nil
}
