package cli

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
)

func TestOnlyLoopbackNamesGetInWithoutTokens(t *testing.T) {
	for host, in := range map[string]bool{
		"127.0.0.1:8080": true, "localhost:8080": true, "[::1]:8080": true, "localhost": true, "127.0.0.1": true, "[::1]": true,
		"evil.example:8080": false, "evil.example": false, "10.0.0.1:8080": false, "": false, "127.0.0.1.evil.example": false,
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Host = host
		if _, err := localOnly(r); (err == nil) != in {
			t.Errorf("host %q: %v", host, err)
		}
	}
}

func TestWithoutTokensNoWebPageOfAnotherOriginChangesAnything(t *testing.T) {
	for name, c := range map[string]struct {
		method, header, value string
		in                    bool
	}{
		"a command line":                     {"POST", "Accept", "*/*", true},
		"a page from elsewhere":              {"POST", "Sec-Fetch-Site", "cross-site", false},
		"one in an old browser":              {"POST", "Origin", "https://evil.example", false},
		"a page of another port here":        {"DELETE", "Origin", "http://127.0.0.1:3000", false},
		"a page of ours":                     {"POST", "Origin", "http://127.0.0.1:8080", true},
		"what the browser lets no page read": {"GET", "Sec-Fetch-Site", "cross-site", true},
	} {
		r := httptest.NewRequest(c.method, "/v1/conversations/c1/runs/r1/cancel", nil)
		r.Host = "127.0.0.1:8080"
		r.Header.Set(c.header, c.value)
		if _, err := localOnly(r); (err == nil) != c.in {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTokensAreReadStrictly(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		ok   bool
	}{
		"two tenants and a comment":  {"# ours\n0123456789abcdef acme\n\nfedcba9876543210 other\n", true},
		"one of them an operator":    {"0123456789abcdef acme operator\nfedcba9876543210 other\n", true},
		"a role that is none":        {"0123456789abcdef acme admin\n", false},
		"a role too many":            {"0123456789abcdef acme operator operator\n", false},
		"a token that is too short":  {"secret acme\n", false},
		"a tenant that is no id":     {"0123456789abcdef a/b\n", false},
		"a token without its tenant": {"0123456789abcdef\n", false},
		"a token twice":              {"0123456789abcdef a\n0123456789abcdef b\n", false},
		"nothing":                    {"", false},
	} {
		file := filepath.Join(t.TempDir(), "tokens")
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		tokens, err := readTokens(file)
		if (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
		if !c.ok {
			continue
		}
		authenticate := bearer(tokens).authenticate
		for header, tenant := range map[string]string{
			"Bearer 0123456789abcdef": "acme", "bearer fedcba9876543210": "other",
			"Bearer wrong": "", "0123456789abcdef": "", "": "", "Basic 0123456789abcdef": "",
		} {
			r := httptest.NewRequest("GET", "/", nil)
			r.Header.Set("Authorization", header)
			if got, err := authenticate(r); got != tenant || (err == nil) != (tenant != "") {
				t.Errorf("%q: tenant %q, %v", header, got, err)
			}
		}
	}
}

func TestServeRefusesFlagsThatMeanNothing(t *testing.T) {
	good := serveFlags{listen: "127.0.0.1:8080", data: "x", lease: 1, maxRuns: 1, workers: 1}
	if err := good.check(); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*serveFlags){
		"no folder": func(f *serveFlags) { f.data = "" }, "no lease": func(f *serveFlags) { f.lease = 0 },
		"no cap": func(f *serveFlags) { f.maxRuns = 0 }, "no workers": func(f *serveFlags) { f.workers = 0 },
		"no port": func(f *serveFlags) { f.listen = "127.0.0.1" },
	} {
		f := good
		spoil(&f)
		if f.check() == nil {
			t.Errorf("%s: not refused", name)
		}
	}
}

func TestServeRefusesToListenElsewhereWithoutTokens(t *testing.T) {
	for _, address := range []string{"0.0.0.0:8080", ":8080", "192.168.1.1:80", "example.com:80"} {
		if _, err := authentication(serveFlags{listen: address}); err == nil {
			t.Errorf("listening on %s without tokens was allowed", address)
		}
	}
}
