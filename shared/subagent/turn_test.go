package subagent_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/errand-dev/errand/shared/subagent"
)

func TestAConversationHasOneTurnAtATime(t *testing.T) {
	place := func(turn, holder string, until float64) subagent.Conversation {
		c := subagent.Conversation{Turn: turn, Messages: 7, Exec: subagent.Lease{Epoch: 2, Holder: holder}}
		if until != 0 {
			c.Exec.Until = at(until)
		}
		return c
	}
	taken := func(turn, holder string, until float64) subagent.Conversation {
		c := place(turn, holder, until)
		c.Exec.Epoch, c.BegunAt = 3, at(until-60)
		return c
	}
	type result = subagent.Conversation
	for _, c := range []struct {
		name string
		on   result
		rule func(result) (result, subagent.Outcome)
		want subagent.Outcome
		then result
	}{
		{"a free place is taken", place("", "", 0), begin(1), subagent.Apply, taken("t", "me", 61)},
		{"one's own place is mine", place("t", "me", 60), begin(30), subagent.Mine, place("t", "me", 60)},
		{"another receive of the turn is held", place("t", "x", 60), begin(30), subagent.Held, place("t", "x", 60)},
		{"also exactly at lease and skew", place("t", "x", 60), begin(65), subagent.Held, place("t", "x", 60)},
		{"a lapsed receive of the turn is taken over", place("t", "x", 60), begin(65.001), subagent.Apply, taken("t", "me", 125.001)},
		{"a turn that yielded is taken up again", place("t", "", 0), begin(1), subagent.Apply, taken("t", "me", 61)},
		{"another turn's place is held", place("u", "x", 60), begin(30), subagent.Held, place("u", "x", 60)},
		{"also when its lease has lapsed", place("u", "x", 60), begin(100), subagent.Held, place("u", "x", 60)},
		{"also when it has yielded", place("u", "", 0), begin(100), subagent.Held, place("u", "", 0)},
		{"a holder renews", place("t", "me", 60), renew(30), subagent.Apply, place("t", "me", 90)},
		{"a late renewal shortens nothing", place("t", "me", 100), renew(30), subagent.Apply, place("t", "me", 100)},
		{"another's lease is not renewed", place("t", "x", 60), renew(30), subagent.Stale, place("t", "x", 60)},
		{"leaving counts the messages", place("t", "me", 60), leave(9), subagent.Apply, left(place("", "", 0), 9)},
		{"leaving never uncounts them", place("t", "me", 60), leave(3), subagent.Apply, left(place("", "", 0), 7)},
		{"another turn is not left", place("u", "x", 60), leave(9), subagent.Mine, place("u", "x", 60)},
		{"a holder yields and the turn keeps its place", place("t", "me", 60), yield, subagent.Apply, place("t", "", 0)},
		{"another's lease is not yielded", place("t", "x", 60), yield, subagent.Stale, place("t", "x", 60)},
	} {
		next, o := c.rule(c.on)
		if d := cmp.Diff(c.then, next); o != c.want || d != "" {
			t.Errorf("%s: %v, want %v; row (-want +got):\n%s", c.name, o, c.want, d)
		}
	}
	for _, c := range []struct {
		name string
		on   result
		now  float64
		want bool
	}{
		{"another turn that yielded", place("u", "", 0), 0, true},
		{"another turn whose lease lapsed", place("u", "x", 60), 65.001, true},
		{"another turn under its lease", place("u", "x", 60), 65, false},
		{"the turn itself", place("t", "", 0), 0, false},
		{"a free place", place("", "", 0), 0, false},
	} {
		if got := c.on.Evictable("t", sec(c.now), terms); got != c.want {
			t.Errorf("evict %s: %v, want %v", c.name, got, c.want)
		}
	}
}

func begin(now float64) func(subagent.Conversation) (subagent.Conversation, subagent.Outcome) {
	return func(c subagent.Conversation) (subagent.Conversation, subagent.Outcome) {
		return c.Begin("t", "me", sec(now), terms)
	}
}

func renew(now float64) func(subagent.Conversation) (subagent.Conversation, subagent.Outcome) {
	return func(c subagent.Conversation) (subagent.Conversation, subagent.Outcome) {
		return c.Renew("me", sec(now), terms)
	}
}

func leave(n int64) func(subagent.Conversation) (subagent.Conversation, subagent.Outcome) {
	return func(c subagent.Conversation) (subagent.Conversation, subagent.Outcome) {
		return c.Leave("t", n, sec(10))
	}
}

