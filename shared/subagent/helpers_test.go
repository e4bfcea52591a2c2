package subagent_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/errand-dev/errand/shared/subagent"
)

// t0 is when everything in the tables begins; sec(n) is n seconds later.
var t0 = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func sec(n float64) time.Time    { return t0.Add(time.Duration(n * float64(time.Second))) }
func at(n float64) subagent.Time { return subagent.At(sec(n)) }
func run(s subagent.Status) *builder {
	return &builder{subagent.Run{ID: "run", Status: s, DispatchedAt: at(0)}}
}

var terms = subagent.DefaultTerms

// builder makes rows readable.
type builder struct{ r subagent.Run }

func (b *builder) held(by string, until float64) *builder {
	b.r.Exec = subagent.Lease{Epoch: 3, Holder: by, Until: at(until)}
	return b
}

func (b *builder) claimed(by string, until float64) *builder {
	b.r.Claim = subagent.Claim{Token: by, Until: at(until), N: 1}
	return b
}

func (b *builder) slot(s subagent.Slot, state subagent.SlotState) *builder {
	b.r.Delivery(s).State = state
	return b
}

func (b *builder) attempts(s subagent.Slot, n int) *builder {
	b.r.Delivery(s).Attempts = n
	return b
}

func (b *builder) with(change func(*subagent.Run)) *builder {
	change(&b.r)
	return b
}

type rule func(subagent.Run) (subagent.Run, subagent.Outcome)

// row is one line of a table: a rule on a row has an outcome, and changes the row as
// change says, or not at all.
type row struct {
	name   string
	on     *builder
	rule   rule
	want   subagent.Outcome
	change func(*subagent.Run)
	// again is the outcome of the same rule on its own result; zero means Mine.
	again subagent.Outcome
}

func check(t *testing.T, rows []row) {
	t.Helper()
	for _, c := range rows {
		t.Run(c.name, func(t *testing.T) {
			before := c.on.r
			after, outcome := c.rule(before)
			if outcome != c.want {
				t.Fatalf("outcome %v, want %v", outcome, c.want)
			}
			want := c.on.r
			if c.change != nil {
				c.change(&want)
			}
			if d := cmp.Diff(want, after); d != "" {
				t.Errorf("row (-want +got):\n%s", d)
			}
			if outcome != subagent.Apply {
				return
			}
			// A write whose answer was lost is tried again.
			expected := c.again
			if expected == 0 {
				expected = subagent.Mine
			}
			twice, outcome := c.rule(after)
			if outcome != expected {
				t.Errorf("the same again: %v, want %v", outcome, expected)
			}
			if d := cmp.Diff(after, twice); d != "" {
				t.Errorf("the same again changes the row:\n%s", d)
			}
		})
	}
}
