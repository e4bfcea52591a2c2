package importagent_test

import (
	"context"
	"fmt"

	"github.com/errand-dev/errand/shared/agent"
)

// A task is a function: it reads its input, tells how far it is, reaches a milestone
// and returns its output. Work with effects goes into a step, which is not repeated
// when the task is executed again after a crash.
func Example() {
	greet := func(ctx context.Context, run *agent.Run) (any, error) {
		var in struct {
			Names []string `json:"names"`
		}
		if err := run.Input(&in); err != nil {
			return nil, err
		}
		if err := run.Milestone(ctx, "names-read", map[string]int{"count": len(in.Names)}); err != nil {
			return nil, err
		}
		for i, name := range in.Names {
			_, err := agent.Step(ctx, run, fmt.Sprintf("greet-%d", i), func(context.Context) (string, error) {
				return "Hello " + name, nil // send the mail here
			})
			if err != nil {
				return nil, err
			}
			if err := run.Progress(ctx, agent.Progress{Fraction: agent.Fraction(int64(i+1), int64(len(in.Names)))}); err != nil {
				return nil, err
			}
		}
		return fmt.Sprintf("greeted %d people", len(in.Names)), nil
	}

	agents := agent.NewRegistry()
	if err := agents.AddTask("greeter", greet); err != nil {
		fmt.Println(err)
	}
	fmt.Println(agents.Tasks())
	// Output: [greeter]
}
