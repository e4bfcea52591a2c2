package subagent_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/errand-dev/errand/shared/money"
	. "github.com/errand-dev/errand/shared/subagent"
)

func cost(tokens int64, dollars money.USD) Spend {
	return Spend{Usage: Usage{Input: tokens}, Calls: 1, Cost: dollars * money.Dollar}
}

func TestACallIsReservedOnlyWithinTheLimit(t *testing.T) {
	limit := Allowance{Tokens: 100, Cost: 10 * money.Dollar}
	for name, c := range map[string]struct {
		estimate Spend
		want     Outcome
	}{
		"what is left is taken whole":     {cost(50, 4), Apply},
		"one token too many is refused":   {cost(51, 4), Full},
		"a billionth too much is refused": {Spend{Calls: 1, Cost: 4*money.Dollar + 1}, Full},
		"money is left and no tokens":     {cost(100, 0), Full},
		"tokens are left and no money":    {cost(1, 5), Full},
		"a call that is free may be made": {Spend{Calls: 1}, Apply},
	} {
		t.Run(name, func(t *testing.T) {
			a := Account{Spent: cost(30, 3), Open: map[string]Hold{"r2/model:1": {By: "x", Estimate: cost(20, 3)}}}
			next, got := a.Reserve("r1/model:1", "me", c.estimate, limit)
			if got != c.want {
				t.Fatalf("outcome %v, want %v", got, c.want)
			}
			if len(a.Open) != 1 {
				t.Error("the account that was read has changed")
			}
			if got == Full && !cmp.Equal(next, a) {
				t.Errorf("a refusal changes the account: %v", cmp.Diff(a, next))
			}
		})
	}
	if _, got := (Account{Spent: cost(1000, 1000)}).Reserve("k", "me", cost(1000, 1000), Allowance{}); got != Apply {
		t.Errorf("without a limit: %v", got)
	}
}

func TestAnAllowedQuestionRaisesTheLimitOnce(t *testing.T) {
	limit := Allowance{Tokens: 100}
	a := Account{Spent: cost(90, 1)}
	for range 2 {
		next, o := a.Raise("r1/spend:3", Allowance{Tokens: 100, Cost: money.Dollar})
		if o.OK() {
			a = next
		}
	}
	if _, o := a.Reserve("k", "me", cost(110, 1000), limit); o != Apply {
		t.Errorf("within the raised limit: %v; a bound that there is none of was raised", o)
	}
	if _, o := a.Reserve("k", "me", cost(111, 0), limit); o != Full {
		t.Errorf("above the raised limit: %v", o)
	}
}

func TestASettledCallCostsWhatItCostAndNotTwice(t *testing.T) {
	a, _ := Account{}.Reserve("k", "me", cost(50, 5), Allowance{Tokens: 100})
	if again, o := a.Reserve("k", "me", cost(50, 5), Allowance{Tokens: 100}); o != Mine || !cmp.Equal(again, a) {
		t.Errorf("reserved again by the same: %v", o)
	}
	a, o := a.Settle("k", cost(20, 2))
	if o != Apply || !cmp.Equal(a.Spent, cost(20, 2)) || len(a.Open) != 0 {
		t.Errorf("settled: %v, %+v", o, a)
	}
	if again, o := a.Settle("k", cost(20, 2)); o != Mine || !cmp.Equal(again, a) {
		t.Errorf("settled again: %v", o)
	}
	own, _ := Account{}.Record("model:1", cost(20, 2))
	if again, o := own.Record("model:1", cost(20, 2)); o != Mine || !cmp.Equal(again, own) {
		t.Errorf("recorded again: %v", o)
	}
}

