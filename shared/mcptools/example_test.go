package mcptools_test

import (
	"context"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/errand-dev/errand/shared/harness"
	"github.com/errand-dev/errand/shared/mcptools"
)

// An agent gets the tools of a server. One that is a program would be
//
//	mcptools.Options{Name: "files", Command: []string{"npx", "-y", "@modelcontextprotocol/server-filesystem", "/data"}}
//
// and one elsewhere mcptools.Options{Name: "files", URL: "https://mcp.example.com/"}.
func Example() {
	ctx := context.Background()
	server := mcp.NewServer(&mcp.Implementation{Name: "greeter", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "greet"}, func(_ context.Context, _ *mcp.CallToolRequest, in struct {
		Name string `json:"name"`
	}) (*mcp.CallToolResult, any, error) {
		return said("hello " + in.Name), nil, nil
	})
	source, err := mcptools.Connect(ctx, mcptools.Options{Name: "greeter", Transport: inMemory(server), Allow: []string{"greet"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer source.Close()
	tools, err := source.Tools(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	a := harness.Agent{Name: "host", Instructions: "Greet the guests.", Tools: tools}
	a.Policies = map[string]harness.Policy{"greeter_greet": harness.Enabled}
	for _, tool := range a.Tools {
		fmt.Println(tool.Name())
	}
	// Output: greeter_greet
}
