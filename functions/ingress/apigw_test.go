package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/google/go-cmp/cmp"
)

func recorded(t *testing.T, name string) event {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	var e event
	if err := json.Unmarshal(data, &e); err != nil {
		t.Fatal(err)
	}
	return e
}

// seen is what a handler sees of a request.
type seen struct{ Method, URI, Path, Query, Host, From, Cookie, ContentType, Key, Body, Tenant string }

func TestARecordedEventBecomesTheRequestThatWasMade(t *testing.T) {
	t.Parallel()
	const host = "abc123.execute-api.eu-west-1.amazonaws.com"
	for name, want := range map[string]seen{
		"get-jwt.json": {
			Method: "GET", URI: "/v1/conversations/c-1/events?after=7&wait_ms=20000&tag=a%26b", Path: "/v1/conversations/c-1/events",
			Query: "a&b", Host: host, From: "203.0.113.7", Cookie: "session=1; theme=dark", Tenant: "acme",
		},
		"post-emulator.json": {
			Method: "POST", URI: "/v1/conversations/c-1/turns", Path: "/v1/conversations/c-1/turns", Host: "abc123.execute-api.localhost",
			From: "127.0.0.1", Cookie: "session=1", ContentType: "application/json", Key: `"k-1"`, Body: `{"message":"import café.csv"}`, Tenant: "42",
		},
		"post-base64-iam.json": {
			Method: "POST", URI: "/v1/conversations/c%3A1/turns", Path: "/v1/conversations/c:1/turns", Host: host,
			From: "203.0.113.7", ContentType: "application/json", Body: `{"message":"hello"}`, Tenant: "iam:AROAEXAMPLE",
		},
		"get-anonymous.json": {Method: "GET", URI: "/healthz", Path: "/healthz", Host: host, From: "203.0.113.7"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got seen
			api := adapter{http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				if err != nil {
					t.Error(err)
				}
				tenant, err := authenticate(r)
				if (err == nil) != (want.Tenant != "") {
					t.Errorf("tenant %q: %v", tenant, err)
				}
				got = seen{r.Method, r.RequestURI, r.URL.Path, r.URL.Query().Get("tag"), r.Host, r.RemoteAddr,
					r.Header.Get("Cookie"), r.Header.Get("Content-Type"), r.Header.Get("Idempotency-Key"), string(body), tenant}
			})}
			if _, err := api.serve(t.Context(), recorded(t, name)); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestAWaitEndsBeforeTheInvocation(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		left time.Duration
		asks string
		want string
	}{
		{28 * time.Second, "20000", "20000"},
		{10*time.Second + 500*time.Millisecond, "20000", "8"},
		{time.Second, "20000", "0"},
		{10 * time.Second, "99000", "99000"}, // the handler refuses it
		{10 * time.Second, "soon", "soon"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), c.left)
		defer cancel()
		query := capWait(ctx, "after=7&wait_ms="+c.asks)
		if c.want == "8" {
			// Some of the 8.5 s have gone already.
			c.want = query[len("after=7&wait_ms="):]
			if c.want < "8000" || c.want > "8500" {
				t.Errorf("with 10.5 s left, the wait is %s ms", c.want)
			}
		}
		if query != "after=7&wait_ms="+c.want {
			t.Errorf("with %v left %s becomes %s", c.left, c.asks, query)
		}
	}
}

