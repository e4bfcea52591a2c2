package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/dispatch"
	"github.com/errand-dev/errand/shared/ingress"
	"github.com/errand-dev/errand/shared/serve"
	"github.com/errand-dev/errand/shared/subagent"
)

var owner = subagent.Owner{Tenant: "default", Conversation: "examples"}

// tasks are registered by their names; the examples dispatch the one called main.
type tasks map[string]agent.Task

// execute dispatches main with the input in a whole stack of its own, and prints how it ends.
// outside, if not nil, is what the world does meanwhile, with the address of the API.
func execute(input string, all tasks, outside func(api string) error) {
	run, err := executed(input, all, outside)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s: %s%s\n", run.Status, run.Summary, run.Problem)
}

func executed(input string, all tasks, outside func(api string) error) (run subagent.Run, err error) {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		return run, err
	}
	defer os.RemoveAll(dir)
	agents := agent.NewRegistry()
	for name, task := range all {
		if err := agents.AddTask(name, task); err != nil {
			return run, err
		}
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	stack, err := serve.Open(ctx, serve.Options{Dir: dir, Agents: agents})
	if err != nil {
		return run, err
	}
	defer stack.Close()
	done := make(chan struct{})
	go func() { defer close(done); stack.Run(ctx) }()
	defer func() { stop(); <-done }()
	run, _, err = stack.Service.Dispatcher.Start(ctx, dispatch.Request{Owner: owner, Run: "main", Agent: "main", Input: json.RawMessage(input)})
	if err == nil && outside != nil {
		server := httptest.NewServer(ingress.NewHandler(stack.Service, ingress.HandlerOptions{}))
		defer server.Close()
		err = outside(server.URL)
	}
	for err == nil && run.Status.Live() {
		changed, unwatch, _ := stack.Ledger.WatchEvents(owner)
		if run, err = stack.Ledger.Run(ctx, owner, "main"); err == nil && run.Status.Live() {
			<-changed
		}
		unwatch()
	}
	return run, err
}

// post sends JSON to the API as somebody outside would.
func post(url, body string) error {
	response, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode >= 300 {
		return errors.New(response.Status)
	}
	return nil
}