func TestAReservationOfADeadExecutionIsBookedInDoubt(t *testing.T) {
	left, _ := Account{}.Reserve("k", "dead", cost(50, 5), Allowance{Tokens: 100})
	doubted := cost(50, 5).Doubted()
	next, o := left.Reserve("k", "alive", cost(50, 5), Allowance{Tokens: 100})
	if o != Apply || !cmp.Equal(next.Spent, doubted) || next.Open["k"].By != "alive" {
		t.Errorf("reserved after a crash: %v, %+v", o, next)
	}
	if next, o := left.Reserve("k", "alive", cost(51, 5), Allowance{Tokens: 100}); o != Full || !cmp.Equal(next, left) {
		t.Errorf("the doubtful call is forgotten: %v, %+v", o, next)
	}
	next, o = left.Abandon("k", "alive")
	if o != Apply || !cmp.Equal(next.Spent, doubted) || len(next.Open) != 0 {
		t.Errorf("abandoned: %v, %+v", o, next)
	}
	if _, o := left.Abandon("k", "dead"); o != Mine {
		t.Errorf("an execution abandons its own call: %v", o)
	}
	if _, o := left.Forfeit("k", "alive", Spend{}); o != Mine {
		t.Errorf("an execution gives back what another has reserved: %v", o)
	}
	if next, o := left.Forfeit("k", "dead", Spend{}); o != Apply || next.Spent != (Spend{}) || len(next.Open) != 0 {
		t.Errorf("given back: %v, %+v", o, next)
	}
}

func TestWhatACallBehindTheFenceCostIsInBothSums(t *testing.T) {
	a := Account{Version: 3, Spent: cost(50, 5)}
	a, o := a.Fence(cost(20, 2))
	if o != Apply || a.Spent != cost(50, 5) || a.AfterFence != cost(20, 2) {
		t.Errorf("%v: spent %+v, after the fence %+v", o, a.Spent, a.AfterFence)
	}
	if gone, o := (Account{}).Fence(cost(20, 2)); o != Absent || !cmp.Equal(gone, Account{}) {
		t.Errorf("an account that is gone comes back: %v", o)
	}
}

// call is one model call of the property test, from its place in the loop to the journal.
type call struct {
	by       int // how many executions died with it
	reserved bool
	answered bool // its answer is in the journal
	settled  bool
}

// TestNoOrderOfCallsAndCrashesPassesTheLimitOrLosesMoney plays executions of many runs that share
// one account, any of which dies anywhere.
func TestNoOrderOfCallsAndCrashesPassesTheLimitOrLosesMoney(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 0))
		limit := Allowance{Tokens: 300 + random.Int64N(2000)}
		var tree Account
		own := make([]Account, 4)
		calls := make([]call, 4*5)
		var answered, doubted int64
		for step := range 400 {
			i := random.IntN(len(calls))
			c, run := &calls[i], i%4
			key, by := fmt.Sprintf("model:%d", i/4), fmt.Sprint(c.by)
			inTree := fmt.Sprintf("r%d/%s", run, key)
			estimate := Spend{Usage: Usage{Input: 100}, Calls: 1}
			actual := Spend{Usage: Usage{Input: int64(1 + (i*37)%100)}, Calls: 1}
			apply := func(a *Account, next Account, o Outcome) Outcome {
				if o == Apply {
					*a = next
				}
				return o
			}
			switch {
			case random.IntN(4) == 0 && !c.answered: // the execution dies; the next knows nothing of the call
				c.by, c.reserved = c.by+1, false
			case !c.reserved && !c.answered:
				if left, ok := tree.Open[inTree]; ok && left.By != by {
					doubted += 100
				}
				next, o := tree.Reserve(inTree, by, estimate, limit)
				if apply(&tree, next, o) == Full {
					next, o := tree.Abandon(inTree, by)
					apply(&tree, next, o)
				}
				c.reserved = o.OK()
			case !c.answered:
				c.answered, answered = true, answered+actual.Tokens()
			default: // settled, or settled again after a crash at any point
				next, o := own[run].Record(key, actual)
				apply(&own[run], next, o)
				if random.IntN(3) == 0 {
					break // it dies in between
				}
				next, o = tree.Settle(inTree, actual)
				apply(&tree, next, o)
				c.settled = true
			}
			if total := tree.Spent.Plus(tree.Reserved()).Tokens(); total > limit.Tokens {
				t.Fatalf("seed %d, step %d: %d of %d tokens", seed, step, total, limit.Tokens)
			}
		}
		var sum, pending int64
		for i, c := range calls {
			actual := int64(1 + (i*37)%100)
			if c.answered && !c.settled {
				pending += actual
			}
			if own[i%4].Settled.Has(fmt.Sprintf("model:%d", i/4)) {
				sum += actual
			}
		}
		if got := tree.Spent.Tokens(); got != answered-pending+doubted {
			t.Errorf("seed %d: the tree has spent %d; answers cost %d, of which %d are not settled, and %d are in doubt", seed, got, answered, pending, doubted)
		}
		var recorded int64
		for _, a := range own {
			recorded += a.Spent.Tokens()
		}
		if recorded != sum {
			t.Errorf("seed %d: the runs have spent %d, their calls cost %d", seed, recorded, sum)
		}
	}
}

