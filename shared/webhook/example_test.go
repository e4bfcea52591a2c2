package webhook_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/subagent"
	"github.com/errand-dev/errand/shared/webhook"
)

func Example() {
	const secret = "whsec_c2hhcmVkIHdpdGggdGhlIHJlY2VpdmVyIG9ubHkh"

	// The receiver verifies a message before it believes it.
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		if err != nil {
			http.Error(w, "too large", http.StatusRequestEntityTooLarge)
			return
		}
		if err := webhook.Verify(secret, r.Header, body, time.Now()); err != nil {
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		var event webhook.Event
		if err := json.Unmarshal(body, &event); err != nil {
			http.Error(w, "not an event", http.StatusBadRequest)
			return
		}
		fmt.Println(event.Type, event.Data.ID, event.Data.Summary)
	}))
	defer receiver.Close()

	// A real URL wants a client of safehttp.
	tell, err := webhook.Handler(webhook.Options{URL: receiver.URL, Secrets: []string{secret}, Client: receiver.Client()})
	if err != nil {
		fmt.Println(err)
		return
	}
	agents := agent.NewRegistry()
	if err := agents.AddHandler("billing", tell); err != nil {
		fmt.Println(err)
		return
	}
	// A dispatch with {"on_finish": "billing"} has it called at the end of the run:
	billing, _ := agents.Handler("billing")
	err = billing(context.Background(), agent.Delivery{
		ID:  "import-7:finish",
		Run: agent.Info{ID: "import-7", Agent: "importer", Status: subagent.Completed, Summary: "42 rows"},
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output: run.completed import-7 42 rows
}
