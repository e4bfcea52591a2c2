package crash

import (
	"fmt"
	"testing"
	"time"
)

// BenchmarkRestart: from the start of a new process, on the folder of one that was
// killed, to the call of the handler, seen from outside.
func BenchmarkRestart(b *testing.B) {
	for _, at := range []struct {
		name, handler string
		calls         int
	}{
		{"killed-before-the-handler", "lab-ok", 0},
		{"killed-inside-the-handler", "lab-slow-60000", 1},
	} {
		b.Run(at.name, func(b *testing.B) {
			s := newServer(b)
			var total time.Duration
			for i := 0; b.Loop(); i++ {
				s.start()
				conversation := fmt.Sprintf("c%d", i)
				order := map[string]any{"agent": "lab-sleep", "input": map[string]any{"ms": 20 * (1 - at.calls)},
					"run_id": "r", "detached": map[string]any{"on_finish": at.handler}}
				if err := s.insist(b.Context(), "POST", "/v1/conversations/"+conversation+"/runs", "k", order, nil); err != nil {
					b.Fatal(err)
				}
				s.awaitHandler(conversation, at.calls)
				s.kill()
				begin := time.Now()
				s.start()
				s.awaitHandler(conversation, at.calls+1)
				total += time.Since(begin)
				s.kill()
			}
			b.ReportMetric(float64(total.Microseconds())/1000/float64(b.N), "ms-to-handler")
		})
	}
}

// awaitHandler waits until so many calls of a handler are in the log.
func (s *server) awaitHandler(conversation string, calls int) {
	for seen, after := 0, int64(0); seen < calls; {
		var page struct {
			Events []struct {
				Seq  int64
				Type string
			}
		}
		path := fmt.Sprintf("/v1/conversations/%s/events?wait_ms=5000&after=%d", conversation, after)
		if err := s.insist(s.t.Context(), "GET", path, "", nil, &page); err != nil {
			s.t.Fatal(err)
		}
		for _, e := range page.Events {
			after = e.Seq
			if e.Type == "lab.handler" {
				seen++
			}
		}
	}
}
