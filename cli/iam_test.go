package cli

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// gateway answers as an API does before its authorizer has said yes, and keeps what it was shown.
func gateway(t *testing.T) (url string, shown *string) {
	t.Helper()
	shown = new(string)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*shown = r.Header.Get("Authorization")
		if !strings.HasPrefix(*shown, "AWS4-HMAC-SHA256 ") {
			w.WriteHeader(http.StatusForbidden)
			_, _ = w.Write([]byte(`{"message":"Forbidden"}`))
			return
		}
		_, _ = w.Write([]byte(`{"runs":[]}`))
	}))
	t.Cleanup(s.Close)
	return s.URL, shown
}

func TestRequestsAreSignedIfAsked(t *testing.T) {
	nowhere := t.TempDir()
	t.Setenv("AWS_CONFIG_FILE", nowhere+"/config")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", nowhere+"/credentials")
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	url, shown := gateway(t)
	signed := "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/"
	for name, test := range map[string]struct {
		variable string
		args     []string
		keys     string
		code     int
		shown    string
		says     string
	}{
		"by a flag":                 {"", []string{"--iam"}, "AKIDEXAMPLE", exitOK, signed, ""},
		"by the environment":        {"true", nil, "AKIDEXAMPLE", exitOK, signed, ""},
		"with a token":              {"", nil, "AKIDEXAMPLE", exitFailed, "Bearer a-secret-of-mine-1", "or sign with --iam"},
		"a token beats a variable":  {"true", []string{"--token", "x"}, "AKIDEXAMPLE", exitFailed, "Bearer x", "or sign with --iam"},
		"both":                      {"", []string{"--iam", "--token", "x"}, "AKIDEXAMPLE", exitUsage, "", "give one"},
		"a variable that is no yes": {"perhaps", nil, "AKIDEXAMPLE", exitUsage, "", "true or false"},
		"without credentials":       {"", []string{"--iam"}, "", exitFailed, "", "AWS_PROFILE"},
	} {
		t.Run(name, func(t *testing.T) {
			*shown = ""
			t.Setenv(envIAM, test.variable)
			t.Setenv("AWS_ACCESS_KEY_ID", test.keys)
			t.Setenv("AWS_SECRET_ACCESS_KEY", test.keys)
			t.Setenv("AWS_REGION", "eu-west-1")
			code, _, errOut := errand(t, url, append([]string{"runs"}, test.args...)...)
			if code != test.code || !strings.HasPrefix(*shown, test.shown) || test.shown == "" && *shown != "" || !strings.Contains(errOut, test.says) {
				t.Errorf("%d, shown %q, says %q", code, *shown, errOut)
			}
		})
	}
}
