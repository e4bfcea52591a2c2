package executor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/conformance"
	"github.com/errand-dev/errand/shared/ledger"
	"github.com/errand-dev/errand/shared/money"
	"github.com/errand-dev/errand/shared/price"
	"github.com/errand-dev/errand/shared/sqlitestore"
	"github.com/errand-dev/errand/shared/subagent"
)

// till is a store that counts what is done to accounts, and purses over it.
type till struct {
	t      *testing.T
	exec   *Executor
	limits []subagent.Payer
	// executions counts the purses; steps the operations on accounts, of which that with
	// number dies and all after it fail: applied, with only its answer lost, or not.
	executions, steps, dies int
	applied                 bool
	writes, reads           int
	now                     int64
}

const tokenPrice = 1000 // billionths of a dollar, what the script model's input costs

func newTill(t *testing.T, limits ...subagent.Allowance) *till {
	t.Helper()
	store, err := sqlitestore.Open(t.Context(), t.TempDir(), sqlitestore.Options{Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	prices, err := price.Default()
	if err != nil {
		t.Fatal(err)
	}
	x := &till{t: t, now: 1e12}
	faults := &conformance.Faults{Inner: store, SplitAtomically: true, Decide: x.decide}
	l := ledger.New(faults, subagent.DefaultTerms, func() time.Time { return time.UnixMilli(x.now) }, ledger.RandomNonce)
	x.exec = New(Config{Ledger: l, Prices: prices})
	for i, limit := range limits {
		x.limits = append(x.limits, subagent.Payer{Run: fmt.Sprintf("payer%d", i), Generation: 1, Limit: limit})
	}
	return x
}

func (x *till) decide(op conformance.Op) conformance.Fault {
	if !strings.HasPrefix(op.Key.Sort, "ACCOUNT#") {
		x.t.Errorf("an operation on no account: %v", op)
	}
	x.steps++
	switch {
	case x.dies == 0 || x.steps < x.dies:
		if op.Kind == conformance.Put {
			x.writes++
		} else {
			x.reads++
		}
		return conformance.None
	case x.steps == x.dies && x.applied:
		return conformance.Applied
	}
	return conformance.NotApplied
}

var life = ledger.LifeOf(subagent.Run{Owner: subagent.Owner{Tenant: "t", Conversation: "c"}, ID: "r1", Generation: 7})

// purse is that of the next execution.
func (x *till) purse() *purse {
	x.executions++
	x.steps, x.writes, x.reads = 0, 0, 0
	return newPurse(x.exec, life, fmt.Sprint("execution", x.executions), x.limits, x.executions == 1)
}

// accounts reads the run's own account and those of its payers.
func (x *till) accounts() []subagent.Account {
	x.t.Helper()
	x.dies = 0
	accounts, err := x.exec.Ledger.Accounts(x.t.Context(), x.purse().accounts()...)
	if err != nil {
		x.t.Fatal(err)
	}
	return accounts
}

func scripted(n int, in int64) agent.Call {
	return agent.Call{Key: fmt.Sprintf("model:%d", n), Models: []string{"script"}, Usage: subagent.Usage{Input: in}}
}

func (x *till) must(err error) {
	x.t.Helper()
	if err != nil {
		x.t.Fatal(err)
	}
}

func TestWithoutALimitACallIsOneWrite(t *testing.T) {
	x := newTill(t)
	p := x.purse()
	for n := range 3 {
		x.must(p.Reserve(t.Context(), scripted(n+1, 100)))
		x.must(p.Settle(t.Context(), scripted(n+1, 10)))
	}
	if x.writes != 3 || x.reads != 0 {
		t.Errorf("%d writes and %d reads; want 3 and none", x.writes, x.reads)
	}
	p = x.purse()
	for n := range 3 {
		x.must(p.Settle(t.Context(), scripted(n+1, 10)))
	}
	if x.writes != 0 || x.reads != 1 {
		t.Errorf("executed again: %d writes and %d reads; want none and 1", x.writes, x.reads)
	}
	want := subagent.Spend{Usage: subagent.Usage{Input: 30}, Calls: 3, Cost: 30 * tokenPrice}
	if got := x.accounts()[0]; got.Spent != want || len(got.Open) != 0 {
		t.Error(cmp.Diff(want, got.Spent))
	}
}

func TestWithALimitACallIsTwoWritesPerAccount(t *testing.T) {
	x := newTill(t, subagent.Allowance{Tokens: 1000})
	p := x.purse()
	for n := range 3 {
		x.must(p.Reserve(t.Context(), scripted(n+1, 100)))
		x.must(p.Settle(t.Context(), scripted(n+1, 10)))
	}
	if x.writes != 12 || x.reads != 1 {
		t.Errorf("%d writes and %d reads; want 12 and 1", x.writes, x.reads)
	}
}

func TestARefusedCallLeavesNothingReserved(t *testing.T) {
	x := newTill(t, subagent.Allowance{Tokens: 1000}, subagent.Allowance{Cost: 50 * tokenPrice})
	p := x.purse()
	x.must(p.Reserve(t.Context(), scripted(1, 30)))
	x.must(p.Settle(t.Context(), scripted(1, 30)))
	err := p.Reserve(t.Context(), scripted(2, 21))
	var over *agent.BudgetError
	if !errors.As(err, &over) || over.Run != "payer1" || !agent.Overspent(err) {
		t.Fatalf("%v", err)
	}
	if want := "budget exceeded: run payer1 with all below it may spend $0.00005 and has spent $0.00003, with $0.00 reserved; the next call may cost $0.00002625"; err.Error() != want {
		t.Errorf("it says %q, want %q", err, want)
	}
	for i, a := range x.accounts() {
		if len(a.Open) != 0 || a.Spent.Tokens() != 30 {
			t.Errorf("account %d: %+v", i, a)
		}
	}
	own := scripted(3, 21)
	own.Limit = subagent.Allowance{Tokens: 50}
	if err := x.purse().Reserve(t.Context(), own); !errors.As(err, &over) || over.Run != "" || !strings.Contains(err.Error(), "this agent's run may use 50 tokens and has used 30") {
		t.Errorf("the agent's own limit: %v", err)
	}
}

func TestAModelWithoutAPriceIsCountedInTokensOnly(t *testing.T) {
	unknown := agent.Call{Key: "model:1", Models: []string{"mystery-9"}, Usage: subagent.Usage{Input: 10}}
	x := newTill(t, subagent.Allowance{Tokens: 1000})
	p := x.purse()
	x.must(p.Reserve(t.Context(), unknown))
	x.must(p.Settle(t.Context(), unknown))
	want := subagent.Spend{Usage: subagent.Usage{Input: 10}, Calls: 1, Unpriced: 1}
	if got := x.accounts()[1].Spent; got != want {
		t.Error(cmp.Diff(want, got))
	}
	x = newTill(t, subagent.Allowance{Cost: money.Dollar})
	err := x.purse().Reserve(t.Context(), unknown)
	var unpriced *agent.UnpricedError
	if !errors.As(err, &unpriced) || !strings.Contains(err.Error(), `"mystery-9" has no price; give it one with errand serve --prices FILE`) {
		t.Errorf("with a limit in dollars: %v", err)
	}
	if x.writes != 0 {
		t.Error("the refusal has written something")
	}
}

// A vendor that does not know how many there were may say -1.
func TestACountBelowZeroGivesNothingBack(t *testing.T) {
	x := newTill(t, subagent.Allowance{Tokens: 100})
	p := x.purse()
	for i, u := range []subagent.Usage{{Input: 60}, {Input: -50, Output: 10, CacheRead: -1}} {
		c := agent.Call{Key: fmt.Sprintf("ask:%d", i), Models: []string{"script"}, Usage: u}
		if err := p.Reserve(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		if err := p.Settle(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := p.spent().Usage, (subagent.Usage{Input: 60, Output: 10}); got != want {
		t.Errorf("spent %+v, want %+v", got, want)
	}
}

func TestALostAnswerIsPaidAndMayBeAskedAgain(t *testing.T) {
	for name, limits := range map[string][]subagent.Allowance{"without a limit": nil, "with one": {{Tokens: 1000}}} {
		t.Run(name, func(t *testing.T) {
			x := newTill(t, limits...)
			p := x.purse()
			x.must(p.Reserve(t.Context(), scripted(1, 100)))
			x.must(p.Release(t.Context(), "model:1")) // refused, and billed for nothing
			x.must(p.Reserve(t.Context(), scripted(1, 100)))
			x.must(p.Lose(t.Context(), scripted(1, 0))) // cut off: nobody knows
			x.must(p.Reserve(t.Context(), scripted(1, 100)))
			x.must(p.Lose(t.Context(), scripted(1, 20))) // answered and not kept
			x.must(p.Reserve(t.Context(), scripted(1, 100)))
			x.must(p.Settle(t.Context(), scripted(1, 10)))
			for i, a := range x.accounts()[:1+len(limits)] {
				if a.Spent.Tokens() != 130 || a.Spent.Calls != 3 || a.Spent.Uncertain != 1 || len(a.Open) != 0 {
					t.Errorf("account %d: %+v", i, a)
				}
			}
		})
	}
}

// A call in the background is made by one execution, and another one hears that it failed.
func TestACallInTheBackgroundThatFailsIsBookedByWhoeverHearsOfIt(t *testing.T) {
	refused := func(p *purse) error { return p.Release(t.Context(), "model:1") }
	cutOff := func(p *purse) error { return p.Lose(t.Context(), scripted(1, 0)) }
	for name, c := range map[string]struct {
		failed          func(*purse) error
		tokens, inDoubt int64
	}{
		"refused": {refused, 10, 0},
		"cut off": {cutOff, 110, 1},
	} {
		t.Run(name, func(t *testing.T) {
			x := newTill(t, subagent.Allowance{Tokens: 1000})
			x.must(x.purse().Reserve(t.Context(), scripted(1, 100)))
			p := x.purse()
			x.must(c.failed(p))
			x.must(c.failed(p)) // its process dies, and the next one looks again
			x.must(p.Reserve(t.Context(), scripted(1, 100)))
			x.must(x.purse().Settle(t.Context(), scripted(1, 10)))
			for i, a := range x.accounts() {
				if a.Spent.Tokens() != c.tokens || a.Spent.Uncertain != c.inDoubt || len(a.Open) != 0 {
					t.Errorf("account %d: %+v", i, a)
				}
			}
		})
	}
}

func TestWhatIsSpentBehindTheFenceIsToldApart(t *testing.T) {
	for name, c := range map[string]struct {
		fence subagent.Time
		want  int64
	}{
		"the fence came before the second answer": {1e12 + 1, 20},
		"and nobody knew of it at the first":      {1e12, 30},
	} {
		t.Run(name, func(t *testing.T) {
			x := newTill(t, subagent.Allowance{Tokens: 1000})
			p := x.purse()
			x.must(p.Reserve(t.Context(), scripted(1, 100)))
			x.must(p.Settle(t.Context(), scripted(1, 10)))
			x.must(p.Reserve(t.Context(), scripted(2, 100)))
			x.now++
			cancelled, cancel := context.WithCancel(t.Context())
			cancel()
			x.must(p.Lose(cancelled, scripted(2, 20)))
			x.must(p.behindFence(t.Context(), c.fence))
			for i, a := range x.accounts() {
				if a.Spent.Tokens() != 30 || a.AfterFence.Tokens() != c.want {
					t.Errorf("account %d: spent %d, after the fence %d, want %d", i, a.Spent.Tokens(), a.AfterFence.Tokens(), c.want)
				}
			}
		})
	}
}

func TestASpendThatWasNotReservedIsBookedOnceAndToldWhenItPassesALimit(t *testing.T) {
	for dies := range 12 {
		x := newTill(t, subagent.Allowance{Tokens: 25})
		x.dies, x.applied = dies, dies%2 == 0
		spend := func() error {
			p := x.purse()
			return errors.Join(p.Spend(t.Context(), scripted(1, 20)), p.Spend(t.Context(), scripted(2, 10)))
		}
		err := spend()
		x.dies = 0
		if dies > 0 {
			err = spend()
		}
		if !agent.Overspent(err) {
			t.Errorf("died at %d: %v; want a *BudgetError", dies, err)
		}
		for i, a := range x.accounts() {
			if a.Spent.Tokens() != 30 || a.Spent.Calls != 2 || a.Spent.Uncertain != 0 || len(a.Open) != 0 {
				t.Errorf("died at %d, account %d: %+v", dies, i, a)
			}
		}
	}
}

// errDied: the execution ends between two operations.
var errDied = errors.New("died")

func TestMoneyIsCountedOnceWhereverAnExecutionDies(t *testing.T) {
	const estimate, calls = 100, 3
	limit := subagent.Allowance{Tokens: 1000}
	deaths := 0
	for dies := 1; dies <= 16; dies++ {
		for _, applied := range []bool{false, true} {
			for _, unkept := range []int{0, 1, 2, 3} {
				x := newTill(t, limit)
				x.dies, x.applied = dies, applied
				journal, lost := map[int]bool{}, 0
				// execute is one execution; it dies with the answer to call unkept, if not before.
				execute := func(unkept int) error {
					p := x.purse()
					for n := 1; n <= calls; n++ {
						if !journal[n] {
							if err := p.Reserve(t.Context(), scripted(n, estimate)); err != nil {
								return err
							}
							if n == unkept {
								lost++
								return errDied
							}
							journal[n] = true
						}
						if err := p.Settle(t.Context(), scripted(n, int64(10*n))); err != nil {
							return err
						}
					}
					return nil
				}
				died := 0
				for err := execute(unkept); err != nil; err = execute(0) {
					died++
					x.dies = 0
				}
				deaths += died
				for i, a := range x.accounts() {
					s := a.Spent
					if certain := s.Tokens() - s.Uncertain*estimate; certain != 60 || s.Calls-s.Uncertain != calls {
						t.Errorf("death at %d (applied: %v) and at the answer to %d, account %d: %d tokens in %d calls are certain, want 60 in %d", dies, applied, unkept, i, certain, s.Calls-s.Uncertain, calls)
					}
					if s.Uncertain < int64(lost) || s.Uncertain > int64(died) || len(a.Open) != 0 {
						t.Errorf("death at %d (applied: %v) and at the answer to %d, account %d: %d calls in doubt, %d answers lost, %d deaths; open: %v", dies, applied, unkept, i, s.Uncertain, lost, died, a.Open)
					}
				}
			}
		}
	}
	if deaths < 100 {
		t.Errorf("only %d deaths: the test shows little", deaths)
	}
}
