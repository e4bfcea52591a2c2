// Command agent serves a conversation agent with one tool and one subagent. Without a key its
// model answers from a script; with ANTHROPIC_API_KEY in the environment it is a real one.
// Talk to it from another terminal: go run . send 'Plan a day in Ulm.'
package main

import (
	"context"
	_ "embed"
	"fmt"
	"log"
	"log/slog"
	"os"
	"os/signal"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/harness"
	"github.com/errand-dev/errand/shared/ingress"
	"github.com/errand-dev/errand/shared/model"
	"github.com/errand-dev/errand/shared/model/anthropicmodel"
	"github.com/errand-dev/errand/shared/model/scriptmodel"
	"github.com/errand-dev/errand/shared/serve"
)

//go:embed script.txt
var script string

type place struct {
	City string `json:"city" jsonschema:"the name of a city"`
}

func weather(_ context.Context, in place) (string, error) {
	known := map[string]string{"Ulm": "sunny, 21 degrees"}
	if w, ok := known[in.City]; ok {
		return w, nil
	}
	return "", fmt.Errorf("no report for %s", in.City) // the model is told
}

func agents(m model.Model) []harness.Agent {
	return []harness.Agent{{
		Name:         "guide",
		Instructions: "You plan trips. Let the scout find out what a city has to offer, in the background.",
		Model:        m,
		Subagents:    []harness.Subagent{{Name: "scout"}},
	}, {
		Name:         "scout",
		Description:  "finds out what one can do in a city, whatever the weather",
		Instructions: "Look at the weather, then name three things to do.",
		Model:        m,
		Tools:        []harness.Tool{harness.NewTool("weather", "The weather in a city.", weather)},
	}}
}

// pick returns a real model if there is a key for one.
func pick() (model.Model, error) {
	if os.Getenv("ANTHROPIC_API_KEY") == "" {
		return scriptmodel.Parse("script.txt", script)
	}
	return anthropicmodel.New(anthropicmodel.Options{Model: "claude-sonnet-4-5"})
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, "127.0.0.1:8080", ".errand/agent"); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, address, dir string) error {
	m, err := pick()
	if err != nil {
		return err
	}
	registry := agent.NewRegistry()
	if err := harness.Register(registry, agents(m)...); err != nil {
		return err
	}
	stack, err := serve.Open(ctx, serve.Options{Dir: dir, Agents: registry, Log: slog.Default()})
	if err != nil {
		return err
	}
	defer stack.Close()
	return stack.ListenAndServe(ctx, address, ingress.NewHandler(stack.Service, ingress.HandlerOptions{}))
}
