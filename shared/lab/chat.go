package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/subagent"
)

const usage = `I know: dispatch AGENT JSON [DETACHED-JSON] | list | cancel RUN | say TEXT | sleep MS | await RUN MILESTONE [MS] | join RUN…`

// chat is a scripted conversation agent: it does what the message says, through the
// same calls that a model's tools would make, and echoes injected turns. A schedule's says what
// to do as a user's does.
func chat(ctx context.Context, t *agent.Turn) (string, error) {
	if t.Kind != subagent.UserTurn && t.Kind != subagent.ScheduleTurn {
		return "I heard: " + t.Message, nil
	}
	command, rest, _ := strings.Cut(strings.TrimSpace(t.Message), " ")
	switch command {
	case "dispatch":
		return dispatch(ctx, t, rest)
	case "list":
		return list(ctx, t)
	case "cancel":
		run, err := t.Cancel(ctx, strings.TrimSpace(rest), "")
		if errors.Is(err, agent.ErrNoRun) {
			return err.Error(), nil
		}
		return fmt.Sprintf("run %s is %s", run.ID, run.Status), err
	case "say":
		return rest, nil
	case "sleep":
		n, err := strconv.ParseInt(strings.TrimSpace(rest), 10, 64)
		if err != nil {
			return usage, nil
		}
		return fmt.Sprintf("slept %d ms", n), pause(ctx, ms(n))
	case "await":
		return await(ctx, t, strings.Fields(rest))
	case "join":
		return joinRuns(ctx, t, strings.Fields(rest))
	}
	return usage, nil
}

func dispatch(ctx context.Context, t *agent.Turn, rest string) (string, error) {
	name, arguments, _ := strings.Cut(rest, " ")
	input, detached, err := twoValues(arguments)
	if err != nil {
		return "that is not JSON: " + err.Error(), nil
	}
	notice, budget, err := agent.ParseDetached(detached)
	if err != nil {
		return "not dispatched: " + err.Error(), nil
	}
	run, err := t.Dispatch(ctx, agent.Dispatch{Agent: name, Input: input, Notice: notice, Budget: budget})
	var full *agent.CapError
	switch {
	case errors.As(err, &full), errors.Is(err, agent.ErrUnknownAgent), errors.Is(err, agent.ErrUnknownHandler),
		errors.Is(err, subagent.ErrInvalidBudget), errors.Is(err, agent.ErrAgentDisabled), errors.Is(err, agent.ErrInMaintenance):
		return "not dispatched: " + err.Error(), nil
	case err != nil:
		return "", agent.Retryable(err)
	}
	return "dispatched " + run.ID, nil
}

// twoValues splits text into one or two JSON values.
func twoValues(text string) (first, second json.RawMessage, err error) {
	d := json.NewDecoder(strings.NewReader(text))
	if err := d.Decode(&first); err != nil && !errors.Is(err, io.EOF) {
		return nil, nil, err
	}
	if err := d.Decode(&second); err != nil && !errors.Is(err, io.EOF) {
		return nil, nil, err
	}
	return first, second, nil
}

func list(ctx context.Context, t *agent.Turn) (string, error) {
	runs, err := t.Runs(ctx)
	if err != nil {
		return "", agent.Retryable(err)
	}
	if len(runs) == 0 {
		return "nothing is running", nil
	}
	lines := make([]string, len(runs))
	for i, r := range runs {
		lines[i] = fmt.Sprintf("%s %s %s", r.ID, r.Agent, r.Status)
	}
	return strings.Join(lines, "\n"), nil
}
