package lab

import (
	"cmp"
	"context"
	"fmt"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/subagent"
)

// spend pretends to ask a model so many times, and pays for it as the harness does.
func spend(ctx context.Context, run *agent.Run) (any, error) {
	var in struct {
		Calls        int    `json:"calls"`
		Model        string `json:"model"`
		InputTokens  int64  `json:"input_tokens"`
		OutputTokens int64  `json:"output_tokens"`
		MSEach       int64  `json:"ms_each"`
		marks
	}
	if err := run.Input(&in); err != nil {
		return nil, err
	}
	if in.Calls < 0 || in.Calls > 1000 || in.InputTokens < 0 || in.OutputTokens < 0 {
		return nil, fmt.Errorf("calls is %d, with %d and %d tokens; there are up to 1000 calls, and no negative tokens", in.Calls, in.InputTokens, in.OutputTokens)
	}
	for i := range in.Calls {
		c := agent.Call{
			Key: fmt.Sprintf("ask:%d", i+1), Models: []string{cmp.Or(in.Model, "script")},
			Usage: subagent.Usage{Input: in.InputTokens, Output: in.OutputTokens},
		}
		_, err := agent.Step(ctx, run, c.Key, func(ctx context.Context) (int, error) {
			if err := run.Spender().Reserve(ctx, c); err != nil {
				return 0, err
			}
			return i, pause(ctx, ms(in.MSEach))
		})
		if err != nil {
			return nil, err
		}
		if err := run.Spender().Settle(ctx, c); err != nil {
			return nil, err
		}
	}
	if err := in.pass(ctx, run, 0, 0, true); err != nil {
		return nil, err
	}
	return fmt.Sprintf("asked %d times", in.Calls), nil
}
