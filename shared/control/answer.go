package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/callback"
	"github.com/errand-dev/errand/shared/ledger"
	"github.com/errand-dev/errand/shared/subagent"
)

// Refusals of an answer. Nothing was written.
var (
	ErrNoTurn     = errors.New("no such turn")
	ErrNoQuestion = errors.New("this was not asked")
	ErrAnswered   = errors.New("it has another answer already, which stands")
)

// Asker is the run or turn that waits for an answer; one of the two is set.
type Asker struct {
	Owner     subagent.Owner
	Run, Turn string
}

// asker is an Asker with its row.
type asker struct {
	life ledger.Life
	over bool
	wake func(context.Context) error
}

// find reads the row of whoever asks. number, if not zero, is the life that it must have.
func (c *Control) find(ctx context.Context, a Asker, number int64) (asker, error) {
	if a.Turn != "" {
		turn, err := c.Ledger.Turn(ctx, a.Owner, a.Turn)
		if err == nil && (turn.Status == "" || number != 0 && number != int64(turn.AcceptedAt)) {
			err = fmt.Errorf("%w: %s", ErrNoTurn, a.Turn)
		}
		return asker{ledger.LifeOfTurn(turn), turn.Done(), func(ctx context.Context) error {
			return c.Ledger.SendTurn(ctx, turn, "answer-"+c.Ledger.Nonce())
		}}, err
	}
	run, err := c.Run(ctx, a.Owner, a.Run)
	if err == nil && number != 0 && number != run.Generation {
		err = fmt.Errorf("%w: %s", agent.ErrNoRun, a.Run)
	}
	return asker{ledger.LifeOf(run), !run.Status.Live(), func(ctx context.Context) error {
		return c.Ledger.SendJob(ctx, subagent.Run{Owner: a.Owner, ID: a.Run}, subagent.Backbone{}, 0)
	}}, err
}

// Decide answers a question. The same decision again is no error while the run or turn lives.
// Errors: agent.ErrNoRun, ErrNoTurn, ErrNoQuestion, agent.ErrRunEnded, ErrAnswered.
func (c *Control) Decide(ctx context.Context, a Asker, question string, d agent.Decision) error {
	to, err := c.find(ctx, a, 0)
	if err != nil {
		return err
	}
	if err := subagent.CheckID(question); err != nil {
		return fmt.Errorf("%w: %w", ErrNoQuestion, err)
	}
	asked, err := c.Ledger.Question(ctx, to.life, question)
	if err != nil {
		return err
	}
	if asked.At == 0 {
		return fmt.Errorf("%w: %s", ErrNoQuestion, question)
	}
	return c.signal(ctx, to, question, d)
}

// Finish ends the wait that a callback's token is for. The same result again is no error while
// the run or turn lives.
// Errors: callback.ErrToken, agent.ErrRunEnded, ErrAnswered.
func (c *Control) Finish(ctx context.Context, t callback.Target, r agent.CallbackResult) error {
	to, err := c.target(ctx, t)
	if err != nil {
		return err
	}
	return c.signal(ctx, to, t.Key, r)
}

func (c *Control) target(ctx context.Context, t callback.Target) (asker, error) {
	to, err := c.find(ctx, Asker{t.Owner, t.Run, t.Turn}, t.Life)
	if errors.Is(err, agent.ErrNoRun) || errors.Is(err, ErrNoTurn) {
		// What it was for has been deleted.
		// Whoever has the token need not hear what it was for.
		err = callback.ErrToken
	}
	return to, err
}

// signal makes the answer durable, then wakes whoever waits for it. If the wake is lost a
// tick finds the answer.
func (c *Control) signal(ctx context.Context, to asker, name string, answer any) error {
	body, err := json.Marshal(answer)
	if err != nil {
		return fmt.Errorf("encoding the answer %s: %w", name, err)
	}
	if to.over {
		return agent.ErrRunEnded
	}
	stored, known, err := c.Ledger.AddSignal(ctx, to.life, name, ledger.Signal{Body: body, At: subagent.At(c.Ledger.Now())})
	if err != nil {
		return err
	}
	if known && !equal(stored.Body, body) {
		return ErrAnswered
	}
	return to.wake(ctx)
}

// equal compares JSON: a platform keeps it in its own form.
func equal(a, b json.RawMessage) bool {
	var x, y bytes.Buffer
	return json.Compact(&x, a) == nil && json.Compact(&y, b) == nil && bytes.Equal(x.Bytes(), y.Bytes())
}

// Report records progress, or a milestone, that somebody outside reports for a run by a
// callback's token. Errors: callback.ErrToken, agent.ErrRunEnded, ErrOnlyRuns.
func (c *Control) Report(ctx context.Context, t callback.Target, p *subagent.Progress, m *ledger.Milestone) error {
	to, err := c.target(ctx, t)
	if err != nil {
		return err
	}
	if t.Run == "" {
		return ErrOnlyRuns
	}
	run, err := c.Ledger.Run(ctx, t.Owner, t.Run)
	if err != nil {
		return err
	}
	reached := run.Milestones
	if m != nil {
		if reached, err = c.reach(ctx, to.life, run, *m); err != nil {
			return err
		}
	}
	next, outcome, err := c.Ledger.UpdateRun(ctx, run, func(r subagent.Run) (subagent.Run, subagent.Outcome) {
		if r.Generation != run.Generation {
			return r, subagent.Stale
		}
		return r.Report(c.Ledger.Now(), p, reached)
	})
	switch {
	case err != nil:
		return err
	case !outcome.OK():
		return agent.ErrRunEnded
	}
	_, err = c.Courier.TellMilestones(ctx, next, "")
	return err
}

// ErrOnlyRuns is returned for a report about a turn, which has neither progress nor milestones.
var ErrOnlyRuns = errors.New("only runs have progress and milestones")

// reach stores the milestone under the next free number, unless one of its name is there,
// and returns how many there are.
func (c *Control) reach(ctx context.Context, life ledger.Life, run subagent.Run, m ledger.Milestone) (int, error) {
	known, err := c.Ledger.Milestones(ctx, life, 0)
	if err != nil {
		return 0, err
	}
	for n := range known {
		if known[n].Name == m.Name {
			return len(known), nil
		}
	}
	for m.Sequence = len(known); ; m.Sequence++ {
		stored, taken, err := c.Ledger.AddMilestone(ctx, life, m)
		if err != nil {
			return 0, err
		}
		if stored.Name == m.Name {
			if !taken {
				err = c.Ledger.Emit(ctx, run.Owner, c.Ledger.NewEvent("run.milestone", run.ID, "", ledger.MilestoneEvent{Name: m.Name, Sequence: m.Sequence, Data: m.Data}))
			}
			return m.Sequence + 1, err
		}
	}
}
