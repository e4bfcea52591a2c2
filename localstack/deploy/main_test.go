package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/errand-dev/errand/localstack/endpoint"
	"github.com/errand-dev/errand/shared/awsclient"
)

// variable must be set for the stack to be deployed: the first build of the CDK takes minutes.
const variable = "ERRAND_DEPLOY"

// deployed is the stack under test.
var deployed struct {
	stack
	*deployer
	// issuer is that of its tokens, url the API's.
	issuer *issuer
	api    string
}

func TestMain(m *testing.M) {
	if os.Getenv(variable) == "" {
		os.Exit(m.Run())
	}
	os.Exit(onTarget(m))
}

// onTarget runs the tests with an endpoint, if the target needs one.
func onTarget(m *testing.M) int {
	t, err := targetFrom(os.Getenv)
	if err != nil {
		fmt.Fprintln(os.Stderr, "deploy:", err)
		return 2
	}
	if t.name == "aws" {
		return m.Run()
	}
	// What signs requests here finds its keys where users have theirs.
	for name, value := range map[string]string{"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_REGION": "us-east-1"} {
		os.Setenv(name, value)
	}
	if t.name == "localstack" {
		os.Setenv(endpoint.Variable, t.url)
	}
	// MiniStack then gives each function the credentials of its role, and refuses what the
	// role may not do.
	os.Setenv("AUTH", "true")
	return endpoint.Main(m)
}

// bringUp deploys the stack once.
func bringUp(t *testing.T) {
	t.Helper()
	if os.Getenv(variable) == "" {
		t.Skip("NOT TESTED: `make localstack-test` deploys the stack and drives it; it sets " + variable)
	}
	at, err := targetFrom(os.Getenv)
	if err == nil && at.name != "aws" {
		at.url = endpoint.URL(t)
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	root, err := moduleRoot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var issuer http.Handler
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { issuer.ServeHTTP(w, r) }))
	t.Cleanup(server.Close)
	if deployed.issuer, err = newIssuer(server.URL); err != nil {
		t.Fatal(err)
	}
	issuer = deployed.issuer
	if deployed.deployer, err = newDeployer(ctx, at, root, server.URL, t.Output()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(deployed.deployer.close)
	if err := deployed.synth(ctx, at.first()); err != nil {
		t.Fatal(err)
	}
	if deployed.stack, err = deployed.deploy(ctx, at.first()); err != nil {
		t.Fatal(err)
	}
	deployed.api = deployed.stack.api()
	if at.gateway {
		front := httptest.NewServer(gateway{at, deployed.outputs["IngressName"], deployed.issuer})
		t.Cleanup(front.Close)
		deployed.api = front.URL
		t.Log("NOT TESTED: the HTTP API; the endpoint has none, and a stand-in invokes ingress")
	}
}

// services are the SDK's clients for where the stack is.
func services(t *testing.T) *awsclient.Clients {
	t.Helper()
	if deployed.stack.name != "aws" {
		return endpoint.Clients(t, awsclient.Config{})
	}
	clients, err := awsclient.New(t.Context(), awsclient.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return clients
}
