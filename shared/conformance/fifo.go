package conformance

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/errand-dev/errand/shared/platform"
)

// FIFO checks what platform.Turns promises beyond the other queues.
func (s Suite) FIFO(t *testing.T) {
	s.run(t, []sentence{
		{"a group is handed out in order, one at a time", func(e *env) {
			e.sendTurns("g/1", "g/2", "g/3")
			for _, want := range []string{"g/1", "g/2", "g/3"} {
				batch := e.receive(platform.Turns, 10, time.Minute)
				e.wantBodies(batch, want)
				e.wantQuiet(platform.Turns)
				e.must(e.Receiver.Acknowledge(e.Context(), batch[0]))
			}
			e.wantQuiet(platform.Turns)
		}},
		{"a head in flight blocks its own group only", func(e *env) {
			e.sendTurns("a/1", "b/1", "a/2", "b/2")
			heads := e.receiveTurns(2)
			e.wantTurns(heads, "a/1", "b/1")
			e.wantQuiet(platform.Turns)
			e.must(e.Receiver.Acknowledge(e.Context(), heads["b/1"]))
			e.wantTurns(e.receiveTurns(1), "b/2")
			e.wantQuiet(platform.Turns)
		}},
		{"a head whose visibility ran out comes back before its successor", func(e *env) {
			e.sendTurns("g/1", "g/2")
			e.wantBodies(e.receive(platform.Turns, 10, e.visibility), "g/1")
			again := e.receive(platform.Turns, 10, time.Minute)
			e.wantBodies(again, "g/1")
			e.must(e.Receiver.Acknowledge(e.Context(), again[0]))
			e.wantBodies(e.receive(platform.Turns, 10, time.Minute), "g/2")
		}},
		{"a head given back comes before its successor", func(e *env) {
			e.sendTurns("g/1", "g/2")
			e.must(e.Receiver.Extend(e.Context(), e.receive(platform.Turns, 10, time.Minute)[0], 0))
			e.wantBodies(e.receive(platform.Turns, 10, time.Minute), "g/1")
		}},
		{"an extended head goes on blocking its group", func(e *env) {
			e.sendTurns("g/1", "g/2")
			head := e.receive(platform.Turns, 10, e.visibility)[0]
			e.must(e.Receiver.Extend(e.Context(), head, time.Minute))
			e.advance(e.visibility)
			e.wantQuiet(platform.Turns)
		}},
		{"a second message with the same deduplication value is suppressed", func(e *env) {
			e.sendTurn("g", "dedup-1", "first")
			e.sendTurn("g", "dedup-1", "second")
			e.sendTurn("g", "dedup-2", "third")
			head := e.receive(platform.Turns, 10, time.Minute)
			e.wantBodies(head, "first")
			e.must(e.Receiver.Acknowledge(e.Context(), head[0]))
			e.wantBodies(e.receive(platform.Turns, 10, time.Minute), "third")
		}},
		{"a second message is suppressed also after the first was acknowledged", func(e *env) {
			e.sendTurn("g", "dedup-1", "first")
			e.must(e.Receiver.Acknowledge(e.Context(), e.receive(platform.Turns, 10, time.Minute)[0]))
			e.sendTurn("g", "dedup-1", "second")
			e.wantQuiet(platform.Turns)
		}},
		{"a deduplication value is free again after five minutes", func(e *env) {
			if !e.fake && e.Harness.Advance == nil {
				e.Skip("takes five minutes of real time")
			}
			e.sendTurn("g", "dedup-1", "first")
			e.must(e.Receiver.Acknowledge(e.Context(), e.receive(platform.Turns, 10, time.Minute)[0]))
			e.advance(4*time.Minute + 59*time.Second)
			e.sendTurn("g", "dedup-1", "too early")
			e.wantQuiet(platform.Turns)
			e.advance(time.Second)
			e.sendTurn("g", "dedup-1", "second")
			e.wantBodies(e.receive(platform.Turns, 10, time.Minute), "second")
		}},
		{"a dead head frees its group", func(e *env) {
			e.sendTurns("g/poison", "g/next")
			for range platform.MaxReceives {
				e.must(e.Receiver.Extend(e.Context(), e.receive(platform.Turns, 1, time.Minute)[0], 0))
			}
			e.wantBodies(e.receive(platform.Turns, 1, time.Minute), "g/next")
			e.wantBodies(e.deadLetters(platform.Turns, 1), "g/poison")
		}},
		{"a message without a group is refused", func(e *env) {
			m := message(platform.Turns, "x")
			m.Group = ""
			e.wantRefused(m)
			e.wantQuiet(platform.Turns)
		}},
		{"a message with a delay is refused", func(e *env) {
			m := message(platform.Turns, "x")
			m.Delay = time.Second
			e.wantRefused(m)
			e.advance(time.Second)
			e.wantQuiet(platform.Turns)
		}},
		{"turns of one group never overlap among many receivers", func(e *env) { e.wantNoOverlap() }},
	})
}