func TestAnAnswerBecomesTheEventsAnswer(t *testing.T) {
	t.Parallel()
	binary := []byte{0xff, 0x00, 0x80}
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		want    events.APIGatewayV2HTTPResponse
	}{
		"json": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/problem+json")
			w.Header().Set("Location", "/v1/x")
			w.WriteHeader(http.StatusAccepted)
			w.Header().Set("Too-Late", "yes")
			w.WriteHeader(http.StatusTeapot)
			fmt.Fprint(w, `{"a":"é"}`)
		}, events.APIGatewayV2HTTPResponse{StatusCode: 202, Body: `{"a":"é"}`,
			Headers: map[string]string{"Content-Type": "application/problem+json", "Location": "/v1/x"}}},
		"bytes": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/octet-stream")
			_, _ = w.Write(binary)
		}, events.APIGatewayV2HTTPResponse{StatusCode: 200, Body: base64.StdEncoding.EncodeToString(binary), IsBase64Encoded: true,
			Headers: map[string]string{"Content-Type": "application/octet-stream"}}},
		"text that is none": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain")
			_, _ = w.Write(binary)
		}, events.APIGatewayV2HTTPResponse{StatusCode: 200, Body: base64.StdEncoding.EncodeToString(binary), IsBase64Encoded: true,
			Headers: map[string]string{"Content-Type": "text/plain"}}},
		"cookies and repeated headers": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Add("Set-Cookie", "a=1")
			w.Header().Add("Set-Cookie", "b=2")
			w.Header().Add("Vary", "Accept")
			w.Header().Add("Vary", "Origin")
			w.WriteHeader(http.StatusNoContent)
		}, events.APIGatewayV2HTTPResponse{StatusCode: 204, Cookies: []string{"a=1", "b=2"}, Headers: map[string]string{"Vary": "Accept,Origin"}}},
		"nothing": {func(http.ResponseWriter, *http.Request) {}, events.APIGatewayV2HTTPResponse{StatusCode: 200, Headers: map[string]string{}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := adapter{c.handler}.serve(t.Context(), recorded(t, "get-jwt.json"))
			if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
				t.Errorf("%v (-want +got)\n%s", err, diff)
			}
		})
	}
}

func TestAnOperatorHasTheScopeOrTheClaim(t *testing.T) {
	t.Parallel()
	for claims, want := range map[string]bool{
		`{"jwt":{"claims":{"sub":"u","scope":"openid operator"}}}`:          true,
		`{"jwt":{"claims":{"sub":"u","operator":"true"}}}`:                  true,
		`{"jwt":{"claims":{"sub":"u","operator":true}}}`:                    true,
		`{"jwt":{"claims":{"sub":"u","operator":"false"}}}`:                 false,
		`{"jwt":{"claims":{"sub":"u","operator":1}}}`:                       false,
		`{"jwt":{"claims":{"sub":"u","scope":"operators other/operator"}}}`: false,
		`{"jwt":{"claims":{"sub":"operator"}}}`:                             false,
		`{"jwt":{"claims":{"sub":"u","scope":["operator"]}}}`:               false,
		`{"iam":{"userId":"operator"}}`:                                     false,
		`null`:                                                              false,
	} {
		var a *authorizer
		if err := json.Unmarshal([]byte(claims), &a); err != nil {
			t.Fatal(err)
		}
		r, err := http.NewRequestWithContext(withIdentity(t.Context(), a), "GET", "/", nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := isOperator(r); got != want {
			t.Errorf("%s: operator %v, want %v", claims, got, want)
		}
	}
}

func TestATenantComesFromAVerifiedClaimThatIsOneName(t *testing.T) {
	t.Parallel()
	for claims, want := range map[string]string{
		`{"jwt":{"claims":{"tenant":"acme","sub":"u"}}}`:     "acme",
		`{"jwt":{"claims":{"sub":"u"}}}`:                     "u",
		`{"jwt":{"claims":{"tenant":7,"sub":"u"}}}`:          "7",
		`{"jwt":{"claims":{"tenant":12345678901234567890}}}`: "12345678901234567890",
		`{"jwt":{"claims":{"tenant":["a","b"],"sub":"u"}}}`:  "",
		`{"jwt":{"claims":{"tenant":true,"sub":"u"}}}`:       "",
		`{"jwt":{"claims":{"tenant":"","sub":"u"}}}`:         "",
		`{"jwt":{"claims":{"tenant":null,"sub":"u"}}}`:       "",
		`{"jwt":{"claims":{}}}`:                              "",
		`{"iam":{"userId":"AIDAEXAMPLE","accountId":"1"}}`:   "iam:AIDAEXAMPLE",
		`{"iam":{"accountId":"1"}}`:                          "",
		`{"lambda":{"tenant":"acme"}}`:                       "",
		`null`:                                               "",
	} {
		var a *authorizer
		if err := json.Unmarshal([]byte(claims), &a); err != nil {
			t.Fatal(err)
		}
		if got := a.tenant(); got != want {
			t.Errorf("%s names %q, want %q", claims, got, want)
		}
	}
}
