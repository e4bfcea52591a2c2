package ledger

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/errand-dev/errand/shared/platform"
	"github.com/errand-dev/errand/shared/subagent"
)

// Backbone reads the backbone of a conversation; it is empty if there is none yet.
func (l *Ledger) Backbone(ctx context.Context, o subagent.Owner) (subagent.Backbone, error) {
	r, err := load[subagent.Backbone](ctx, l, backboneKey(o))
	return backboneOf(r), err
}

// backboneOf completes a row that was read. Its Open is never nil: by that UpdateBackbone
// tells a hint that there is no backbone from no hint.
func backboneOf(r row[subagent.Backbone]) subagent.Backbone {
	r.value.Version = r.version
	if r.value.Open == nil {
		r.value.Open = map[string]subagent.Reservation{}
	}
	return r.value
}

// UpdateBackbone applies rule to the backbone. See UpdateRun.
func (l *Ledger) UpdateBackbone(ctx context.Context, o subagent.Owner, hint subagent.Backbone, rule func(subagent.Backbone) (subagent.Backbone, subagent.Outcome)) (subagent.Backbone, subagent.Outcome, error) {
	known := row[subagent.Backbone]{hint, hint.Version}
	if hint.Version == 0 && hint.Open != nil {
		known.version = absent
	}
	r, outcome, err := update(ctx, l, backboneKey(o), known, nil,
		func(b subagent.Backbone, version int64) (subagent.Backbone, subagent.Outcome) {
			b.Version = version
			return rule(b)
		})
	return backboneOf(r), outcome, err
}

// Run reads a control row; its Status is empty if there is none.
func (l *Ledger) Run(ctx context.Context, o subagent.Owner, id string) (subagent.Run, error) {
	r, err := load[subagent.Run](ctx, l, runKey(o, id))
	return runOf(r, o, id), err
}

// Runs reads control rows in the order of ids. It is not a snapshot.
func (l *Ledger) Runs(ctx context.Context, o subagent.Owner, ids []string) ([]subagent.Run, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	keys := make([]platform.Key, len(ids))
	for i, id := range ids {
		keys[i] = runKey(o, id)
	}
	items, err := l.store.GetMany(ctx, keys)
	if err != nil {
		return nil, fmt.Errorf("reading %d runs of %s: %w", len(ids), partition(o), failed(err))
	}
	runs := make([]subagent.Run, len(ids))
	for i, item := range items {
		r, err := decode[subagent.Run](item)
		if err != nil {
			return nil, err
		}
		runs[i] = runOf(r, o, ids[i])
	}
	return runs, nil
}

// UpdateRun applies rule to the control row of hint.ID until the result is written or
// refused, and returns the row as it then is. With hint.Version the hint stands for
// the row at first; a stale one costs a write, never a wrong decision. The rule may
// be called several times.
func (l *Ledger) UpdateRun(ctx context.Context, hint subagent.Run, rule func(subagent.Run) (subagent.Run, subagent.Outcome)) (subagent.Run, subagent.Outcome, error) {
	r, outcome, err := update(ctx, l, runKey(hint.Owner, hint.ID), row[subagent.Run]{hint, hint.Version}, expireRun,
		func(r subagent.Run, version int64) (subagent.Run, subagent.Outcome) {
			return rule(runOf(row[subagent.Run]{r, version}, hint.Owner, hint.ID))
		})
	return runOf(r, hint.Owner, hint.ID), outcome, err
}

// BeginRun writes the row of a dispatched run unless a real run has its id, which is
// then returned (subagent.Run.Begin).
func (l *Ledger) BeginRun(ctx context.Context, fresh subagent.Run) (subagent.Run, subagent.Outcome, error) {
	_, taken, err := create(ctx, l, runKey(fresh.Owner, fresh.ID), fresh)
	if err != nil {
		return fresh, 0, err
	}
	if !taken {
		fresh.Version = 1
		return fresh, subagent.Apply, nil
	}
	return l.UpdateRun(ctx, subagent.Run{Owner: fresh.Owner, ID: fresh.ID}, func(r subagent.Run) (subagent.Run, subagent.Outcome) {
		return r.Begin(fresh)
	})
}

// runOf completes a decoded row with what its key says.
func runOf(r row[subagent.Run], o subagent.Owner, id string) subagent.Run {
	r.value.Owner, r.value.ID, r.value.Version = o, id, r.version
	return r.value
}

// tombstoneLife is longer than any process can stall over a dispatch.
const tombstoneLife = 48 * time.Hour