func yield(c subagent.Conversation) (subagent.Conversation, subagent.Outcome) { return c.Yield("me") }

func left(c subagent.Conversation, n int64) subagent.Conversation {
	c.Messages, c.LeftAt = n, at(10)
	return c
}

func TestATurnEndsOnce(t *testing.T) {
	turn := subagent.Turn{ID: "t", Status: queued}
	ended, o := turn.Finish(completed, subagent.Value{}, "", 4, sec(1))
	if o != subagent.Apply || !ended.Done() || ended.Messages != 4 || ended.EndedAt != at(1) {
		t.Fatalf("finish: %v %+v", o, ended)
	}
	if again, o := ended.Finish(failed, subagent.Value{}, "no", 9, sec(2)); o != subagent.Ended || again.Status != completed {
		t.Errorf("again: %v %s", o, again.Status)
	}
	if _, o := ended.Fail(); o != subagent.Ended {
		t.Errorf("a failure after the end: %v", o)
	}
	if next, o := turn.Fail(); o != subagent.Apply || next.Failures != 1 {
		t.Errorf("a failure: %v %d", o, next.Failures)
	}
}

func TestBudgetBounds(t *testing.T) {
	for _, c := range []struct {
		name     string
		on       subagent.Budget
		deadline subagent.Time
		silence  int64
		valid    bool
	}{
		{"defaults", subagent.Budget{}, at(24 * 3600), 3_600_000, true},
		{"own bounds", subagent.Budget{Max: time.Minute, NoProgress: time.Second}, at(60), 1000, true},
		{"no bounds", subagent.Budget{Max: subagent.Unlimited, NoProgress: subagent.Unlimited}, 0, 0, true},
		{"negative", subagent.Budget{Max: -2}, 0, 0, false},
		{"absurd", subagent.Budget{NoProgress: 366 * 24 * time.Hour}, 0, 0, false},
	} {
		if err := c.on.Validate(); (err == nil) != c.valid {
			t.Errorf("%s: %v", c.name, err)
		}
		if deadline, silence := c.on.Bounds(sec(0)); c.valid && (deadline != c.deadline || silence != c.silence) {
			t.Errorf("%s: deadline %v, silence %d", c.name, deadline, silence)
		}
	}
}

func TestTheCadenceRisesAndItsLastPauseRepeats(t *testing.T) {
	c := subagent.DefaultCadence
	if c.First() != 5*time.Second {
		t.Errorf("first pause %v", c.First())
	}
	for index, want := range map[int]time.Duration{-1: 15 * time.Second, 0: 15 * time.Second, 1: 30 * time.Second, 2: 2 * time.Minute, 3: 2 * time.Minute, 99: 2 * time.Minute} {
		if _, pause := c.Next(index); pause != want {
			t.Errorf("after index %d: %v, want %v", index, pause, want)
		}
	}
	for _, bad := range []subagent.Cadence{nil, {}, {0}, {time.Second, -1}} {
		if bad.Validate() == nil {
			t.Errorf("%v is accepted", bad)
		}
	}
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
}

func FuzzCheckIDAcceptsItsAlphabetOnly(f *testing.F) {
	for _, id := range []string{"", "a", "run-1_x.y:z", "a b", "ü", "a#b", "\x00"} {
		f.Add(id)
	}
	f.Fuzz(func(t *testing.T, id string) {
		fits := len(id) >= 1 && len(id) <= subagent.MaxID
		for _, c := range []byte(id) {
			ok := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == ':' || c == '-'
			fits = fits && ok
		}
		if err := subagent.CheckID(id); (err == nil) != fits {
			t.Errorf("%q: %v", id, err)
		}
	})
}

func TestATurnIsNotHandedOnForEver(t *testing.T) {
	turn := subagent.Turn{Status: subagent.Queued}
	for n := 1; !turn.Stalled(); n++ {
		if n > 100 {
			t.Fatal("a turn that finishes no step is handed on for ever")
		}
		turn, _ = turn.HandOn(n%5 == 0, false)
	}
	if turn, _ = turn.HandOn(false, true); turn.Stalled() {
		t.Error("a turn that finished a step is taken for stalled")
	}
	if _, o := (subagent.Turn{Status: subagent.Completed}).HandOn(false, false); o != subagent.Ended {
		t.Errorf("an ended turn: %v", o)
	}
}
