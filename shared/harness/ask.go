package harness

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/model"
	"github.com/errand-dev/errand/shared/subagent"
)

const (
	firstWait = time.Second
	// longestWait is how long a call is waited for in place; a vendor that asks for more
	// puts the run off.
	longestWait = 30 * time.Second
)

// errTooLong: the vendor says that the context does not fit.
var errTooLong = errors.New("the work no longer fits the model's context window")

// ask makes model call n, or answers it from the journal.
func (x *session) ask(ctx context.Context, n int) (reply, error) {
	x.compact(x.limits.ContextTokens, x.limits.KeepMessages)
	idempotency := idempotencyKey(x.work, modelKey(n))
	for refusals := 0; ; {
		r, err := x.answer(ctx, n, idempotency)
		if over, ok := errors.AsType[*agent.BudgetError](err); ok && x.limits.AskWhenSpent {
			refusals++
			if err := x.askForMore(ctx, fmt.Sprintf("spend:%d:%d", n, refusals), over); err != nil {
				return r, err
			}
			continue
		}
		if !errors.Is(err, errTooLong) || !x.compact(x.size()/2, 1) {
			return r, err
		}
		// Another request needs another key.
		idempotency += "-shorter"
	}
}

// answer asks in a step of the journal, and settles what that has cost.
func (x *session) answer(ctx context.Context, n int, idempotency string) (reply, error) {
	req, key := x.request(), modelKey(n)
	c := x.priced(key, req)
	var got *reply
	r, err := step(ctx, x, key, func(ctx context.Context) (reply, error) {
		r, err := x.generate(ctx, n, idempotency, req, c)
		if err == nil {
			got = &r
			x.answered(ctx, r)
		}
		return r, err
	})
	switch {
	case err == nil:
		x.sized, x.billed = int64(x.size()), subagent.Usage(r.Usage).Prompt()
		return r, durable(x.work.Spender().Settle(ctx, paid(c, r)))
	case got != nil:
		return r, errors.Join(err, x.work.Spender().Lose(ctx, paid(c, *got)))
	}
	return r, err
}

func (x *session) request() model.Request {
	req := model.Request{
		Model: x.begin.Model, System: x.begin.Instructions, Messages: slices.Clone(x.messages),
		Tools: x.offered, MaxTokens: x.limits.AnswerTokens,
	}
	if x.output != nil {
		req.Schema = x.output.raw
	}
	return req
}

// textEvent is the ephemeral event of what a model says, as it says it.
const textEvent = "model.text"

type textShown struct {
	Call int    `json:"call"`
	Text string `json:"text"`
}

// generate makes call n of the model. What it says is shown as it comes.
func (x *session) generate(ctx context.Context, n int, key string, req model.Request, c agent.Call) (reply, error) {
	if x.InBackground {
		return x.fetch(ctx, n, key, req, c)
	}
	res, err := tries(ctx, x, req, c, func() (model.Response, error) {
		return x.Model.Generate(ctx, key, req, func(text string) { x.work.Ephemeral(textEvent, textShown{n, text}) })
	})
	return replyOf(res), err
}

// tries makes a call, and makes it again after a failure that may pass. It is reserved
// before it is made, and given back if it fails.
func tries[T any](ctx context.Context, x *session, req model.Request, c agent.Call, call func() (T, error)) (T, error) {
	var none T
	for attempt := 1; ; attempt++ {
		if err := x.reserve(ctx, c); err != nil {
			return none, err
		}
		value, err := call()
		if err == nil {
			return value, nil
		}
		if err := x.unanswered(ctx, c, err); err != nil {
			return none, err
		}
		if ctx.Err() != nil {
			return none, context.Cause(ctx)
		}
		after, passes := model.Retryable(err)
		if !passes {
			return none, plain(err, req.Model)
		}
		if attempt >= x.limits.ModelAttempts || after > longestWait {
			return none, agent.Retryable(fmt.Errorf("the model did not answer: %w", err))
		}
		if err := wait(ctx, max(after, backoff(attempt))); err != nil {
			return none, err
		}
	}
}

// backoff doubles with each attempt; its random part keeps many runs apart.
func backoff(attempt int) time.Duration {
	d := min(firstWait<<(attempt-1), longestWait)
	return d + rand.N(d/4)
}

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// plain says in a sentence why a call failed for good.
func plain(err error, name string) error {
	failed, ok := errors.AsType[*model.Error](err)
	if !ok {
		return terminalf("the model failed: %w", err)
	}
	switch failed.Kind {
	case model.TooLong:
		return Terminal(fmt.Errorf("%w: %w", errTooLong, failed.Err))
	case model.Unauthorized:
		return terminalf("the model's provider refused our credentials: %w", failed.Err)
	case model.NotFound:
		return terminalf("the model's provider knows no model %q: %w", name, failed.Err)
	case model.Invalid:
		return terminalf("the model's provider refused the request: %w", failed.Err)
	}
	return terminalf("the model failed: %w", err)
}
