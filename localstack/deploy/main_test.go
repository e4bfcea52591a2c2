package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/errand-dev/errand/localstack/endpoint"
)

// variable must be set for the tests to run: the first build of the CDK takes minutes.
const variable = "ERRAND_DEPLOY"

// deployed is the stack under test, and the issuer of its tokens.
var deployed struct {
	stack
	issuer *issuer
	err    error
}

func TestMain(m *testing.M) {
	if os.Getenv(variable) == "" {
		fmt.Println("NOT TESTED: `make localstack-test` deploys the stack and drives it; it sets " + variable + ".")
		os.Exit(0)
	}
	// MiniStack then gives each function the credentials of its role, and refuses what the
	// role may not do.
	os.Setenv("AUTH", "true")
	os.Exit(endpoint.Main(m))
}

// bringUp deploys the stack once.
func bringUp(t *testing.T) {
	t.Helper()
	url := endpoint.URL(t)
	if _, err := exec.LookPath("node"); err != nil {
		t.Fatal("the CDK needs node on the PATH")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	deployed.err = func() error {
		root, err := moduleRoot(ctx)
		if err != nil {
			return err
		}
		var mux http.Handler
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { mux.ServeHTTP(w, r) }))
		t.Cleanup(server.Close)
		if deployed.issuer, err = newIssuer(server.URL); err != nil {
			return err
		}
		mux = deployed.issuer
		deployed.stack, err = deploy(ctx, root, url, server.URL, t.Output())
		return err
	}()
	if deployed.err != nil {
		t.Fatal(deployed.err)
	}
	if deployed.outputs["ApiId"] == "" {
		t.Fatal(errors.New("the stack has no output ApiId"))
	}
}
