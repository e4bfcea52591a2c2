package simulation

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

var (
	seeds = flag.Int("seeds", 0, "how many seeds to simulate (or ERRAND_SEEDS)")
	steps = flag.Bool("steps", false, "print every step of every seed")
	first = flag.Uint64("first", 1, "the first seed")
)

// defaultSeeds is what an ordinary test run can afford.
const defaultSeeds = 300

// enoughFailures end a test: what is broken is broken. With -failfast one is enough.
const enoughFailures = 10

func enough(failures int) bool {
	quick := flag.Lookup("test.failfast").Value.String() == "true"
	return failures >= enoughFailures || quick && failures > 0
}

// exercised must each have happened in the default seeds, or they show nothing.
var exercised = []string{
	"FAILS", "ANSWER LOST", "FAILS, APPLIED LATER", "TWICE", "applied late", "slow call", "handed out twice",
	"crash", "poison", "stall", "cut off", "cancel", "redrive", "clear", "follow-up", "cap reached", "dispatched again", "tombstone",
	"dead letter of runs", "dead letter of ticks", "dead letter of turns", "dead ticks sent again", "dead turns sent again",
	"end completed", "end error", "end aborted", "late end", "executor lost", "run taken over", "suspended", "torn down",
	"give-up budget-exceeded", "give-up no-progress", "milestone told", "inbox message of a child",
	"slot finish delivered", "slot finish dead_lettered", "slot finish silent", "slot finish abandoned",
	"slot give_up delivered", "slot give_up dead_lettered", "handler tried again", "hook called",
	"turn evicted", "turn given up", "turn superseded", "turn in error", "turn taken over", "stale write refused",
}

// TestASeedReplaysExactly runs some seeds twice: every step, to its time and body, is the same.
func TestASeedReplaysExactly(t *testing.T) {
	for seed := range uint64(25) {
		a, b := simulate(t, 1000+seed), simulate(t, 1000+seed)
		if a.hash != b.hash || a.steps != b.steps || !maps.Equal(a.counts, b.counts) {
			t.Errorf("seed %d: %d steps with hash %x, then %d with %x", 1000+seed, a.steps, a.hash, b.steps, b.hash)
		}
		if a.steps < 20 {
			t.Errorf("seed %d has %d steps: it shows nothing", 1000+seed, a.steps)
		}
	}
}

// outcome is what one seed came to.
type outcome struct {
	seed   uint64
	broken []string
	steps  int
	hash   uint64
	counts map[string]int
	trace  *trace
	plan   plan
}

// simulate runs one seed.
func simulate(t *testing.T, seed uint64) (o outcome) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{rng: rand.New(rand.NewPCG(seed, 0)), wake: make(chan struct{}, 1), began: time.Now(), trace: newTrace()}
		if *steps {
			w.trace.all = os.Stdout
		}
		w.plan = draw(w.rng)
		w.waitful(seed)
		w.check = newChecker(w)
		w.store = NewStore(time.Now, w.check)
		w.house = time.Now().Add(time.Minute)
		if err := w.register(); err != nil {
			t.Fatal(err)
		}
		for range w.plan.workers {
			w.spawn(true)
		}
		w.prepare()
		w.run()
		w.stop()
		o = outcome{seed, w.check.broken, w.steps, w.trace.hash, w.trace.counts, w.trace, w.plan}
	})
	return o
}

func TestSimulation(t *testing.T) {
	n := *seeds
	if n == 0 {
		n = defaultSeeds / raceSlowdown
		if v, err := strconv.Atoi(os.Getenv("ERRAND_SEEDS")); err == nil {
			n = v
		}
	}
	var mu sync.Mutex
	counts := map[string]int{}
	var failed []outcome
	total, done := 0, 0
	began := time.Now()
	t.Run("seeds", func(t *testing.T) {
		workers := runtime.GOMAXPROCS(0)
		for i := range workers {
			t.Run(fmt.Sprint("worker ", i), func(t *testing.T) {
				t.Parallel()
				for s := i; s < n; s += workers {
					o := simulate(t, *first+uint64(s))
					mu.Lock()
					done++
					for what, count := range o.counts {
						counts[what] += count
					}
					total += o.steps
					if len(o.broken) > 0 {
						failed = append(failed, o)
					}
					stop := enough(len(failed))
					mu.Unlock()
					if stop {
						return
					}
				}
			})
		}
	})
	if n >= defaultSeeds && len(failed) == 0 {
		for _, what := range exercised {
			if counts[what] == 0 {
				t.Errorf("in %d seeds there was no %q", n, what)
			}
		}
	}
	for _, what := range slices.Sorted(maps.Keys(counts)) {
		t.Logf("%8d  %s", counts[what], what)
	}
	t.Logf("%d seeds, %d steps, %.0f seeds/s", done, total, float64(done)/time.Since(began).Seconds())
	report(t, failed)
}

// report shows the failed seeds, the one of the fewest steps in full.
func report(t *testing.T, failed []outcome) {
	slices.SortFunc(failed, func(a, b outcome) int { return a.steps - b.steps })
	for i, o := range failed {
		t.Errorf("seed %d, %d steps: %s\n\tgo test ./shared/simulation -run TestSimulation -seeds 1 -first %d", o.seed, o.steps, strings.Join(o.broken, "; "), o.seed)
		if i == 0 {
			var b strings.Builder
			o.trace.write(&b)
			t.Errorf("%+v\nits last steps:\n%s", o.plan, &b)
		}
	}
}
