package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/errand-dev/errand/shared/platform"
	"github.com/errand-dev/errand/shared/subagent"
)

// Step is one finished step of a run or a turn: its result answers every later call
// under the same key.
type Step struct {
	Result subagent.Value `json:"r,omitzero"`
	At     subagent.Time  `json:"at"`
}

// Steps reads the journal of a run or turn: what was finished, by key. Resuming reads
// it once.
func (l *Ledger) Steps(ctx context.Context, of Life) (map[string]Step, error) {
	steps := map[string]Step{}
	q := platform.Query{Partition: of.partition(), Prefix: of.prefix(stepPrefix)}
	for {
		page, items, err := list[Step](ctx, l, q)
		if err != nil {
			return nil, err
		}
		for i, step := range page {
			steps[items[i].Key.Sort[len(q.Prefix):]] = step
		}
		if len(items) < listPage {
			return steps, nil
		}
		q.After = items[len(items)-1].Key.Sort
	}
}

// FinishStep journals a step. If it is there already, that one is returned: the first
// result stands.
func (l *Ledger) FinishStep(ctx context.Context, of Life, key string, s Step) (Step, error) {
	stored, _, err := create(ctx, l, of.key(stepPrefix, key), s)
	return stored, err
}

// Milestone is a durable named point of a run.
type Milestone struct {
	Name     string          `json:"name"`
	Sequence int             `json:"seq"`
	At       subagent.Time   `json:"at"`
	Data     json.RawMessage `json:"data,omitempty"`
}

// MilestoneEvent is the data of a run.milestone event.
type MilestoneEvent struct {
	Name     string          `json:"name"`
	Sequence int             `json:"sequence"`
	Data     json.RawMessage `json:"data,omitempty"`
}

// AddMilestone stores the milestone under its sequence unless one is there: then that
// is returned. The caller is the holder of the run's lease, so a different name means
// that the run took another way after a crash; both keep their order.
func (l *Ledger) AddMilestone(ctx context.Context, of Life, m Milestone) (Milestone, bool, error) {
	return create(ctx, l, of.numbered(milestonePrefix, m.Sequence), m)
}

// Milestones returns the milestones of a run in sequence, from the given one on.
func (l *Ledger) Milestones(ctx context.Context, of Life, from int) ([]Milestone, error) {
	q := platform.Query{Partition: of.partition(), Prefix: of.prefix(milestonePrefix)}
	if from > 0 {
		q.After = of.numbered(milestonePrefix, from-1).Sort
	}
	ms, _, err := list[Milestone](ctx, l, q)
	return ms, err
}

// InboxMessage is a message to a running run: a follow-up, or the end of a child.
type InboxMessage struct {
	ID   string         `json:"id"`
	Text subagent.Value `json:"text"`
	// From is the child run that the message tells of, if it does.
	From   string `json:"from,omitempty"`
	Source string `json:"src,omitempty"`
	Told   string `json:"told,omitempty"`
	// Milestone is the milestone of that run that the message tells of instead of its
	// end; Narrate says how to tell it if nobody but the conversation is left.
	Milestone string        `json:"ms,omitempty"`
	Narrate   bool          `json:"narrate,omitempty"`
	At        subagent.Time `json:"at"`
}

// AddInbox stores message number n of the run's inbox unless there is one; it returns
// the one that stands there. The message counts only once the control row says so.
func (l *Ledger) AddInbox(ctx context.Context, of Life, n int, m InboxMessage) (InboxMessage, bool, error) {
	return create(ctx, l, of.numbered(inboxPrefix, n), m)
}

// Inbox returns messages from up to and not including to.
func (l *Ledger) Inbox(ctx context.Context, of Life, from, to int) ([]InboxMessage, error) {
	if to <= from {
		return nil, nil
	}
	q := platform.Query{Partition: of.partition(), Prefix: of.prefix(inboxPrefix), Limit: to - from}
	if from > 0 {
		q.After = of.numbered(inboxPrefix, from-1).Sort
	}
	ms, _, err := list[InboxMessage](ctx, l, q)
	return ms, err
}

// Message is one entry of the transcript of a conversation.
type Message struct {
	Seq       int64          `json:"seq"`
	ID        string         `json:"id"`
	Role      string         `json:"role"`
	Text      subagent.Value `json:"text"`
	Source    string         `json:"src"`
	Run       string         `json:"run,omitempty"`
	Milestone string         `json:"ms,omitempty"`
	Turn      string         `json:"turn,omitempty"`
	At        subagent.Time  `json:"at"`
}

// ErrPlaceTaken is returned by AddMessage when another message has the number: the
// writer has lost its place in the conversation.
var ErrPlaceTaken = errors.New("another message has this place")

// AddMessage writes message m under m.Seq. A message with the same id that is there
// already is returned instead: the first text stands.
func (l *Ledger) AddMessage(ctx context.Context, o subagent.Owner, m Message) (Message, error) {
	stored, taken, err := create(ctx, l, messageKey(o, m.Seq), m)
	if err == nil && taken && stored.ID != m.ID {
		return stored, fmt.Errorf("adding message %s as number %d: %w", m.ID, m.Seq, ErrPlaceTaken)
	}
	return stored, err
}

// Messages returns up to limit messages with a number above after.
func (l *Ledger) Messages(ctx context.Context, o subagent.Owner, after int64, limit int) ([]Message, error) {
	ms, _, err := list[Message](ctx, l, platform.Query{
		Partition: partition(o), Prefix: messagePrefix, After: numbered(messagePrefix, after), Limit: limit})
	return ms, err
}

const listPage = 1000
