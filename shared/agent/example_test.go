package agent_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/errand-dev/errand/shared/agent"
)

// A task reads its input and returns its output. It is plain Go.
func ExampleTask() {
	greet := func(ctx context.Context, run *agent.Run) (any, error) {
		var in struct {
			Name string `json:"name"`
		}
		if err := run.Input(&in); err != nil {
			return nil, err // it ends in an error
		}
		return "Hello " + in.Name, nil
	}
	execute(`{"name":"Ada"}`, tasks{"main": greet}, nil)
	// Output: completed: Hello Ada
}

// What must not be done twice goes into a step. The run is executed again here, by an error
// that asks for it, as it would be after a crash.
func ExampleStep() {
	order := func(ctx context.Context, run *agent.Run) (any, error) {
		number, err := agent.Step(ctx, run, "order", func(context.Context) (int, error) {
			fmt.Println("ordered in execution", run.Attempt)
			return 4711, nil
		})
		if err != nil {
			return nil, err
		}
		if run.Attempt == 1 {
			return nil, agent.Retryable(errors.New("the network is down"))
		}
		return fmt.Sprintf("order %d, in execution %d", number, run.Attempt), nil
	}
	execute(`{}`, tasks{"main": order}, nil)
	// Output:
	// ordered in execution 1
	// completed: order 4711, in execution 2
}

// Progress is a snapshot: the latest wins. It also says that the run is alive.
func ExampleRun_Progress() {
	count := func(ctx context.Context, run *agent.Run) (any, error) {
		for i := range int64(3) {
			err := run.Progress(ctx, agent.Progress{Fraction: agent.Fraction(i+1, 3), Phase: "counting", Message: fmt.Sprintf("%d of 3", i+1)})
			if err != nil {
				return nil, err
			}
		}
		return "counted", nil
	}
	watch := func(ctx context.Context, run *agent.Run) (any, error) {
		child, err := run.Dispatch(ctx, agent.Dispatch{Key: "count", Agent: "count", Awaited: true})
		if err != nil {
			return nil, err
		}
		r, err := run.Await(ctx, child.ID)
		return fmt.Sprintf("%s, at last %s %.0f %%", r.Summary, r.Progress.Phase, *r.Progress.Fraction*100), err
	}
	execute(`{}`, tasks{"main": watch, "count": count}, nil)
	// Output: completed: counted, at last counting 100 %
}

// A milestone is a named point that is kept. Others can wait for it, while the run goes on.
func ExampleRun_Milestone() {
	load := func(ctx context.Context, run *agent.Run) (any, error) {
		if err := run.Milestone(ctx, "columns-known", []string{"id", "name"}); err != nil {
			return nil, err
		}
		return "loaded", run.Sleep(ctx, "work", time.Hour)
	}
	main := func(ctx context.Context, run *agent.Run) (any, error) {
		child, err := run.Dispatch(ctx, agent.Dispatch{Key: "load", Agent: "load"})
		if err != nil {
			return nil, err
		}
		m, err := run.AwaitMilestone(ctx, "columns", child.ID, "columns-known", time.Minute)
		return fmt.Sprintf("%s: %s", m.Name, m.Data), err
	}
	execute(`{}`, tasks{"main": main, "load": load}, nil)
	// Output: completed: columns-known: ["id","name"]
}

// A run that sleeps holds no process, for a second or for a week. Its code is executed again
// when the time is over, and finds the same end of the sleep.
func ExampleWork_Sleep() {
	remind := func(ctx context.Context, run *agent.Run) (any, error) {
		if err := run.Sleep(ctx, "nap", 20*time.Millisecond); err != nil {
			return nil, err // agent.ErrSuspended the first time: pass it on
		}
		return fmt.Sprintf("awake in execution %d", run.Attempt), nil
	}
	execute(`{}`, tasks{"main": remind}, nil)
	// Output: completed: awake in execution 2
}

// Join waits for some of several runs, with a bound: one that is late holds nothing up.
func ExampleWork_Join() {
	ask := func(ctx context.Context, run *agent.Run) (any, error) {
		var shop string
		if err := run.Input(&shop); err != nil {
			return nil, err
		}
		if shop == "slow" {
			return nil, run.Sleep(ctx, "think", time.Hour)
		}
		return shop + " has one", nil
	}
	main := func(ctx context.Context, run *agent.Run) (any, error) {
		var ids []string
		for _, shop := range []string{"north", "slow", "south"} {
			child, err := run.Dispatch(ctx, agent.Dispatch{Key: shop, Agent: "ask", Input: shop, Awaited: true})
			if err != nil {
				return nil, err
			}
			ids = append(ids, child.ID)
		}
		results, err := run.Join(ctx, "shops", agent.Join{Runs: ids, Need: 2, Within: time.Minute})
		for _, r := range results {
			if !r.Status.Live() {
				fmt.Println(r.Summary)
			}
		}
		return "two answers are enough", err
	}
	execute(`{}`, tasks{"main": main, "ask": ask}, nil)
	// Unordered output:
	// north has one
	// south has one
	// completed: two answers are enough
}

// People decide, by the API or with errand approve; the run waits for them without a process.
func ExampleWork_Approve() {
	asked := make(chan struct{}, 2) // it is executed twice
	remove := func(ctx context.Context, run *agent.Run) (any, error) {
		question := agent.Question{Name: "remove", Title: "Remove 7 files?"}
		if err := run.Ask(ctx, question, time.Hour); err != nil {
			return nil, err
		}
		asked <- struct{}{}
		d, err := run.Approve(ctx, question, time.Hour)
		switch {
		case err != nil:
			return nil, err
		case !d.Approved:
			return "kept them: " + d.Note, nil
		}
		return "removed", nil
	}
	execute(`{}`, tasks{"main": remove}, func(api string) error {
		<-asked
		return post(api+"/v1/conversations/examples/runs/main/approvals/remove", `{"approved":false,"note":"those of March are needed"}`)
	})
	// Output: completed: kept them: those of March are needed
}

// Somebody outside ends the wait, with a token and no other credential.
func ExampleWork_WaitCallback() {
	tokens := make(chan string, 2) // it is executed twice
	pay := func(ctx context.Context, run *agent.Run) (any, error) {
		token, err := run.Callback(ctx, "paid")
		if err != nil {
			return nil, err
		}
		tokens <- token // put it into the request to the bank, in a step
		receipt, err := run.WaitCallback(ctx, "paid", 24*time.Hour)
		return fmt.Sprintf("paid, receipt %s", receipt), err
	}
	execute(`{}`, tasks{"main": pay}, func(api string) error {
		return post(api+"/v1/callbacks/"+<-tokens, `{"output":12}`)
	})
	// Output: completed: paid, receipt 12
}
