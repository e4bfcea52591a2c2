package ledger

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/errand-dev/errand/shared/platform"
	"github.com/errand-dev/errand/shared/subagent"
)

// Signal is the answer from outside that a run or turn waits for.
type Signal struct {
	Body json.RawMessage `json:"body,omitempty"`
	At   subagent.Time   `json:"at"`
}

// AddSignal stores the signal of that name unless there is one: the first stands, and is
// returned.
func (l *Ledger) AddSignal(ctx context.Context, of Life, name string, s Signal) (stored Signal, known bool, err error) {
	return create(ctx, l, of.key(signalPrefix, name), s)
}

// Signal reads a signal; its At is zero if it has not come.
func (l *Ledger) Signal(ctx context.Context, of Life, name string) (Signal, error) {
	r, err := load[Signal](ctx, l, of.key(signalPrefix, name))
	return r.value, err
}

// Question is what a run or turn asks people while it waits for the signal of its name.
type Question struct {
	Name  string `json:"name"`
	Title string `json:"title"`
	// Detail is JSON that helps to decide, like the arguments of a call.
	Detail json.RawMessage `json:"detail,omitempty"`
	At     subagent.Time   `json:"at"`
	Until  subagent.Time   `json:"until,omitempty"`
}

// Ask stores a question unless it was asked before.
func (l *Ledger) Ask(ctx context.Context, of Life, q Question) (known bool, err error) {
	_, known, err = create(ctx, l, of.key(questionPrefix, q.Name), q)
	return known, err
}

// Question reads a question; its At is zero if it was not asked.
func (l *Ledger) Question(ctx context.Context, of Life, name string) (Question, error) {
	r, err := load[Question](ctx, l, of.key(questionPrefix, name))
	return r.value, err
}

// Unanswered returns the questions without a signal, in the order of their names.
func (l *Ledger) Unanswered(ctx context.Context, of Life) ([]Question, error) {
	asked, _, err := list[Question](ctx, l, platform.Query{Partition: of.partition(), Prefix: of.prefix(questionPrefix)})
	if err != nil || len(asked) == 0 {
		return nil, err
	}
	q := platform.Query{Partition: of.partition(), Prefix: of.prefix(signalPrefix)}
	_, items, err := list[Signal](ctx, l, q)
	if err != nil {
		return nil, err
	}
	answered := map[string]bool{}
	for _, item := range items {
		answered[strings.TrimPrefix(item.Key.Sort, q.Prefix)] = true
	}
	return slices.DeleteFunc(asked, func(q Question) bool { return answered[q.Name] }), nil
}

// Over reports whether the wait of a run or turn is over. It reads what the wait names.
// A run that is not there (any more) counts as ended.
func (l *Ledger) Over(ctx context.Context, of Life, w subagent.Wait) (bool, error) {
	var seen subagent.Seen
	if w.Over(seen, l.Now()) {
		return true, nil
	}
	runs, err := l.Runs(ctx, of.owner, w.Runs)
	if err != nil {
		return false, err
	}
	for _, r := range runs {
		if !r.Status.Live() {
			seen.Ended++
		}
	}
	if w.Milestone != "" && len(runs) == 1 && seen.Ended == 0 {
		reached, err := l.Milestones(ctx, LifeOf(runs[0]), 0)
		if err != nil {
			return false, err
		}
		seen.Reached = slices.ContainsFunc(reached, func(m Milestone) bool { return m.Name == w.Milestone })
	}
	if w.Signal != "" {
		s, err := l.Signal(ctx, of, w.Signal)
		if err != nil {
			return false, err
		}
		seen.Signalled = s.At != 0
	}
	return w.Over(seen, l.Now()), nil
}
