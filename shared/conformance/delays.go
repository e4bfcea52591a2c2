package conformance

import (
	"testing"
	"time"

	"github.com/errand-dev/errand/shared/platform"
)

// Delays checks delayed messages, which are the fine-grained timer.
func (s Suite) Delays(t *testing.T) {
	for _, queue := range []string{platform.Runs, platform.Ticks} {
		t.Run(queue, func(t *testing.T) { s.run(t, delaySentences(queue)) })
	}
}

func delaySentences(queue string) []sentence {
	const delay = 2 * time.Second
	send := func(e *env, body string, delay time.Duration) {
		m := message(queue, body)
		m.Delay = delay
		e.must(e.Store.Send(e.Context(), m))
	}
	return []sentence{
		{"a delayed message comes at its time and not before", func(e *env) {
			start := time.Now()
			send(e, "x", delay)
			e.receive(queue, 1, time.Minute)
			took := time.Since(start)
			if e.fake && took != delay || took < delay-50*time.Millisecond || took > delay+3*time.Second {
				e.Errorf("came after %v, want %v", took, delay)
			}
		}},
		{"a delayed message holds up no other", func(e *env) {
			send(e, "later", delay)
			send(e, "now", 0)
			e.wantBodies(e.receive(queue, 10, time.Minute), "now")
			e.wantBodies(e.receive(queue, 10, time.Minute), "later")
		}},
		{"messages of shorter delay overtake those of longer", func(e *env) {
			send(e, "third", 3*delay)
			send(e, "first", delay)
			send(e, "second", 2*delay)
			for _, want := range []string{"first", "second", "third"} {
				e.wantBodies(e.receive(queue, 10, time.Minute), want)
			}
		}},
		{"the longest delay is accepted and a longer one refused", func(e *env) {
			send(e, "x", platform.MaxDelay)
			m := message(queue, "y")
			m.Delay = platform.MaxDelay + time.Second
			e.wantRefused(m)
			m.Delay = -time.Second
			e.wantRefused(m)
			e.wantQuiet(queue)
		}},
	}
}
