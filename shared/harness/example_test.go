package harness_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing/fstest"
	"time"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/harness"
	"github.com/errand-dev/errand/shared/ingress"
	"github.com/errand-dev/errand/shared/model"
	"github.com/errand-dev/errand/shared/model/scriptmodel"
	"github.com/errand-dev/errand/shared/serve"
)

func mustScript(text string) *scriptmodel.Model {
	m, err := scriptmodel.Parse("script", text)
	if err != nil {
		fmt.Println(err)
	}
	return m
}

// ask lets the agent answer one message, in a whole stack of its own.
func ask(message string, agents ...harness.Agent) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	registry := agent.NewRegistry()
	if err := harness.Register(registry, agents...); err != nil {
		fmt.Println(err)
		return
	}
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	stack, err := serve.Open(ctx, serve.Options{Dir: dir, Agents: registry})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stack.Close()
	done := make(chan struct{})
	go func() { defer close(done); stack.Run(ctx) }()
	defer func() { cancel(); <-done }()
	turn, _, err := stack.Service.Accept(ctx, ingress.TurnRequest{Owner: owner, Message: message})
	for err == nil && !turn.Done() {
		changed, stop, _ := stack.Ledger.WatchEvents(owner)
		if turn, err = stack.Ledger.Turn(ctx, owner, turn.ID); err == nil && !turn.Done() {
			<-changed
		}
		stop()
	}
	reply, _ := stack.Ledger.LoadValue(ctx, owner, turn.Reply)
	fmt.Println(reply, turn.Problem)
}

// An agent is instructions and a model.
func ExampleAgent() {
	ask("Good morning!", harness.Agent{
		Name: "greeter", Instructions: "You greet.",
		Model: mustScript("when morning\nGood morning to you."),
	})
	// Output: Good morning to you.
}

// A tool is a function. The schema of its arguments comes from its input's type.
func ExampleNewTool() {
	type order struct {
		Item  string `json:"item" jsonschema:"what to buy"`
		Count int    `json:"count"`
	}
	buy := harness.NewTool("buy", "Buys something.", func(ctx context.Context, in order) (string, error) {
		// harness.CallKey(ctx) lets the shop know a purchase that is asked for again.
		return fmt.Sprintf("%d %s bought", in.Count, in.Item), nil
	})
	ask("Buy apples.", harness.Agent{
		Name: "buyer", Tools: []harness.Tool{buy},
		Model: mustScript("when apples\n> call buy {\"item\":\"apples\",\"count\":3}\n---\nDone: {{result}}."),
	})
	// Output: Done: 3 apples bought.
}

// The model sends subagents off in the background; in runs it may also wait for them.
func ExampleSubagent() {
	ask("Research rivers.",
		harness.Agent{
			Name: "assistant", Subagents: []harness.Subagent{{Name: "researcher"}},
			Model: mustScript("when has completed\nThere it is.\nwhen rivers\n> call background_researcher {\"task\":\"rivers\"}\n---\nIt is on its way."),
		},
		harness.Agent{Name: "researcher", Description: "Finds things out.", Model: mustScript("when\nRivers are long.")})
	// Output: It is on its way.
}

// A call may have to be approved: with errand approve, or by the API.
func ExamplePolicy() {
	type file struct {
		Name string `json:"name"`
	}
	remove := harness.NewTool("remove", "Deletes a file.", func(ctx context.Context, in file) (string, error) {
		return in.Name + " is deleted.", nil
	})
	ask("Delete notes.txt!", harness.Agent{
		Name: "janitor", Tools: []harness.Tool{remove},
		Policies: map[string]harness.Policy{"remove": harness.NeedsApproval},
		Limits:   harness.Limits{Approval: time.Millisecond}, // nobody is here to approve
		Model:    mustScript("when delete (.*)!\n> call remove {\"name\":\"{{1}}\"}\n---\n{{result}}"),
	})
	// Output: Nobody has approved this call in time. Nothing was done.
}

// A hook may refuse a call; the model is told.
func ExampleHooks() {
	type page struct {
		URL string `json:"url"`
	}
	open := harness.NewTool("open", "Opens a page.", func(ctx context.Context, in page) (string, error) { return "opened", nil })
	ask("Open http://example.com", harness.Agent{
		Name: "reader", Tools: []harness.Tool{open},
		Hooks: harness.Hooks{BeforeTool: func(ctx context.Context, v harness.View, c model.Call) error {
			if strings.Contains(string(c.Arguments), "http://") {
				return errors.New("only https, please")
			}
			return nil
		}},
		Model: mustScript("when open (.*)\n> call open {\"url\":\"{{1}}\"}\n---\n{{result}}"),
	})
	// Output: The call was refused: only https, please. Nothing was done.
}

// Limits bound what an agent does and spends.
func ExampleLimits() {
	tick := harness.NewTool("tick", "Ticks.", func(ctx context.Context, in struct{}) (string, error) { return "tick", nil })
	ask("Tick for ever.", harness.Agent{
		Name: "clock", Tools: []harness.Tool{tick}, Limits: harness.Limits{Iterations: 2},
		Model: mustScript("when\n> call tick {}\n> repeat"),
	})
	// Output: stopped after 2 model calls without an answer
}

// An answer that does not follow the schema goes back to the model.
func ExampleSchemaOf() {
	schema, err := harness.SchemaOf[struct {
		City string `json:"city"`
	}]()
	if err != nil {
		fmt.Println(err)
	}
	ask("Where is the Rhine?", harness.Agent{
		Name: "locator", OutputSchema: schema,
		Model: mustScript("when rhine\nIn Bonn.\n---\n{\"city\":\"Bonn\"}"),
	})
	// Output: {"city":"Bonn"}
}

// What is wrong is said before anything runs.
func ExampleRegister() {
	m := mustScript("when\nhi")
	fmt.Println(harness.Register(agent.NewRegistry(),
		harness.Agent{Name: "a", Model: m, Subagents: []harness.Subagent{{Name: "b"}}},
		harness.Agent{Name: "b", Model: m, Subagents: []harness.Subagent{{Name: "a"}}}))
	// Output: agents send each other off in a cycle, a -> b -> a; set Limits.Depth of one of them
}

// Agents may be written as Markdown files; os.DirFS opens a real folder.
func ExampleLoad() {
	folder := fstest.MapFS{"poet.md": {Data: []byte("---\nname: poet\ndescription: Writes poems.\n---\nYou write poems.\n")}}
	agents, err := harness.Load(folder, harness.Parts{Model: mustScript("when\nRoses are red.")})
	fmt.Println(agents[0].Name, "-", agents[0].Instructions, err)
	// Output: poet - You write poems. <nil>
}

// A task of one's own can be a subagent too: it says what it takes.
func ExampleSubagent_task() {
	sub := harness.Subagent{Name: "importer", Description: "Imports a file.",
		Input: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"}},"required":["path"],"additionalProperties":false}`)}
	registry := agent.NewRegistry()
	task := func(ctx context.Context, run *agent.Run) (any, error) { return "imported", nil }
	fmt.Println(registry.AddTask("importer", task),
		harness.Register(registry, harness.Agent{Name: "clerk", Model: mustScript("when\nhi"), Subagents: []harness.Subagent{sub}}))
	// Output: <nil> <nil>
}
