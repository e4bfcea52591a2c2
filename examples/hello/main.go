// Command hello is a whole program over Errand: one background subagent, one
// conversation agent that dispatches it, and the HTTP API, in one process. Talk to it from
// another terminal: go run . send hello; go run . runs
package main

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"time"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/ingress"
	"github.com/errand-dev/errand/shared/serve"
	"github.com/errand-dev/errand/shared/subagent"
)

// count is the background subagent. Each step is kept: executed again after a crash,
// the run goes on where it was.
func count(ctx context.Context, run *agent.Run) (any, error) {
	for i := range 5 {
		_, err := agent.Step(ctx, run, fmt.Sprintf("count-%d", i), func(ctx context.Context) (int, error) {
			time.Sleep(200 * time.Millisecond) // a model call, a tool call
			return i, nil
		})
		if err != nil {
			return nil, err
		}
		if err := run.Progress(ctx, agent.Progress{Fraction: agent.Fraction(int64(i+1), 5)}); err != nil {
			return nil, err
		}
	}
	return "counted to five", nil
}

// assistant is the agent of a conversation: it answers users, and hears of its runs.
func assistant(ctx context.Context, turn *agent.Turn) (string, error) {
	if turn.Kind != subagent.UserTurn {
		return "By the way: " + turn.Message, nil
	}
	run, err := turn.Dispatch(ctx, agent.Dispatch{Agent: "counter", Notice: subagent.Notice{Message: true}})
	return "I have sent the counter off (run " + run.ID + "). Go on talking.", err
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, "127.0.0.1:8080", ".errand/hello"); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, address, dir string) error {
	agents := agent.NewRegistry()
	if err := agents.AddTask("counter", count); err != nil {
		return err
	}
	if err := agents.AddChat("assistant", assistant); err != nil {
		return err
	}
	stack, err := serve.Open(ctx, serve.Options{Dir: dir, Agents: agents, Log: slog.Default()})
	if err != nil {
		return err
	}
	defer stack.Close()
	return stack.ListenAndServe(ctx, address, ingress.NewHandler(stack.Service, ingress.HandlerOptions{}))
}
