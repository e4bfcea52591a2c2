package safehttp_test

import (
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/errand-dev/errand/shared/safehttp"
)

func TestARedirectIsJudgedLikeAnyRequest(t *testing.T) {
	base, reach := server(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, r.URL.Query().Get("to"), http.StatusFound)
	})
	c := client(t, reach)
	for to, want := range map[string]string{
		"http://169.254.169.254/latest/meta-data/": "address",
		"http://[::1]/":                         "address",
		"http://2130706433/":                    "host",
		"http://user:pw@127.0.0.1/":             "user information",
		"file:///etc/passwd":                    "scheme",
		base[:len("http://127.0.0.1")] + ":22/": "port",
	} {
		_, err := get(t, c, base+"/?to="+url.QueryEscape(to))
		refused(t, to, err, want)
	}
}

func TestRedirectsAreBounded(t *testing.T) {
	var made atomic.Int64
	base, reach := server(t, func(w http.ResponseWriter, r *http.Request) {
		made.Add(1)
		http.Redirect(w, r, "/", http.StatusFound)
	})
	for bound, want := range map[int]int64{0: 6, 2: 3, -1: 1} {
		made.Store(0)
		_, err := get(t, client(t, reach, func(o *safehttp.Options) { o.MaxRedirects = bound }), base)
		refused(t, "endless", err, "redirect")
		if made.Load() != want {
			t.Errorf("bound %d: %d requests, want %d", bound, made.Load(), want)
		}
	}
}

func TestRedirectsToAnotherOriginLoseTheHeadersOfTheCaller(t *testing.T) {
	var back string
	seen := make(chan http.Header, 10)
	note := func(w http.ResponseWriter, r *http.Request) bool {
		seen <- r.Header.Clone()
		return r.URL.Path == "/end"
	}
	other, reachOther := server(t, func(w http.ResponseWriter, r *http.Request) {
		if !note(w, r) {
			http.Redirect(w, r, back+"/end", http.StatusTemporaryRedirect)
		}
	})
	base, reach := server(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case note(w, r):
		case r.URL.Path == "/same":
			http.Redirect(w, r, "/end", http.StatusTemporaryRedirect)
		default:
			http.Redirect(w, r, other+"/back", http.StatusTemporaryRedirect)
		}
	})
	back = base
	c := client(t, reach, reachOther)
	for path, want := range map[string][]bool{"/same": {true, true}, "/away": {true, false, false}} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+path, strings.NewReader("body"))
		if err != nil {
			t.Fatal(err)
		}
		credentials := []string{"Authorization", "Cookie", "X-Api-Key"}
		for _, name := range credentials {
			r.Header.Set(name, "secret")
		}
		r.Header.Set("Accept", "text/plain")
		response, err := c.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		for hop, has := range want {
			header := <-seen
			for _, name := range credentials {
				if (header.Get(name) != "") != has {
					t.Errorf("%s, request %d: %s is %q", path, hop+1, name, header.Get(name))
				}
			}
			if header.Get("Accept") != "text/plain" {
				t.Errorf("%s, request %d: lost what is no secret", path, hop+1)
			}
		}
	}
}
