// Command assistant is a conversation with an agent that sends a researcher off and goes
// on talking. The agents are the Markdown files beside it, their tool is a Go function. Its model
// answers from a script, so it needs no key; put in another model.Model for a real one.
package main

import (
	"context"
	"embed"
	"fmt"
	"io"
	"io/fs"
	"log"
	"os"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/harness"
	"github.com/errand-dev/errand/shared/ingress"
	"github.com/errand-dev/errand/shared/model/scriptmodel"
	"github.com/errand-dev/errand/shared/serve"
	"github.com/errand-dev/errand/shared/subagent"
)

//go:embed agents/*.md script.txt
var files embed.FS

type city struct {
	City string `json:"city" jsonschema:"the name of the city"`
}

func population(_ context.Context, in city) (string, error) {
	known := map[string]string{"Bonn": "340,000", "Ulm": "130,000"}
	if n, ok := known[in.City]; ok {
		return in.City + " has " + n + " inhabitants.", nil
	}
	return "", fmt.Errorf("nothing is known about %s", in.City) // the model is told
}

func main() {
	dir, err := os.MkdirTemp("", "assistant")
	if err == nil {
		err = run(context.Background(), dir, os.Stdout)
		os.RemoveAll(dir)
	}
	if err != nil {
		log.Fatal(err)
	}
}

func register() (*agent.Registry, error) {
	text, err := files.ReadFile("script.txt")
	if err != nil {
		return nil, err
	}
	script, err := scriptmodel.Parse("script.txt", string(text))
	if err != nil {
		return nil, err
	}
	folder, err := fs.Sub(files, "agents")
	if err != nil {
		return nil, err
	}
	agents, err := harness.Load(folder, harness.Parts{Model: script, Tools: []harness.Tool{
		harness.NewTool("population", "How many people live in a city.", population),
	}})
	if err != nil {
		return nil, err
	}
	registry := agent.NewRegistry()
	return registry, harness.Register(registry, agents...)
}

func run(ctx context.Context, dir string, out io.Writer) error {
	agents, err := register()
	if err != nil {
		return err
	}
	stack, err := serve.Open(ctx, serve.Options{Dir: dir, Agents: agents})
	if err != nil {
		return err
	}
	defer stack.Close()

	me := subagent.Owner{Tenant: "default", Conversation: "cities"}
	for _, text := range []string{"Which is larger, Bonn or Ulm?", "Thank you."} {
		if _, _, err := stack.Service.Accept(ctx, ingress.TurnRequest{Owner: me, Message: text, Agent: "assistant"}); err != nil {
			return err
		}
	}
	working, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { defer close(done); stack.Run(working) }()
	defer func() { stop(); <-done }()
	return follow(ctx, stack, me, out, 6)
}

// follow prints the conversation until it has n messages.
func follow(ctx context.Context, stack *serve.Stack, me subagent.Owner, out io.Writer, n int64) error {
	for seen := int64(0); seen < n; {
		changed, stop, _ := stack.Ledger.WatchEvents(me)
		messages, err := stack.Ledger.Messages(ctx, me, seen, 100)
		if err != nil {
			stop()
			return err
		}
		for _, m := range messages {
			text, err := stack.Ledger.LoadValue(ctx, me, m.Text)
			if err != nil {
				stop()
				return err
			}
			seen = m.Seq
			fmt.Fprintf(out, "%s (%s): %s\n", m.Role, m.Source, text)
		}
		if len(messages) == 0 {
			<-changed
		}
		stop()
	}
	return nil
}
