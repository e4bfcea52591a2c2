package main

import (
	"context"
	"net"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/errand-dev/errand/shared/api"
	"github.com/errand-dev/errand/shared/apiclient"
)

// As the README says: a message is answered at once, and the scout's result comes back as a
// turn of its own.
func TestTheScoutComesBack(t *testing.T) {
	t.Setenv("ANTHROPIC_API_KEY", "")
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	served := make(chan error, 1)
	go func() { served <- run(ctx, address, t.TempDir()) }()
	client, err := apiclient.New("http://"+address, "", http.DefaultClient)
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err = client.Health(ctx); err == nil {
			break
		}
		select {
		case err := <-served:
			t.Fatalf("the server ended: %v", err)
		case <-time.After(10 * time.Millisecond):
		}
	}
	if _, err := client.Send(ctx, "trip", api.TurnRequest{Message: "Plan a day in Ulm."}, ""); err != nil {
		t.Fatal(err)
	}
	var said []string
	for after := int64(0); len(said) < 4; {
		page, err := client.Events(ctx, apiclient.EventQuery{Conversation: "trip", After: after, Wait: 5 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		after = page.Next
		messages, err := client.Messages(ctx, "trip", apiclient.Page{})
		if err != nil {
			t.Fatal(err)
		}
		said = nil
		for _, m := range messages.Messages {
			said = append(said, m.Text)
		}
	}
	for _, want := range []string{
		"I have sent the scout to Ulm. What else?",
		"The scout is back: It is sunny, 21 degrees: climb the minster, walk along the river, eat outside.",
	} {
		if !slices.Contains(said, want) {
			t.Errorf("nobody said %q in %q", want, said)
		}
	}
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
}