func expireRun(r subagent.Run) time.Time {
	switch {
	case r.Status == subagent.Void:
		return r.DispatchedAt.Time().Add(tombstoneLife)
	case r.Finish.State == subagent.Open || r.Finish.State == subagent.Dead:
		return time.Time{}
	}
	return r.Settled().Time().Add(subagent.Retention)
}

// ListRuns returns up to limit control rows after the given id, in the order of ids.
func (l *Ledger) ListRuns(ctx context.Context, o subagent.Owner, after string, limit int) ([]subagent.Run, error) {
	q := platform.Query{Partition: partition(o), Prefix: runPrefix, Limit: limit}
	if after != "" {
		q.After = runPrefix + after
	}
	values, items, err := list[subagent.Run](ctx, l, q)
	for i := range values {
		id := strings.TrimPrefix(items[i].Key.Sort, runPrefix)
		values[i] = runOf(row[subagent.Run]{values[i], items[i].Version}, o, id)
	}
	return values, err
}

// Turn reads a turn; its Status is empty if there is none.
func (l *Ledger) Turn(ctx context.Context, o subagent.Owner, id string) (subagent.Turn, error) {
	r, err := load[subagent.Turn](ctx, l, turnKey(o, id))
	return turnOf(r, o), err
}

// CreateTurn stores a turn under its id unless there is one: then that is returned,
// and known is true.
func (l *Ledger) CreateTurn(ctx context.Context, t subagent.Turn) (stored subagent.Turn, known bool, err error) {
	got, known, err := create(ctx, l, turnKey(t.Owner, t.ID), t)
	got.Owner = t.Owner
	if !known {
		got.Version = 1
	}
	return got, known, err
}

// UpdateTurn applies rule to a turn. See UpdateRun.
func (l *Ledger) UpdateTurn(ctx context.Context, hint subagent.Turn, rule func(subagent.Turn) (subagent.Turn, subagent.Outcome)) (subagent.Turn, subagent.Outcome, error) {
	r, outcome, err := update(ctx, l, turnKey(hint.Owner, hint.ID), row[subagent.Turn]{hint, hint.Version}, expireTurn,
		func(t subagent.Turn, version int64) (subagent.Turn, subagent.Outcome) {
			if version == 0 {
				return t, subagent.Absent
			}
			return rule(turnOf(row[subagent.Turn]{t, version}, hint.Owner))
		})
	return turnOf(r, hint.Owner), outcome, err
}

func turnOf(r row[subagent.Turn], o subagent.Owner) subagent.Turn {
	r.value.Owner, r.value.Version = o, r.version
	return r.value
}

func expireTurn(t subagent.Turn) time.Time {
	if !t.Done() {
		return time.Time{}
	}
	return t.EndedAt.Time().Add(subagent.Retention)
}

// ListTurns returns up to limit turns after the given id, in the order of ids.
func (l *Ledger) ListTurns(ctx context.Context, o subagent.Owner, after string, limit int) ([]subagent.Turn, error) {
	q := platform.Query{Partition: partition(o), Prefix: turnPrefix, Limit: limit}
	if after != "" {
		q.After = turnPrefix + after
	}
	values, items, err := list[subagent.Turn](ctx, l, q)
	for i := range values {
		values[i] = turnOf(row[subagent.Turn]{values[i], items[i].Version}, o)
	}
	return values, err
}

// Conversation reads the row of a conversation; CreatedAt is zero if there is none.
func (l *Ledger) Conversation(ctx context.Context, o subagent.Owner) (subagent.Conversation, error) {
	r, err := load[subagent.Conversation](ctx, l, conversationKey(o))
	r.value.Owner, r.value.Version = o, r.version
	return r.value, err
}

// UpdateConversation applies rule to the row of a conversation. See UpdateRun.
func (l *Ledger) UpdateConversation(ctx context.Context, hint subagent.Conversation, rule func(subagent.Conversation) (subagent.Conversation, subagent.Outcome)) (subagent.Conversation, subagent.Outcome, error) {
	owner := hint.Owner
	r, outcome, err := update(ctx, l, conversationKey(owner), row[subagent.Conversation]{hint, hint.Version}, nil,
		func(c subagent.Conversation, version int64) (subagent.Conversation, subagent.Outcome) {
			c.Owner, c.Version = owner, version
			return rule(c)
		})
	r.value.Owner, r.value.Version = owner, r.version
	return r.value, outcome, err
}