func (e *env) sendTurn(group, dedup, body string) {
	e.Helper()
	e.must(e.Store.Send(e.Context(), platform.Message{Queue: platform.Turns, Group: group, Dedup: dedup, Body: []byte(body)}))
}

// sendTurns sends bodies of the form group/number.
func (e *env) sendTurns(bodies ...string) {
	e.Helper()
	for _, body := range bodies {
		group, _, _ := strings.Cut(body, "/")
		e.sendTurn(group, body, body)
	}
}

// receiveTurns takes n turns, in as many receives as it needs.
func (e *env) receiveTurns(n int) map[string]platform.Received {
	e.Helper()
	turns := make(map[string]platform.Received)
	for len(turns) < n {
		for _, r := range e.receive(platform.Turns, 10, time.Minute) {
			turns[string(r.Body)] = r
		}
	}
	return turns
}

func (e *env) wantTurns(got map[string]platform.Received, want ...string) {
	e.Helper()
	for _, body := range want {
		if _, ok := got[body]; !ok || len(got) != len(want) {
			e.Fatalf("got %d turns without %q, want %q", len(got), body, want)
		}
	}
}

// wantNoOverlap lets several receivers work off several groups.
func (e *env) wantNoOverlap() {
	const groups, each, receivers = 5, 6, 4
	for i := range each {
		for g := range groups {
			e.sendTurns(fmt.Sprintf("%c/%d", 'a'+g, i))
		}
	}
	ctx, cancel := e.within(2 * settling)
	defer cancel()
	var mu sync.Mutex
	busy := make(map[string]bool)
	order := make(map[string][]string)
	total := 0
	enter := func(r platform.Received) {
		mu.Lock()
		defer mu.Unlock()
		if busy[r.Group] {
			e.Errorf("%s overlaps with another of its group", r.Body)
		}
		busy[r.Group] = true
		order[r.Group] = append(order[r.Group], string(r.Body))
	}
	leave := func(r platform.Received) {
		mu.Lock()
		defer mu.Unlock()
		busy[r.Group] = false
		if total++; total == groups*each {
			cancel()
		}
	}
	e.race(receivers, func(int) error {
		for {
			batch, err := e.Receiver.Receive(ctx, platform.Turns, 2, time.Minute)
			if err != nil {
				return err
			}
			for _, r := range batch {
				enter(r)
			}
			for _, r := range batch {
				leave(r)
				// Not under ctx, which may have ended with the last turn.
				if err := e.Receiver.Acknowledge(e.Context(), r); err != nil {
					e.Errorf("acknowledging: %v", err)
				}
			}
		}
	})
	for group, bodies := range order {
		if len(bodies) != each || !slices.IsSorted(bodies) {
			e.Errorf("group %s was handled as %q", group, bodies)
		}
	}
	if total != groups*each {
		e.Errorf("%d of %d turns were handled", total, groups*each)
	}
}
