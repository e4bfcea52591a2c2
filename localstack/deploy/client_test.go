package main

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/errand-dev/errand/shared/api"
	"github.com/errand-dev/errand/shared/apiclient"
	"github.com/errand-dev/errand/shared/awssign"
)

// client is one of the tenant. Where the authorizer is IAM, it is that of whoever runs the test.
func client(t *testing.T, tenant string, scopes ...string) *apiclient.Client {
	t.Helper()
	if deployed.stack.auth == "iam" {
		return signing(t)
	}
	token, err := deployed.issuer.token(tenant, time.Now(), scopes...)
	if err != nil {
		t.Fatal(err)
	}
	return newClient(t, token, http.DefaultTransport)
}

// signing is a client that signs its requests.
func signing(t *testing.T) *apiclient.Client {
	t.Helper()
	transport, err := awssign.New(t.Context(), deployed.api, http.DefaultTransport, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	return newClient(t, "", transport)
}

func newClient(t *testing.T, token string, transport http.RoundTripper) *apiclient.Client {
	t.Helper()
	c, err := apiclient.New(deployed.api, token, &http.Client{Transport: transport})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// patience is more than it takes until a killed run's message and last tick are gone.
const patience = 4 * time.Minute

// await polls until ok.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(patience)
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("after %v not so: %s", patience, what)
		}
	}
}

// transcript returns the messages of the conversation.
func transcript(t *testing.T, c *apiclient.Client, conversation string) []api.Message {
	t.Helper()
	page, err := c.Messages(t.Context(), conversation, apiclient.Page{})
	if err != nil {
		t.Fatal(err)
	}
	return page.Messages
}

// said returns the texts of the conversation.
func said(t *testing.T, c *apiclient.Client, conversation string) string {
	t.Helper()
	var texts strings.Builder
	for _, m := range transcript(t, c, conversation) {
		fmt.Fprintln(&texts, m.Text)
	}
	return texts.String()
}

// heard counts the ends that the conversation was told of.
func heard(t *testing.T, c *apiclient.Client, conversation string) int {
	t.Helper()
	return strings.Count(said(t, c, conversation), "I heard: ")
}

func dispatch(t *testing.T, c *apiclient.Client, conversation string, d api.DispatchRequest) string {
	t.Helper()
	run, err := c.Dispatch(t.Context(), conversation, d, "")
	if err != nil {
		t.Fatal(err)
	}
	return run.ID
}

func runOf(t *testing.T, c *apiclient.Client, conversation, id string) api.Run {
	t.Helper()
	run, err := c.Run(t.Context(), conversation, id)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// refused checks that the error is a problem with the code.
func refused(t *testing.T, what string, err error, code string) {
	t.Helper()
	if problem, ok := errors.AsType[*api.Problem](err); !ok || problem.Code() != code {
		t.Errorf("%s: %v, not %s", what, err, code)
	}
}

// status is that of a request without a body under the given Authorization, if any.
func status(t *testing.T, authorization string) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, deployed.api+"/v1/conversations/c", nil)
	if err != nil {
		t.Fatal(err)
	}
	if authorization != "" {
		request.Header.Set("Authorization", authorization)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	return response.StatusCode
}
