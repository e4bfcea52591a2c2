package lab

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/subagent"
)

// called is the line that each handler leaves per invocation, as event lab.handler.
type called struct {
	Delivery string          `json:"delivery_id"`
	Run      string          `json:"run"`
	Status   subagent.Status `json:"status"`
	Attempt  int             `json:"attempt"`
}

func record(ctx context.Context, d agent.Delivery) error {
	return d.Emit(ctx, "lab.handler", called{d.ID, d.Run.ID, d.Run.Status, d.Attempt})
}

var errAsked = errors.New("the handler failed as asked")

func registerHandlers(r *agent.Registry) error {
	always := func(ctx context.Context, d agent.Delivery) error { return errors.Join(record(ctx, d), errAsked) }
	return errors.Join(
		r.AddHandler("lab-ok", record),
		r.AddHandler("lab-always-fails", always),
		r.AddHandlers("lab-fails-", number(func(n int) agent.Handler {
			return func(ctx context.Context, d agent.Delivery) error {
				if err := record(ctx, d); err != nil || d.Attempt > n {
					return err
				}
				return fmt.Errorf("attempt %d: %w", d.Attempt, errAsked)
			}
		})),
		r.AddHandlers("lab-slow-", number(func(n int) agent.Handler {
			return func(ctx context.Context, d agent.Delivery) error {
				return errors.Join(record(ctx, d), pause(ctx, ms(int64(n))))
			}
		})),
	)
}

// number resolves the rest of a family's name to a handler made for that number.
func number(made func(n int) agent.Handler) func(string) (agent.Handler, bool) {
	return func(rest string) (agent.Handler, bool) {
		n, err := strconv.Atoi(rest)
		if err != nil || n < 0 {
			return nil, false
		}
		return made(n), true
	}
}
