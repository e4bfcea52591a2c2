// Package subagent holds the rules of Errand: what a run is, how its states
// follow each other, who may execute it, who may deliver its result, when its
// watcher gives up, and how the backbone of a conversation stays alive.
//
// Every rule is a pure function over plain values. It takes the row as it was read
// and the time, and returns the row as it should become and an Outcome that says
// whether to write it. The caller writes it on the condition that the row has not
// changed since (package ledger), and asks again with the fresh row if it has. So a
// rule is always judged on the very row that it changes, whatever the platform.
//
// Begin with run.go (the row), then lease.go (who executes), claim.go (who
// delivers), giveup.go (who stops watching), decide.go (what a tick does for one
// run) and backbone.go (what keeps ticks coming).
package subagent

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Outcome says what became of a transition.
type Outcome int

const (
	// Apply: the transition is allowed; write the returned row.
	Apply Outcome = iota + 1
	// Mine: the row already carries the caller's own earlier success. Nothing to write.
	Mine
	// Held: another holder's lease or claim, or a back-off, is still running.
	Held
	// Stale: the caller's epoch, token or reading is not the row's any more.
	Stale
	// Ended: the run has a hard end.
	Ended
	// TornDown: the run was given up; its executor must stop.
	TornDown
	// Superseded: a real end has overtaken the give-up.
	Superseded
	// Closed: the slot is closed already.
	Closed
	// NotDue: the condition for closing or giving up does not hold (any more).
	NotDue
	// Full: the conversation has as many outstanding runs as it may have.
	Full
	// Absent: there is no such row.
	Absent
	// Unread: messages wait in the run's inbox that it has not seen.
	Unread
)

var outcomeNames = [...]string{"", "apply", "mine", "held", "stale", "ended", "torn down", "superseded", "closed", "not due", "full", "absent", "unread"}

func (o Outcome) String() string {
	if o < 0 || int(o) >= len(outcomeNames) {
		return fmt.Sprintf("Outcome(%d)", int(o))
	}
	return outcomeNames[o]
}

// OK reports whether the caller's wish is (now, or already) the state of the row.
func (o Outcome) OK() bool { return o == Apply || o == Mine }

// Terms are the durations that leases and claims run by. They are the same for
// every process of a deployment.
type Terms struct {
	// Lease is how long an execution lease or a delivery claim is valid.
	Lease time.Duration
	// Skew is how far apart the clocks of two processes may be. A lease is taken
	// over only strictly after its end plus Skew.
	Skew time.Duration
	// Margin is how long before the end of its lease a holder stops acting on it.
	Margin time.Duration
	// MaxExecutions ends a run as an error after so many executions that died.
	MaxExecutions int
	// Process names this process when it is known to be the only one alive (the
	// embedded platform holds its data folder's lock). Leases and claims of any
	// other process are then free at once. Empty when nobody can know that.
	Process string
}

// Token returns a holder's token: nonce must be fresh for each receive.
func (t Terms) Token(nonce string) string {
	if t.Process == "" {
		return nonce
	}
	return t.Process + "/" + nonce
}

// dead reports whether the token's process is known to have ended.
func (t Terms) dead(token string) bool {
	return t.Process != "" && !strings.HasPrefix(token, t.Process+"/")
}

// DefaultTerms are those of design.md sections 1 and 4.
var DefaultTerms = Terms{Lease: time.Minute, Skew: 5 * time.Second, Margin: 5 * time.Second, MaxExecutions: 10}

// WithLease returns the terms with another lease, its margin kept below a quarter of it.
func (t Terms) WithLease(lease time.Duration) Terms {
	t.Lease = lease
	t.Margin = min(t.Margin, lease/4)
	return t
}

// RenewEvery is the period in which a holder renews: three times per lease.
func (t Terms) RenewEvery() time.Duration { return t.Lease / 3 }

// BeatTimeout bounds one renewal.
func (t Terms) BeatTimeout() time.Duration { return t.RenewEvery() / 4 }

// FirstBeat is the pause before the holder of a lease until then renews it first,
// counted from when it was taken.
func (t Terms) FirstBeat(until Time, now time.Time) time.Duration {
	return max(until.Add(t.RenewEvery()-t.Lease).Time().Sub(now), 0)
}

// Beat tells a holder when to renew next, or that it must stop: its renewals fail, and
// by the time another one had failed, its lease would be too near its end.
func (t Terms) Beat(until Time, failed bool, now time.Time) (pause time.Duration, stop bool) {
	if !failed {
		return t.RenewEvery(), false
	}
	pause = t.RenewEvery() / 10
	return pause, At(now.Add(pause+t.BeatTimeout())) >= until.Add(-t.Margin)
}

// Late reports whether a lease until then is too near its end to begin anything under.
func (t Terms) Late(until Time, now time.Time) bool { return At(now) >= until.Add(-t.Margin) }

// Time is a moment in Unix milliseconds; zero means unset. Rows carry it, rules
// compare it.
type Time int64

// At converts t.
func At(t time.Time) Time {
	if t.IsZero() {
		return 0
	}
	return Time(t.UnixMilli())
}

// Time converts back; unset is the zero time.
func (t Time) Time() time.Time {
	if t == 0 {
		return time.Time{}
	}
	return time.UnixMilli(int64(t)).UTC()
}

// Add returns t later by d.
func (t Time) Add(d time.Duration) Time { return t + Time(d.Milliseconds()) }

// ErrInvalidID is wrapped by every refusal of an id.
var ErrInvalidID = errors.New("invalid id")

// MaxID is the longest id, in characters.
const MaxID = 128

// CheckID reports whether id may name a conversation, turn, run or tenant:
// 1 to 128 characters from A-Za-z0-9._:-
func CheckID(id string) error {
	if id == "" {
		return fmt.Errorf("%w: it is empty", ErrInvalidID)
	}
	if len(id) > MaxID {
		return fmt.Errorf("%w: it has %d characters, at most %d are allowed", ErrInvalidID, len(id), MaxID)
	}
	for i := range len(id) {
		if !idByte(id[i]) {
			return fmt.Errorf("%w: character %q at position %d; allowed are A-Z a-z 0-9 . _ : -", ErrInvalidID, id[i], i+1)
		}
	}
	return nil
}

func idByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' ||
		c == '.' || c == '_' || c == ':' || c == '-'
}

// Owner names a conversation of a tenant. It leads every key.
type Owner struct {
	Tenant       string `json:"tenant"`
	Conversation string `json:"conversation"`
}
