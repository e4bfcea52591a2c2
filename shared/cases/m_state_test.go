package cases_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/subagent"
)

// counts registers a task that adds one to its state and may dispatch a child, and that
// fails retryably the first time, after the change.
func (w *world) counts(name, child string) {
	w.Helper()
	w.task(name, func(ctx context.Context, r *agent.Run) (any, error) {
		n, err := agent.ChangeState(ctx, &r.Work, "once", "count", func(n int) (int, error) { return n + 1, nil })
		if err != nil {
			return nil, err
		}
		path, err := r.Path(ctx)
		w.record("state %s %d", path, n)
		if err == nil && r.Attempt == 1 {
			err = agent.Retryable(context.DeadlineExceeded)
		}
		if err == nil && child != "" {
			_, err = r.Dispatch(ctx, agent.Dispatch{Key: "child", Agent: child})
		}
		return nil, err
	})
}

// State belongs to a path of agents, survives the runs and the process, and is changed once
// for each key although the code is executed again.
func TestStateBelongsToThePathOfAnAgent(t *testing.T) {
	bubble(t, func(w *world) {
		w.counts("leaf", "")
		w.counts("trunk", "leaf")
		w.start()
		for i := range 2 {
			w.dispatch(request(fmt.Sprintf("trunk%d", i), "trunk", quietly))
			w.pass(time.Minute)
		}
		w.restart()
		w.dispatch(request("leaf", "leaf", quietly))
		w.pass(time.Minute)
		w.want("states", w.called("state"), []string{
			"state trunk 1", "state trunk 1", "state trunk/leaf 1", "state trunk/leaf 1",
			"state trunk 2", "state trunk 2", "state trunk/leaf 2", "state trunk/leaf 2",
			"state leaf 1", "state leaf 1",
		})
	})
}

// A conversation's agent has its own, which ends with the conversation; a refused change
// leaves it, and so does one that is too large.
func TestTheStateOfAConversationsAgent(t *testing.T) {
	bubble(t, func(w *world) {
		w.must(w.agents.AddChat("keeps", func(ctx context.Context, t *agent.Turn) (string, error) {
			before, err := agent.State[[]string](ctx, &t.Work, "words")
			if err != nil {
				return "", err
			}
			w.record("before %s: %s", t.Message, strings.Join(before, " "))
			words, err := agent.ChangeState(ctx, &t.Work, "add", "words", func(words []string) ([]string, error) {
				if t.Message == "no" {
					return nil, fmt.Errorf("not that one")
				}
				if t.Message == "long" {
					return []string{strings.Repeat("x", agent.MaxState)}, nil
				}
				return append(words, t.Message), nil
			})
			return strings.Join(words, " "), err
		}))
		w.agents.DefaultChat = "keeps"
		w.start()
		for _, c := range []struct{ say, reply, problem string }{
			{"one", "one", ""}, {"no", "", "not that one"}, {"long", "", "state words would have 102404 bytes, at most 102400 are kept"}, {"two", "one two", ""},
		} {
			turn := w.say(c.say)
			w.pass(time.Second)
			w.want(c.say, []string{w.turn(turn.ID).Reply.Inline, w.turn(turn.ID).Problem}, []string{c.reply, c.problem})
		}
		w.must(w.Service.Control.Clear(w.ctx(), owner))
		turn := w.say("new")
		w.pass(time.Second)
		w.want("after the clear", w.turn(turn.ID).Reply.Inline, "new")
		w.want("read", w.called("before"), []string{"before one: ", "before no: one", "before long: one", "before two: one", "before new: "})
		w.want("status", w.turn(turn.ID).Status, subagent.Completed)
	})
}
