package main

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"strings"
	"time"
)

// audience is whom the tokens are for.
const audience = "errand"

// issuer signs tokens, for anybody who asks: for tests on this machine. It serves what an
// authorizer needs to check them.
type issuer struct {
	*http.ServeMux
	url string
	key *rsa.PrivateKey
}

const keyID = "only"

func newIssuer(url string) (*issuer, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, fmt.Errorf("making the issuer's key: %w", err)
	}
	i := &issuer{http.NewServeMux(), url, key}
	i.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]any{"issuer": url, "jwks_uri": url + "/keys", "id_token_signing_alg_values_supported": []string{"RS256"}})
	})
	i.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]any{"keys": []any{map[string]string{
			"kty": "RSA", "alg": "RS256", "use": "sig", "kid": keyID,
			"n": encode(key.N.Bytes()), "e": encode(big.NewInt(int64(key.E)).Bytes()),
		}}})
	})
	i.HandleFunc("GET /token", func(w http.ResponseWriter, r *http.Request) {
		token, err := i.token(r.FormValue("tenant"), time.Now(), r.Form["scope"]...)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		fmt.Fprint(w, token)
	})
	return i, nil
}

func answer(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value)
}

func encode(data []byte) string { return base64.RawURLEncoding.EncodeToString(data) }

// token returns a token of the tenant with the scopes, valid for a day.
func (i *issuer) token(tenant string, now time.Time, scopes ...string) (string, error) {
	header, err := json.Marshal(map[string]string{"alg": "RS256", "typ": "JWT", "kid": keyID})
	if err != nil {
		return "", err
	}
	claims, err := json.Marshal(map[string]any{
		"iss": i.url, "aud": audience, "sub": "user-of-" + tenant, "tenant": tenant,
		"scope": strings.Join(scopes, " "), "iat": now.Unix(), "exp": now.Add(24 * time.Hour).Unix(),
	})
	if err != nil {
		return "", err
	}
	signed := encode(header) + "." + encode(claims)
	sum := sha256.Sum256([]byte(signed))
	signature, err := rsa.SignPKCS1v15(rand.Reader, i.key, crypto.SHA256, sum[:])
	if err != nil {
		return "", err
	}
	return signed + "." + encode(signature), nil
}

var errNoToken = errors.New("no valid token")

// verify returns the texts among the claims of a token that this issuer signed and that has
// not expired, as an authorizer does.
func (i *issuer) verify(token string, now time.Time) (map[string]string, error) {
	signed, signature := token[:max(0, strings.LastIndex(token, "."))], token[strings.LastIndex(token, ".")+1:]
	_, encoded, _ := strings.Cut(signed, ".")
	given, err := base64.RawURLEncoding.DecodeString(signature)
	payload, broken := base64.RawURLEncoding.DecodeString(encoded)
	sum := sha256.Sum256([]byte(signed))
	if err != nil || broken != nil || rsa.VerifyPKCS1v15(&i.key.PublicKey, crypto.SHA256, sum[:], given) != nil {
		return nil, errNoToken
	}
	var claims map[string]any
	if err := json.Unmarshal(payload, &claims); err != nil {
		return nil, errNoToken
	}
	if expiry, ok := claims["exp"].(float64); !ok || float64(now.Unix()) >= expiry {
		return nil, errNoToken
	}
	texts := map[string]string{}
	for name, value := range claims {
		if text, ok := value.(string); ok {
			texts[name] = text
		}
	}
	return texts, nil
}
