package subagent_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/errand-dev/errand/shared/subagent"
)

func spine(armed bool, epoch int64, ids ...string) subagent.Backbone {
	b := subagent.Backbone{Version: 10, Armed: armed, Epoch: epoch, Open: map[string]subagent.Reservation{}}
	if armed {
		b.Due = at(5)
	}
	for i, id := range ids {
		b.Open[id] = subagent.Reservation{Generation: int64(i + 1), At: at(0)}
	}
	return b
}

func TestReserve(t *testing.T) {
	sent := func(k int64) subagent.Arming { return subagent.Arming{Sent: k, Due: at(5)} }
	none := subagent.Arming{By: at(5)}
	softened := spine(true, 3, "x")
	softened.Open["x"] = subagent.Reservation{Generation: 1, Soft: true}
	var many []string
	for i := range subagent.MaxOpen {
		many = append(many, fmt.Sprint("r", i))
	}
	for _, c := range []struct {
		name   string
		on     subagent.Backbone
		limit  int
		arming subagent.Arming
		voided int64
		want   subagent.Outcome
		epoch  int64
	}{
		{"the first run arms", spine(false, 3), 2, sent(4), 0, subagent.Apply, 4},
		{"a second run joins without a tick", spine(true, 3, "x"), 2, none, 0, subagent.Apply, 3},
		{"a tick that fired meanwhile is stale", spine(false, 4), 2, sent(4), 0, subagent.Stale, 4},
		{"no tick and disarmed is stale", spine(false, 3), 2, none, 0, subagent.Stale, 3},
		{"no tick and the next one too late is stale", func() subagent.Backbone { b := spine(true, 3, "x"); b.Due = at(5.001); return b }(), 2, none, 0, subagent.Stale, 3},
		{"the cap is full", spine(true, 3, "x", "y"), 2, none, 0, subagent.Full, 3},
		{"a given-up run leaves room", softened, 1, none, 0, subagent.Apply, 3},
		{"the item is full", spine(true, 3, many...), 1000, none, 0, subagent.Full, 3},
		{"one's own reservation is mine", spine(true, 3, "run"), 2, none, 0, subagent.Mine, 3},
		{"a voided reservation is replaced, also at the cap", spine(true, 3, "run"), 1, none, 1, subagent.Apply, 3},
		{"a newer reservation is mine in spite of an old tombstone", spine(true, 3, "x", "run"), 2, none, 1, subagent.Mine, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := len(c.on.Open)
			next, o := c.on.Reserve("run", c.limit, c.arming, c.voided, sec(0))
			if o != c.want || next.Epoch != c.epoch {
				t.Fatalf("%v at epoch %d, want %v at %d", o, next.Epoch, c.want, c.epoch)
			}
			if len(c.on.Open) != before {
				t.Error("the row that was read has changed")
			}
			if o != subagent.Apply {
				return
			}
			if got := next.Open["run"]; got.Generation != 11 || !next.Armed {
				t.Errorf("reserved %+v, armed %v", got, next.Armed)
			}
			if _, o := next.Reserve("run", c.limit, c.arming, c.voided, sec(0)); o != subagent.Mine {
				t.Errorf("the same again: %v", o)
			}
		})
	}
}

