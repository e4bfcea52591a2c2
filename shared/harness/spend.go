package harness

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/model"
	"github.com/errand-dev/errand/shared/subagent"
)

// longestAnswer is what an answer is reserved for, in tokens, if neither the agent nor the
// model bounds it.
const longestAnswer = 16_384

// priced is the call that req will be, with an estimate of what it takes: the prompt by
// its size, corrected by what the newest answer was billed, and the longest answer.
func (x *session) priced(key string, req model.Request) agent.Call {
	name, longest := "", 0
	if d, ok := x.Model.(model.Defaulter); ok {
		name, longest = d.Defaults()
	}
	prompt := int64(x.size())
	if x.billed > x.sized && x.sized > 0 {
		prompt = prompt * x.billed / x.sized
	}
	return agent.Call{
		Key: key, Models: []string{cmp.Or(req.Model, name)}, Limit: x.limits.allowance(),
		Usage: subagent.Usage{Input: prompt, Output: int64(cmp.Or(req.MaxTokens, longest, longestAnswer))},
	}
}

// paid is the call with what the vendor has billed for it.
func paid(c agent.Call, r reply) agent.Call {
	c.Usage = subagent.Usage(r.Usage)
	if r.Model != "" {
		c.Models = append([]string{r.Model}, c.Models...)
	}
	return c
}

// reserve permits the call, or ends the run.
func (x *session) reserve(ctx context.Context, c agent.Call) error {
	err := x.work.Spender().Reserve(ctx, c)
	_, unpriced := errors.AsType[*agent.UnpricedError](err)
	if unpriced || agent.Overspent(err) {
		return Terminal(err)
	}
	return err
}

// askForMore asks people to raise the limit, and waits for them.
func (x *session) askForMore(ctx context.Context, name string, over *agent.BudgetError) error {
	more := over.More()
	var amounts []string
	if more.Cost > 0 {
		amounts = append(amounts, more.Cost.String())
	}
	if more.Tokens > 0 {
		amounts = append(amounts, fmt.Sprintf("%d tokens", more.Tokens))
	}
	detail, _ := json.Marshal(over.Error()) // a string always encodes
	q := agent.Question{Name: name, Title: fmt.Sprintf("May %s spend %s more?", over.Whose(), strings.Join(amounts, " and ")), Detail: detail}
	d, err := x.work.Approve(ctx, q, x.approvalTime())
	switch {
	case errors.Is(err, agent.ErrTimedOut):
		return terminalf("%w; nobody has allowed more in time", over)
	case err != nil:
		return durable(err)
	case !d.Approved && d.Note != "":
		return terminalf("%w; more was not allowed: %s", over, d.Note)
	case !d.Approved:
		return terminalf("%w; more was not allowed", over)
	}
	return durable(x.work.Spender().Raise(ctx, name, over))
}

// unanswered gives back what was reserved for a call that failed, unless the vendor may have
// billed it all the same.
func (x *session) unanswered(ctx context.Context, c agent.Call, failure error) error {
	failed, ok := errors.AsType[*model.Error](failure)
	if !ok {
		return x.lost(ctx, c)
	}
	switch failed.Kind {
	case model.Timeout, model.Broken, model.Ended:
		return x.lost(ctx, c)
	}
	return x.work.Spender().Release(ctx, c.Key)
}

func (x *session) lost(ctx context.Context, c agent.Call) error {
	c.Usage = subagent.Usage{}
	return x.work.Spender().Lose(ctx, c)
}
