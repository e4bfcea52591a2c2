package simulation

import (
	"fmt"
	"hash/fnv"
	"io"
	"strings"
	"time"
)

// shown is how many steps of a failed seed are shown.
const shown = 60

// trace keeps the last steps of a simulation, the hash of all, and what was counted.
type trace struct {
	began  time.Time
	last   []entry
	n      int
	hash   uint64
	counts map[string]int
	// all, if set, gets every step.
	all io.Writer
}

type entry struct {
	at   time.Duration
	p    *process
	call call
	note string
}

func newTrace() *trace {
	return &trace{began: time.Now(), last: make([]entry, shown), hash: 14695981039346656037, counts: map[string]int{}}
}

func (t *trace) add(p *process, c call, note string) {
	e := entry{time.Since(t.began), p, c, note}
	t.last[t.n%shown] = e
	if t.all != nil {
		e.write(t.all, t.n)
	}
	t.n++
	h := fnv.New64a()
	fmt.Fprint(h, t.hash, e.at, p, c.kind, c.key.Partition, c.key.Sort, c.queue, note)
	_, _ = h.Write(c.body)
	t.hash = h.Sum64()
}

func (t *trace) count(what string) { t.counts[what]++ }

// write shows the last steps.
func (t *trace) write(w io.Writer) {
	for i := max(0, t.n-shown); i < t.n; i++ {
		t.last[i%shown].write(w, i)
	}
}

func (e entry) write(w io.Writer, i int) {
	fmt.Fprintf(w, "%6d %12s %-4v %-12s %-6s %s %s %s\n", i, e.at.Truncate(time.Microsecond), e.p, e.call.kind, e.call.queue,
		strings.TrimSpace(e.call.key.Partition+" "+e.call.key.Sort), e.note, clip(e.call.body))
}

func clip(b []byte) string {
	const most = 420
	if len(b) > most {
		return string(b[:most]) + "..."
	}
	return string(b)
}