func TestKeysThatAreCountedThroughTakeNoRoom(t *testing.T) {
	var keys Keys
	in := map[string]bool{}
	random := rand.New(rand.NewPCG(1, 2))
	for _, n := range random.Perm(200) {
		key := fmt.Sprintf("model:%d", n+1)
		if keys.Has(key) {
			t.Fatalf("%s is in the set before it was added: %v", key, keys)
		}
		before := keys
		keys = keys.With(key)
		in[key] = true
		if before.Has(key) {
			t.Fatal("the set that was read has changed")
		}
		for n := range 202 {
			if key := fmt.Sprintf("model:%d", n); keys.Has(key) != in[key] {
				t.Fatalf("%s in the set: %v, want %v; %v", key, keys.Has(key), in[key], keys)
			}
		}
	}
	if diff := cmp.Diff(Keys{"model:#": {1, 200}}, keys); diff != "" {
		t.Error(diff)
	}
	for _, odd := range []string{"model", "model:", "model:01", "model:-1", "model:201", "a:b:1", "fetch"} {
		if keys.Has(odd) {
			t.Errorf("%q is in the set", odd)
		}
		keys = keys.With(odd)
		raw, err := json.Marshal(keys)
		if err != nil {
			t.Fatal(err)
		}
		var back Keys
		if err := json.Unmarshal(raw, &back); err != nil || !back.Has(odd) {
			t.Errorf("%q is not in %s, %v", odd, raw, err)
		}
	}
}

// A sum of what vendors report must not run over and so be within each limit.
func TestASumThatIsTooLargeForANumberIsWithinNoLimit(t *testing.T) {
	huge := Spend{Usage: Usage{Input: math.MaxInt64, Output: math.MaxInt64, CacheRead: 1, CacheWrite: 1}, Calls: 1, Cost: math.MaxInt64}
	for _, limit := range []Allowance{{Tokens: 100}, {Cost: money.Dollar}} {
		if _, o := (Account{}).Reserve("k", "me", huge, limit); o != Full {
			t.Errorf("a huge estimate under %+v: %v", limit, o)
		}
		a := Account{Spent: huge, Open: map[string]Hold{"other": {By: "x", Estimate: huge}}}
		if _, o := a.Reserve("k", "me", cost(1, 1), limit); o != Full {
			t.Errorf("after a huge call under %+v: %v", limit, o)
		}
	}
	a, _ := Account{Raised: Allowance{Tokens: math.MaxInt64}}.Raise("q", Allowance{Tokens: 5})
	if _, o := a.Reserve("k", "me", cost(200, 0), Allowance{Tokens: 100}); o != Apply {
		t.Errorf("under a limit that was raised beyond the largest number: %v", o)
	}
}
