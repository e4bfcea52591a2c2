package ledger

import (
	"context"

	"github.com/errand-dev/errand/shared/subagent"
)

// Controls reads what operators have set for the agents of the deployment.
func (l *Ledger) Controls(ctx context.Context) (subagent.Controls, error) {
	r, err := load[subagent.Controls](ctx, l, controlsKey())
	return r.value, err
}

// UpdateControls applies rule to it. See UpdateRun.
func (l *Ledger) UpdateControls(ctx context.Context, rule func(subagent.Controls) (subagent.Controls, subagent.Outcome)) (subagent.Controls, subagent.Outcome, error) {
	r, outcome, err := update(ctx, l, controlsKey(), row[subagent.Controls]{}, nil,
		func(c subagent.Controls, _ int64) (subagent.Controls, subagent.Outcome) { return rule(c) })
	return r.value, outcome, err
}