func TestTicksMoveTheBackboneOn(t *testing.T) {
	armed, disarmed := spine(true, 3, "a", "b"), spine(false, 3)
	newer := armed
	newer.Version++
	all, one := map[string]int64{"a": 1, "b": 2}, map[string]int64{"a": 1}
	for _, c := range []struct {
		name  string
		rule  func() (subagent.Backbone, subagent.Outcome)
		want  subagent.Outcome
		armed bool
		epoch int64
		open  int
	}{
		{"fence passes a disarmed backbone", func() (subagent.Backbone, subagent.Outcome) { return disarmed.Fence(4, disarmed) }, subagent.Apply, false, 5, 0},
		{"fence leaves an armed one", func() (subagent.Backbone, subagent.Outcome) { return armed.Fence(4, armed) }, subagent.Stale, true, 3, 2},
		{"fence leaves a changed one", func() (subagent.Backbone, subagent.Outcome) { return disarmed.Fence(4, newer) }, subagent.Stale, false, 3, 0},
		{"re-arm drops who is gone", func() (subagent.Backbone, subagent.Outcome) { return armed.Rearm(3, armed, one, nil, 1, at(9)) }, subagent.Apply, true, 4, 1},
		{"re-arm leaves a changed one", func() (subagent.Backbone, subagent.Outcome) { return newer.Rearm(3, armed, one, nil, 1, at(9)) }, subagent.Stale, true, 3, 2},
		{"disarm drops all", func() (subagent.Backbone, subagent.Outcome) { return armed.Disarm(3, armed, all) }, subagent.Apply, false, 4, 0},
		{"disarm needs all gone", func() (subagent.Backbone, subagent.Outcome) { return armed.Disarm(3, armed, one) }, subagent.Stale, true, 3, 1},
		{"disarm leaves a changed one", func() (subagent.Backbone, subagent.Outcome) { return newer.Disarm(3, armed, all) }, subagent.Stale, true, 3, 2},
		{"settle frees a place", func() (subagent.Backbone, subagent.Outcome) { return armed.Settle("a", 0) }, subagent.Apply, true, 3, 1},
		{"settle of the last disarms and passes the tick", func() (subagent.Backbone, subagent.Outcome) { return spine(true, 3, "a").Settle("a", 0) }, subagent.Apply, false, 4, 0},
		{"settle of a stranger is nothing", func() (subagent.Backbone, subagent.Outcome) { return armed.Settle("c", 0) }, subagent.Mine, true, 3, 2},
		{"prune drops who is gone", func() (subagent.Backbone, subagent.Outcome) { return armed.Prune(one, nil) }, subagent.Apply, true, 3, 1},
		{"prune keeps a newer reservation", func() (subagent.Backbone, subagent.Outcome) {
			return armed.Prune(map[string]int64{"a": 9}, map[string]int64{"b": 9})
		}, subagent.Mine, true, 3, 2},
	} {
		next, o := c.rule()
		if o != c.want || next.Armed != c.armed || next.Epoch != c.epoch || len(next.Open) != c.open && o != subagent.Stale {
			t.Errorf("%s: %v, armed %v, epoch %d, open %d", c.name, o, next.Armed, next.Epoch, len(next.Open))
		}
	}
	if d := cmp.Diff(spine(true, 3, "a", "b"), armed); d != "" {
		t.Errorf("the row that was read has changed:\n%s", d)
	}
	next, o := armed.Prune(nil, map[string]int64{"b": 2})
	if o != subagent.Apply || next.Live() != 1 || !next.Open["b"].Soft {
		t.Errorf("a given-up run counts: %v, %d live", o, next.Live())
	}
	for k, current := range map[int64]bool{2: false, 3: true, 4: true} {
		if armed.Current(k) != current {
			t.Errorf("tick %d at epoch 3: current %v, want %v", k, !current, current)
		}
	}
	if armed.NeedsTick(sec(5+15*60), 5e9) || !armed.NeedsTick(sec(6+15*60), 5e9) {
		t.Error("a tick is taken for lost when it is more than 15 minutes late")
	}
	if armed.NeedsTick(sec(0), 5e9) || !armed.NeedsTick(sec(-0.001), 5e9) || !disarmed.NeedsTick(sec(0), 5e9) {
		t.Error("a tick is needed when disarmed, or when the next one is later than the first rung")
	}
}

func TestTheLiveCountWarningIsGivenOnce(t *testing.T) {
	var ids []string
	for i := range subagent.WarnAt {
		ids = append(ids, fmt.Sprint("r", i))
	}
	b, o := spine(true, 1, ids...).Warn()
	if o != subagent.Apply || !b.Warned {
		t.Fatalf("at the threshold: %v", o)
	}
	if _, o := b.Warn(); o != subagent.Mine {
		t.Errorf("again: %v", o)
	}
	b, _ = b.Settle("r0", 0)
	if b, o := b.Warn(); o != subagent.Apply || b.Warned {
		t.Errorf("below it: %v", o)
	}
}

