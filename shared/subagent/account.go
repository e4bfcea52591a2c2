package subagent

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/errand-dev/errand/shared/money"
)

// Usage counts the tokens of model calls. No token is in two of the four counts.
type Usage struct {
	Input      int64 `json:"in,omitempty"`
	Output     int64 `json:"out,omitempty"`
	CacheRead  int64 `json:"cr,omitempty"`
	CacheWrite int64 `json:"cw,omitempty"`
}

// Prompt is all that went into the model.
func (u Usage) Prompt() int64 { return plus(plus(u.Input, u.CacheRead), u.CacheWrite) }

// Tokens is all of them.
func (u Usage) Tokens() int64 { return plus(u.Prompt(), u.Output) }

// NotNegative takes counts below zero, of a vendor that does not know, for zero.
func (u Usage) NotNegative() Usage {
	return Usage{max(u.Input, 0), max(u.Output, 0), max(u.CacheRead, 0), max(u.CacheWrite, 0)}
}

// plus adds what is never negative and stops at the largest number: a sum that ran over would
// be within each limit.
func plus[T ~int64](a, b T) T {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// Spend is what model calls cost.
type Spend struct {
	Usage
	Calls int64     `json:"n,omitempty"`
	Cost  money.USD `json:"usd,omitempty"`
	// Unpriced counts the calls of models without a price; Cost leaves them out.
	Unpriced int64 `json:"np,omitempty"`
	// Uncertain counts calls that have no answer, because their process died or the
	// connection broke. They may have been billed and stand in the sums as estimated.
	Uncertain int64 `json:"un,omitempty"`
}

// Plus returns the sum.
func (s Spend) Plus(t Spend) Spend {
	s.Input = plus(s.Input, t.Input)
	s.Output = plus(s.Output, t.Output)
	s.CacheRead = plus(s.CacheRead, t.CacheRead)
	s.CacheWrite = plus(s.CacheWrite, t.CacheWrite)
	s.Calls += t.Calls
	s.Cost = plus(s.Cost, t.Cost)
	s.Unpriced += t.Unpriced
	s.Uncertain += t.Uncertain
	return s
}

// Doubted returns a spend of which nobody knows whether it was billed.
func (s Spend) Doubted() Spend {
	s.Uncertain = s.Calls
	return s
}

// Allowance bounds what is spent; a zero field is no bound.
type Allowance struct {
	Tokens int64     `json:"t,omitempty"`
	Cost   money.USD `json:"c,omitempty"`
}

// Any reports whether there is a bound.
func (a Allowance) Any() bool { return a.Tokens > 0 || a.Cost > 0 }

// Covers reports whether the spend stays within the bounds.
func (a Allowance) Covers(s Spend) bool {
	return (a.Tokens == 0 || s.Tokens() <= a.Tokens) && (a.Cost == 0 || s.Cost <= a.Cost)
}

// Plus raises each bound that there is.
func (a Allowance) Plus(more Allowance) Allowance {
	if a.Tokens > 0 {
		a.Tokens = plus(a.Tokens, more.Tokens)
	}
	if a.Cost > 0 {
		a.Cost = plus(a.Cost, more.Cost)
	}
	return a
}

// Payer is a run that pays for its own model calls and those of all below it.
type Payer struct {
	Run        string    `json:"r"`
	Generation int64     `json:"g,omitempty"`
	Limit      Allowance `json:"l"`
}

// Limit is what the run and all below it may spend, as it was dispatched.
func (r Run) Limit() Allowance {
	for _, p := range r.Payers {
		if p.Run == r.ID {
			return p.Limit
		}
	}
	return Allowance{}
}

// Account keeps what model calls cost: those of one run or turn, or those of a whole
// tree. Where there is a limit a call is reserved before it is made and settled after
// its answer is kept; what is spent and reserved together never passes the limit.
//
// The account of a run remembers the keys it has settled, so that settling again changes
// nothing. That of a tree need not: what is not reserved in it was settled before.
type Account struct {
	// Version is the item's version, not part of its body.
	Version int64 `json:"-"`
	Spent   Spend `json:"s,omitzero"`
	// AfterFence is the part of Spent that calls cost which were under way when their run
	// was cancelled or given up.
	AfterFence Spend           `json:"af,omitzero"`
	Open       map[string]Hold `json:"o,omitempty"`
	Settled    Keys            `json:"k,omitempty"`
	// Raised is what people have allowed beyond the limit, Asked the questions to which they
	// have said so.
	Raised Allowance `json:"r,omitzero"`
	Asked  Keys      `json:"q,omitempty"`
}

// Hold is money set aside for a call.
type Hold struct {
	// By is the token of the execution that makes the call.
	By       string `json:"by"`
	Estimate Spend  `json:"e"`
}

// Reserved is what is set aside.
func (a Account) Reserved() Spend {
	var sum Spend
	for _, h := range a.Open {
		sum = sum.Plus(h.Estimate)
	}
	return sum
}

// Reserve sets the estimate aside for the call under key. Full: the limit does not allow
// it; the call must not be made. A reservation of the same call by another execution was
// left by one that died with the call under way: it is booked as spent, in doubt.
func (a Account) Reserve(key, by string, estimate Spend, limit Allowance) (Account, Outcome) {
	next := a
	if left, ok := a.Open[key]; ok {
		if left.By == by {
			return a, Mine
		}
		next = a.book(key, left.Estimate.Doubted())
	}
	if !limit.Plus(a.Raised).Covers(next.Spent.Plus(next.Reserved()).Plus(estimate)) {
		return a, Full
	}
	next.Open = maps.Clone(next.Open)
	if next.Open == nil {
		next.Open = map[string]Hold{}
	}
	next.Open[key] = Hold{By: by, Estimate: estimate}
	return next, Apply
}

// Abandon books the reservation that an execution which died has left under key. by is
// the one that goes on: its own stays.
func (a Account) Abandon(key, by string) (Account, Outcome) {
	left, ok := a.Open[key]
	if !ok || left.By == by {
		return a, Mine
	}
	return a.book(key, left.Estimate.Doubted()), Apply
}

// Raise allows more than the limit, once for each question.
func (a Account) Raise(question string, more Allowance) (Account, Outcome) {
	if a.Asked.Has(question) {
		return a, Mine
	}
	a.Asked = a.Asked.With(question)
	a.Raised.Tokens = plus(a.Raised.Tokens, more.Tokens)
	a.Raised.Cost = plus(a.Raised.Cost, more.Cost)
	return a, Apply
}

// Settle books what a reserved call has cost, whoever reserved it: its answer is in the
// journal. Mine: it was settled before.
func (a Account) Settle(key string, actual Spend) (Account, Outcome) {
	if _, ok := a.Open[key]; !ok {
		return a, Mine
	}
	return a.book(key, actual), Apply
}

// Forfeit books what a reserved call has cost whose answer was not kept: nothing, if it
// was refused. It will be made again under the same key. Mine: another execution has
// booked it.
func (a Account) Forfeit(key, by string, lost Spend) (Account, Outcome) {
	if left, ok := a.Open[key]; !ok || left.By != by {
		return a, Mine
	}
	return a.book(key, lost), Apply
}

// Record is Settle for the account of the run or turn itself, which needs no reservation.
func (a Account) Record(key string, actual Spend) (Account, Outcome) {
	if a.Settled.Has(key) {
		return a, Mine
	}
	a = a.book(key, actual)
	a.Settled = a.Settled.With(key)
	return a, Apply
}

// Closed is the account of a run that has ended. What is still reserved was left by an
// execution that died, or belongs to a call that a cancel could not take back: it is in doubt.
func (a Account) Closed() Account {
	for key, left := range a.Open {
		a = a.book(key, left.Estimate.Doubted())
	}
	return a
}

// Add books a call that was neither reserved nor kept.
func (a Account) Add(lost Spend) (Account, Outcome) {
	return a.book("", lost), Apply
}

// Fence tells apart what was booked already and turned out to have been spent behind the
// fence. Absent: the account went with its conversation.
func (a Account) Fence(late Spend) (Account, Outcome) {
	if a.Version == 0 {
		return a, Absent
	}
	a.AfterFence = a.AfterFence.Plus(late)
	return a, Apply
}

func (a Account) book(key string, s Spend) Account {
	a = a.without(key)
	a.Spent = a.Spent.Plus(s)
	return a
}

func (a Account) without(key string) Account {
	if _, ok := a.Open[key]; ok {
		a.Open = maps.Clone(a.Open)
		delete(a.Open, key)
	}
	return a
}

// Keys is a set of keys. Of numbered ones, like model:12, it keeps the ranges from first to
// last: those that were counted through take no room.
type Keys map[string][]int64

// Has reports whether the key is in the set.
func (k Keys) Has(key string) bool {
	name, n, numbered := numberOf(key)
	ranges, ok := k[name]
	if !numbered {
		return ok
	}
	for i := 0; i+1 < len(ranges); i += 2 {
		if ranges[i] <= n && n <= ranges[i+1] {
			return true
		}
	}
	return false
}

// With returns the set with the key.
func (k Keys) With(key string) Keys {
	if k.Has(key) {
		return k
	}
	k = maps.Clone(k)
	if k == nil {
		k = Keys{}
	}
	name, n, numbered := numberOf(key)
	if !numbered {
		k[name] = []int64{}
		return k
	}
	// Ranges are in order and do not touch, so the ends that are smaller than n are in pairs.
	ranges := slices.Clone(k[name])
	at, _ := slices.BinarySearch(ranges, n)
	before, after := at > 0 && ranges[at-1] == n-1, at < len(ranges) && ranges[at] == n+1
	switch {
	case before && after:
		ranges = slices.Delete(ranges, at-1, at+1)
	case before:
		ranges[at-1] = n
	case after:
		ranges[at] = n
	default:
		ranges = slices.Insert(ranges, at, n, n)
	}
	k[name] = ranges
	return k
}

// numberOf splits a numbered key. The name ends in '#', which no id has: it is no other key.
func numberOf(key string) (name string, n int64, ok bool) {
	i := strings.LastIndexByte(key, ':') + 1
	n, err := strconv.ParseInt(key[i:], 10, 64)
	if i == 0 || err != nil || n < 0 || strconv.FormatInt(n, 10) != key[i:] {
		return key, 0, false
	}
	return key[:i] + "#", n, true
}
