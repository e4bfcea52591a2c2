package ledger

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/errand-dev/errand/shared/platform"
	"github.com/errand-dev/errand/shared/schedule"
	"github.com/errand-dev/errand/shared/subagent"
)

// Wake is the body of every queue message: it names a row. The row decides what is
// still to do; a message that comes twice, late or not at all changes nothing.
type Wake struct {
	Owner subagent.Owner `json:"owner"`
	Turn  string         `json:"turn,omitempty"`
	Run   string         `json:"run,omitempty"`
	// Tick is the number of a tick, Rung its place in the cadence.
	Tick int64 `json:"tick,omitempty"`
	Rung int   `json:"rung,omitempty"`
	// Timer, on the ticks queue, is that of a schedule; it is no tick then.
	Timer *schedule.Timer `json:"timer,omitempty"`
	// Row is the run as its dispatcher wrote it, at Version: a hint that saves a read.
	Row     *subagent.Run `json:"row,omitempty"`
	Version int64         `json:"version,omitempty"`
	// Backbone and BackboneVersion are the same for the conversation's backbone, when small.
	Backbone        *subagent.Backbone `json:"backbone,omitempty"`
	BackboneVersion int64              `json:"backbone_version,omitempty"`
	// Tail is the number of the next batch of events, as it was at TailAt.
	Tail   int64         `json:"tail,omitempty"`
	TailAt subagent.Time `json:"tail_at,omitempty"`
}

// ErrPoison is wrapped by every refusal of a message that can never be handled.
var ErrPoison = errors.New("poison message")

// ParseWake decodes the body of a message of the given queue.
func ParseWake(queue string, body []byte) (Wake, error) {
	var w Wake
	if err := json.Unmarshal(body, &w); err != nil {
		return w, fmt.Errorf("%w: %d bytes that are no wake: %w", ErrPoison, len(body), err)
	}
	names := map[string]string{platform.Turns: w.Turn, platform.Runs: w.Run, platform.Ticks: "tick"}
	for _, id := range []string{w.Owner.Tenant, w.Owner.Conversation, names[queue]} {
		if err := subagent.CheckID(id); err != nil {
			return w, fmt.Errorf("%w on queue %s: %w", ErrPoison, queue, err)
		}
	}
	if queue == platform.Ticks && w.Timer != nil {
		return w, checkTimer(*w.Timer)
	}
	if queue == platform.Ticks && w.Tick <= 0 {
		return w, fmt.Errorf("%w on queue %s: tick number %d", ErrPoison, queue, w.Tick)
	}
	return w, nil
}

// Hint returns the run that the message carries, ready for UpdateRun.
func (w Wake) Hint() subagent.Run {
	hint := subagent.Run{}
	if w.Row != nil && w.Row.ID == w.Run {
		hint, hint.Version = *w.Row, w.Version
	}
	hint.Owner, hint.ID = w.Owner, w.Run
	return hint
}

// SendTurn wakes the conversation of a turn. A repeated send needs another attempt: the
// queue forgets a message's deduplication id only after five minutes. The id tells a turn
// from one of the same name that was cleared.
func (l *Ledger) SendTurn(ctx context.Context, t subagent.Turn, attempt string) error {
	dedup := fmt.Sprintf("%s/%s/%d/%s", partition(t.Owner), t.ID, t.AcceptedAt, attempt)
	return l.send(ctx, Wake{Owner: t.Owner, Turn: t.ID}, platform.Message{
		Queue: platform.Turns, Group: Digest(partition(t.Owner)), Dedup: Digest(dedup)})
}

// BackboneHint returns the backbone that the message carries, ready for UpdateBackbone.
func (w Wake) BackboneHint() subagent.Backbone {
	if w.Backbone == nil {
		return subagent.Backbone{}
	}
	b := *w.Backbone
	b.Version = w.BackboneVersion
	return b
}

// smallBackbone is how many reservations a backbone may have to travel as a hint.
const smallBackbone = 4

// SendJob wakes an executor for the run, after delay. The row, the backbone and the end
// of the event log travel along as hints if they are known.
func (l *Ledger) SendJob(ctx context.Context, r subagent.Run, b subagent.Backbone, delay time.Duration) error {
	w := Wake{Owner: r.Owner, Run: r.ID}
	if r.Version > 0 {
		w.Row, w.Version = &r, r.Version
	}
	if b.Version > 0 && len(b.Open) <= smallBackbone {
		w.Backbone, w.BackboneVersion = &b, b.Version
	}
	if known, ok := l.tails.get(r.Owner); ok {
		w.Tail, w.TailAt = known.next, subagent.At(known.at)
	}
	return l.send(ctx, w, platform.Message{Queue: platform.Runs, Group: r.Owner.Tenant, Delay: min(delay, platform.MaxDelay)})
}

// SendTick sends tick k of the conversation's backbone.
func (l *Ledger) SendTick(ctx context.Context, o subagent.Owner, k int64, rung int, delay time.Duration) error {
	return l.send(ctx, Wake{Owner: o, Tick: k, Rung: rung}, platform.Message{
		Queue: platform.Ticks, Group: o.Tenant, Delay: delay, Dedup: Digest(partition(o))[:40] + "-" + strconv.FormatInt(k, 10)})
}

func (l *Ledger) send(ctx context.Context, w Wake, m platform.Message) error {
	body, err := json.Marshal(w)
	if err != nil {
		return fmt.Errorf("encoding a wake: %w", err)
	}
	m.Body = body
	if err := l.store.Send(ctx, m); err != nil {
		return fmt.Errorf("sending to %s: %w", m.Queue, failed(err))
	}
	return nil
}

// Digest maps any text to 64 characters that every queue and scheduler accepts.
func Digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}