func TestTombstonesAndRows(t *testing.T) {
	status := func(s subagent.Status, generation int64) subagent.Run {
		return subagent.Run{ID: "run", Status: s, Generation: generation}
	}
	for _, c := range []struct {
		name          string
		on            subagent.Run
		begin, entomb subagent.Outcome
	}{
		{"nothing", status("", 0), subagent.Apply, subagent.Apply},
		{"an older tombstone", status(void, 4), subagent.Apply, subagent.Apply},
		{"the tombstone of this generation", status(void, 5), subagent.Stale, subagent.Stale},
		{"a newer tombstone", status(void, 6), subagent.Stale, subagent.Stale},
		{"a real run", status(queued, 1), subagent.Mine, subagent.Stale},
		{"an ended run", status(completed, 1), subagent.Mine, subagent.Stale},
	} {
		if next, o := c.on.Begin(status(queued, 5)); o != c.begin || o == subagent.Apply && next.Status != queued || o != subagent.Apply && next.Status != c.on.Status {
			t.Errorf("a row over %s: %v, want %v", c.name, o, c.begin)
		}
		if next, o := c.on.Entomb(5, sec(0)); o != c.entomb || o == subagent.Apply && (next.Status != void || next.Generation != 5) {
			t.Errorf("a tombstone over %s: %v, want %v", c.name, o, c.entomb)
		}
	}
	r := subagent.Reservation{At: at(0)}
	if r.Orphan(sec(14.999)) || !r.Orphan(sec(15)) {
		t.Error("a reservation without a row is an orphan from 15 s on")
	}
}

func TestThePlaceOfARedriveOutlivesWhatWasSeenBefore(t *testing.T) {
	b, o := spine(true, 3, "a").Reserve("a", 1, subagent.Arming{By: at(9), Redrives: 1}, 0, sec(1))
	if o != subagent.Apply || b.Open["a"].Redrives != 1 {
		t.Fatalf("reserving for a redrive: %v, %+v", o, b.Open["a"])
	}
	if _, o := b.Reserve("a", 1, subagent.Arming{By: at(9), Redrives: 1}, 0, sec(1)); o != subagent.Mine {
		t.Errorf("again: %v, want mine", o)
	}
	if _, o := b.Settle("a", 0); o != subagent.Mine {
		t.Errorf("whoever saw it settled before took the place away: %v", o)
	}
	if _, o := b.Settle("a", 1); o != subagent.Apply {
		t.Errorf("settled after the redrive: %v", o)
	}
	place := b.Open["a"]
	for _, c := range []struct {
		name     string
		redrives int
		now      float64
		want     bool
	}{
		{"the redrive is not written yet", 0, 2, true},
		{"it is written", 1, 2, false},
		{"it never came", 0, 100, false},
	} {
		if got := place.Awaits(subagent.Run{Redrives: c.redrives}, sec(c.now)); got != c.want {
			t.Errorf("%s: awaits %v, want %v", c.name, got, c.want)
		}
	}
}

func TestAHolderStopsBeforeItsLeaseEnds(t *testing.T) {
	terms := subagent.DefaultTerms
	if pause, stop := terms.Beat(at(60), false, sec(20)); stop || pause != terms.RenewEvery() {
		t.Errorf("renewed: pause %v, stop %v", pause, stop)
	}
	for now := 20.0; ; {
		pause, stop := terms.Beat(at(60), true, sec(now))
		if end := now + pause.Seconds() + terms.BeatTimeout().Seconds(); stop != (end >= 55) {
			t.Errorf("at %v s: stop %v, though the next renewal would have failed by %v s", now, stop, end)
		}
		if stop {
			return
		}
		now += pause.Seconds()
	}
}
