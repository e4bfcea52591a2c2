package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/subagent"
)

// needsApproval reports whether somebody must approve the call. One that could not be made
// anyway is told to the model at once.
func (x *session) needsApproval(c wish) bool {
	if !slices.Contains(x.begin.Approve, c.Name) {
		return false
	}
	_, _, problem := x.admit(c)
	return problem == ""
}

// approvals asks for approval of those of the calls that need it, all of them before it waits
// for the first, and returns what the model is told of those that must not be made.
func (x *session) approvals(ctx context.Context, n int, calls []wish, of []int) (map[int]outcome, error) {
	of = slices.DeleteFunc(slices.Clone(of), func(i int) bool { return !x.needsApproval(calls[i]) })
	for _, i := range of {
		if err := x.work.Ask(ctx, question(n, i, calls[i]), x.approvalTime()); err != nil {
			return nil, durable(err)
		}
	}
	refused := map[int]outcome{}
	for _, i := range of {
		d, err := x.work.Approve(ctx, question(n, i, calls[i]), x.approvalTime())
		switch {
		case errors.Is(err, agent.ErrTimedOut):
			refused[i] = outcome{Failed: true, Text: "Nobody has approved this call in time. Nothing was done."}
		case err != nil:
			return nil, durable(err)
		case !d.Approved && d.Note != "":
			refused[i] = outcome{Failed: true, Text: "Nothing was done, as the call was not approved: " + d.Note}
		case !d.Approved:
			refused[i] = outcome{Failed: true, Text: "The call was not approved. Nothing was done."}
		}
	}
	return refused, nil
}

// approvalTime is how long people have to decide.
func (x *session) approvalTime() time.Duration {
	if x.run == nil {
		return min(x.limits.Approval, subagent.LongestTurnWait)
	}
	return x.limits.Approval
}

// shownArguments is how much of the arguments people are shown; less, if JSON's escapes make
// that more than a question may have.
const shownArguments = 8 << 10

// question asks about call i of answer n.
func question(n, i int, c wish) agent.Question {
	detail := shown(c, shownArguments)
	for most := shownArguments / 2; len(detail) > agent.MaxDetail; most /= 2 {
		detail = shown(c, most)
	}
	return agent.Question{
		Name:   fmt.Sprintf("approve:%d:%d", n, i),
		Title:  fmt.Sprintf("May the agent call %s?", c.Name),
		Detail: detail,
	}
}

// shown is a call as people see it, with no more than so many bytes of its arguments.
func shown(c wish, most int) json.RawMessage {
	arguments := presentable(c.Arguments)
	if len(arguments) > most {
		arguments, _ = json.Marshal(head(c.Arguments, most) + "…") // a string always encodes
	}
	detail, _ := json.Marshal(struct { // as do these
		Tool      string          `json:"tool"`
		Arguments json.RawMessage `json:"arguments"`
	}{c.Name, arguments})
	return detail
}
