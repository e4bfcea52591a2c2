package awssign_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/errand-dev/errand/shared/awssign"
)

var at = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// environment leaves the SDK nothing but what the test gives it.
func environment(t *testing.T, more map[string]string) {
	t.Helper()
	nowhere := t.TempDir()
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "AWS_SESSION_TOKEN": "", "AWS_REGION": "", "AWS_DEFAULT_REGION": "", "AWS_PROFILE": "",
		"AWS_CONFIG_FILE": nowhere + "/config", "AWS_SHARED_CREDENTIALS_FILE": nowhere + "/credentials", "AWS_EC2_METADATA_DISABLED": "true",
		"AWS_CONTAINER_CREDENTIALS_FULL_URI": "", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "", "AWS_WEB_IDENTITY_TOKEN_FILE": "",
	} {
		if given, ok := more[name]; ok {
			value = given
		}
		t.Setenv(name, value)
	}
}

var keys = map[string]string{"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "a-secret", "AWS_SESSION_TOKEN": "a-session", "AWS_REGION": "eu-west-1"}

// verified reports whether the request's signature is the one that its headers, body and the
// secret make: what the authorizer asks.
func verified(t *testing.T, r *http.Request, secret string) bool {
	t.Helper()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Error(err)
	}
	got := r.Header.Get("Authorization")
	again, err := http.NewRequest(r.Method, "http://"+r.Host+r.RequestURI, nil)
	if err != nil {
		t.Error(err)
	}
	_, rest, _ := strings.Cut(got, "SignedHeaders=")
	names, _, _ := strings.Cut(rest, ",")
	for name := range strings.SplitSeq(names, ";") {
		switch name {
		case "host", "x-amz-date", "x-amz-security-token":
		case "content-length":
			again.ContentLength = r.ContentLength
		default:
			again.Header.Set(name, r.Header.Get(name))
		}
	}
	when, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
	if err != nil {
		return false
	}
	hash := sha256.Sum256(body)
	credentials := aws.Credentials{AccessKeyID: "AKIDEXAMPLE", SecretAccessKey: secret, SessionToken: "a-session"}
	if err := v4.NewSigner().SignHTTP(t.Context(), credentials, again, hex.EncodeToString(hash[:]), "execute-api", "eu-west-1", when); err != nil {
		t.Error(err)
	}
	return got != "" && got == again.Header.Get("Authorization")
}

func TestASignedRequestIsTheOneThatArrives(t *testing.T) {
	environment(t, keys)
	for name, test := range map[string]struct{ method, path, body, secret string }{
		"without a body":      {"GET", "/v1/conversations/c/events?after=7&wait_ms=10", "", "a-secret"},
		"with a body":         {"POST", "/v1/conversations/c%3A1/turns", `{"message":"café"}`, "a-secret"},
		"with another secret": {"GET", "/v1/conversations/c", "", "another-secret"},
	} {
		var ok bool
		server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			ok = verified(t, r, test.secret)
			if r.Header.Get("X-Amz-Security-Token") != "a-session" {
				t.Error("the session is missing")
			}
		}))
		transport, err := awssign.New(t.Context(), server.URL, http.DefaultTransport, func() time.Time { return at })
		if err != nil {
			t.Fatal(err)
		}
		request, err := http.NewRequestWithContext(t.Context(), test.method, server.URL+test.path, strings.NewReader(test.body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/json")
		response, err := (&http.Client{Transport: transport}).Do(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		server.Close()
		if ok != (test.secret == "a-secret") {
			t.Errorf("%s: verified is %v", name, ok)
		}
		if request.Header.Get("Authorization") != "" {
			t.Errorf("%s: the caller's request was changed", name)
		}
	}
}

func TestTheRegionIsThatOfTheEndpoint(t *testing.T) {
	environment(t, keys)
	for endpoint, want := range map[string]string{
		"https://abc123.execute-api.us-east-2.amazonaws.com":     "us-east-2",
		"https://abc123.execute-api.cn-north-1.amazonaws.com.cn": "cn-north-1",
		"https://errand.example.com":                             "eu-west-1",
	} {
		var authorization string
		base := roundTrip(func(r *http.Request) (*http.Response, error) {
			authorization = r.Header.Get("Authorization")
			return nil, errors.New("not sent")
		})
		transport, err := awssign.New(t.Context(), endpoint, base, func() time.Time { return at })
		if err != nil {
			t.Fatal(err)
		}
		request, err := http.NewRequest(http.MethodGet, endpoint, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := transport.RoundTrip(request); err == nil {
			t.Error("it was sent")
		}
		if !strings.Contains(authorization, "/20261130/"+want+"/execute-api/aws4_request") {
			t.Errorf("%s: %s", endpoint, authorization)
		}
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestWhatIsMissingIsToldAtOnce(t *testing.T) {
	environment(t, map[string]string{"AWS_REGION": "eu-west-1"})
	if _, err := awssign.New(context.Background(), "https://errand.example.com", http.DefaultTransport, time.Now); err == nil || !strings.Contains(err.Error(), "credentials") {
		t.Errorf("without credentials: %v", err)
	}
	environment(t, map[string]string{"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"})
	if _, err := awssign.New(context.Background(), "https://errand.example.com", http.DefaultTransport, time.Now); err == nil || !strings.Contains(err.Error(), "set AWS_REGION") {
		t.Errorf("without a region: %v", err)
	}
}
