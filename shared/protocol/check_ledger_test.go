package protocol

import "testing"

var (
	equal = [4]int8{}
	slow  = [4]int8{-1, 1, 1, 0}
	fast  = [4]int8{1, -1, -1, 0}
)

var setups = []setup{
	{size: quick, name: "two executors and a job that comes twice", clocks: slow, executors: 2, handler: true, attempts: 1, budget: 2, crashes: 1, again: 1},
	{size: quick, name: "two executors and a job that comes twice, fast", clocks: fast, executors: 2, handler: true, attempts: 1, budget: 1, lost: 1, again: 1},
	{size: quick, name: "two executors and a handler", clocks: slow, executors: 2, heads: 1, handler: true, attempts: 1, budget: 2, crashes: 1},
	{size: quick, name: "two heads and a handler", clocks: slow, executors: 1, heads: 2, handler: true, attempts: 1, worked: true},
	{size: quick, name: "lost answers and a handler", clocks: equal, executors: 2, heads: 1, handler: true, attempts: 1, worked: true, lost: 1},
	{size: quick, name: "a handler that fails", clocks: equal, executors: 1, heads: 1, handler: true, attempts: 2, worked: true, fails: 1},
	{size: full, name: "two redrives", clocks: equal, executors: 1, heads: 1, handler: true, attempts: 1, worked: true, fails: 1, redrives: 1},
	{size: quick, name: "a dead slot and two redrives", clocks: equal, heads: 1, handler: true, attempts: 1, dead: true, redrives: 1, fails: 1},
	{size: quick, name: "two heads and one claim", clocks: slow, heads: 2, handler: true, attempts: 2, over: true},
	{size: quick, name: "two heads and one claim, fast", clocks: fast, heads: 2, handler: true, attempts: 2, over: true},
	{size: quick, name: "a cancel whose answer is lost", clocks: equal, executors: 1, handler: true, attempts: 1, worked: true, cancels: 1, lost: 1},
	{size: quick, name: "a message and a cancel", clocks: equal, executors: 1, heads: 1, couriers: 1, attempts: 1, worked: true, cancels: 1},
	{size: quick, name: "lost answers and a message", clocks: equal, executors: 1, heads: 1, couriers: 1, attempts: 1, worked: true, lost: 1},

	{size: usual, name: "two executors and a handler, fast", clocks: fast, executors: 2, heads: 1, handler: true, attempts: 1, budget: 2, crashes: 1},
	{size: usual, name: "two heads and a handler, fast", clocks: fast, executors: 1, heads: 2, handler: true, attempts: 1, worked: true},
	{size: usual, name: "a handler that fails, crashes and a cancel", clocks: slow, executors: 1, heads: 1, handler: true, attempts: 2, worked: true, fails: 1, crashes: 1, cancels: 1},
	{size: usual, name: "a run that is handed on", clocks: slow, executors: 2, heads: 1, couriers: 1, attempts: 1, budget: 1, hands: 1},
	{size: usual, name: "a message and two couriers", clocks: slow, executors: 1, heads: 1, couriers: 2, attempts: 1, worked: true},
	{size: usual, name: "a message and two heads", clocks: slow, executors: 1, heads: 2, couriers: 1, attempts: 1, worked: true},

	{size: full, name: "a message, crashes and a cancel", clocks: slow, executors: 1, heads: 1, couriers: 1, attempts: 1, worked: true, crashes: 1, cancels: 1},
	{size: full, name: "a message, two heads, fast", clocks: fast, executors: 1, heads: 2, couriers: 1, attempts: 1, worked: true},
	{size: full, name: "a message, two heads and a crash", clocks: equal, executors: 1, heads: 2, couriers: 1, attempts: 1, worked: true, crashes: 1},
	{size: full, name: "a message from the dispatch on", clocks: slow, executors: 2, heads: 1, couriers: 1, attempts: 1, budget: 2, crashes: 1},
	{size: full, name: "a handler, two heads, two attempts", clocks: slow, executors: 1, heads: 2, handler: true, attempts: 2, worked: true},
	{size: full, name: "a handler, two heads and a crash", clocks: equal, executors: 1, heads: 2, handler: true, attempts: 1, worked: true, crashes: 1},
	{size: full, name: "two redrives, slow", clocks: slow, executors: 1, heads: 1, handler: true, attempts: 1, worked: true, fails: 1, redrives: 1},
	{size: full, name: "two executors, lost answers and a crash", clocks: slow, executors: 2, heads: 1, handler: true, attempts: 1, budget: 2, lost: 1, crashes: 1},
}

func TestTheLedgerOfARunKeepsItsPromises(t *testing.T) {
	t.Parallel()
	for _, p := range setups {
		if p.size > wanted() {
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			explore(t, p.model())
		})
	}
}

// The checker must be able to fail: these two mistakes were once made.
func TestTheCheckerFindsKnownMistakes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		setup
		broken string
	}{
		{setup{name: "a turn that is not read again once its place is taken", executors: 1, heads: 2, couriers: 1, attempts: 1, worked: true, hasty: true},
			"a slot has one message"},
		{setup{name: "a handler's turn that found the claim held and is never sent again", executors: 1, heads: 1, handler: true, attempts: 2, worked: true, fails: 1, once: true},
			"it must always be possible: that the finish slot is closed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := Explore(c.model(), 0)
			t.Log(r)
			if r.Broken != c.broken {
				t.Errorf("got %q, want %q", r.Broken, c.broken)
			}
		})
	}
}
