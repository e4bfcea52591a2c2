package serve_test

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/dispatch"
	"github.com/errand-dev/errand/shared/ledger"
	"github.com/errand-dev/errand/shared/serve"
	"github.com/errand-dev/errand/shared/subagent"
)

// bench is a stack whose task "work" ends at once, whose task "idle" waits for its
// context, and whose handler "heard" tells when it was called.
type bench struct {
	*serve.Stack
	ended sync.Map // run id -> time at which the task returned
	heard chan heard
	stop  func()
}

type heard struct {
	run string
	at  time.Time
}

func startBench(tb testing.TB, dir string) *bench {
	tb.Helper()
	s := &bench{heard: make(chan heard, 1<<16)}
	agents := agent.NewRegistry()
	work := func(_ context.Context, r *agent.Run) (any, error) {
		s.ended.Store(r.ID, time.Now())
		return "done", nil
	}
	idle := func(ctx context.Context, _ *agent.Run) (any, error) {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	hear := func(_ context.Context, d agent.Delivery) error {
		s.heard <- heard{d.Run.ID, time.Now()}
		return nil
	}
	for _, err := range []error{agents.AddTask("work", work), agents.AddTask("idle", idle), agents.AddHandler("heard", hear)} {
		if err != nil {
			tb.Fatal(err)
		}
	}
	var err error
	s.Stack, err = serve.Open(tb.Context(), serve.Options{Dir: dir, Agents: agents, Workers: 2048, MaxConcurrentRuns: subagent.MaxOpen})
	if err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); s.Run(ctx) }()
	s.stop = sync.OnceFunc(func() {
		cancel()
		<-done
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	})
	tb.Cleanup(s.stop)
	return s
}

func (s *bench) dispatch(tb testing.TB, conversation, run, task, handler string) {
	tb.Helper()
	_, _, err := s.Service.Dispatcher.Start(context.Background(), dispatch.Request{
		Owner: subagent.Owner{Tenant: "bench", Conversation: conversation}, Run: run, Agent: task,
		Input: json.RawMessage(`{"n":1}`), Notice: subagent.Notice{Handler: handler},
	})
	if err != nil {
		tb.Error(err)
	}
}

func percentile(d []time.Duration, p float64) float64 {
	slices.Sort(d)
	return float64(d[int(float64(len(d)-1)*p)].Microseconds()) / 1000
}

func cpu() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkDispatch: from the call to the durable handle, one after the other.
func BenchmarkDispatch(b *testing.B) {
	s := startBench(b, b.TempDir())
	took := make([]time.Duration, 0, b.N)
	for i := 0; b.Loop(); i++ {
		begin := time.Now()
		s.dispatch(b, "c", fmt.Sprintf("run-%d", i), "work", "heard")
		took = append(took, time.Since(begin))
		<-s.heard
	}
	b.ReportMetric(percentile(took, 0.5), "p50-ms")
	b.ReportMetric(percentile(took, 0.99), "p99-ms")
}

// BenchmarkEndToHandler: from the return of the child's task to the start of the
// parent's handler.
func BenchmarkEndToHandler(b *testing.B) {
	s := startBench(b, b.TempDir())
	took := make([]time.Duration, 0, b.N)
	for i := 0; b.Loop(); i++ {
		s.dispatch(b, "c", fmt.Sprintf("run-%d", i), "work", "heard")
		h := <-s.heard
		ended, _ := s.ended.Load(h.run)
		took = append(took, h.at.Sub(ended.(time.Time)))
	}
	b.ReportMetric(percentile(took, 0.5), "p50-ms")
	b.ReportMetric(percentile(took, 0.99), "p99-ms")
}

// BenchmarkDetachedRuns: whole detached runs, from the dispatch to the delivered slot.
func BenchmarkDetachedRuns(b *testing.B) {
	for _, shape := range []struct{ dispatchers, conversations int }{{1, 1}, {32, 1}, {1, 32}, {32, 32}} {
		b.Run(fmt.Sprintf("dispatchers=%d/conversations=%d", shape.dispatchers, shape.conversations), func(b *testing.B) {
			s := startBench(b, b.TempDir())
			var next atomic.Int64
			// The cap bounds what is outstanding in a conversation.
			room := make(chan struct{}, min(48*shape.conversations, 1000))
			before := cpu()
			b.ResetTimer()
			for range shape.dispatchers {
				go func() {
					for {
						n := next.Add(1)
						if n > int64(b.N) {
							return
						}
						room <- struct{}{}
						s.dispatch(b, fmt.Sprintf("c%d", n%int64(shape.conversations)), fmt.Sprintf("run-%d", n), "work", "heard")
					}
				}()
			}
			for range b.N {
				<-s.heard
				<-room
			}
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "runs/s")
			b.ReportMetric(float64((cpu()-before).Microseconds())/1000/float64(b.N), "cpu-ms/run")
		})
	}
}

// BenchmarkIdleRuns: memory of 1,000 outstanding runs whose tasks wait.
func BenchmarkIdleRuns(b *testing.B) {
	for b.Loop() {
		s := startBench(b, b.TempDir())
		before := heap()
		const runs = 1000
		for i := range runs {
			s.dispatch(b, fmt.Sprintf("c%d", i%20), fmt.Sprintf("run-%d", i), "idle", "heard")
		}
		for s.Executor.Running() < runs {
			runtime.Gosched()
		}
		after := heap()
		b.ReportMetric(float64(after.heap-before.heap)/1024/runs, "heap-KiB/run")
		b.ReportMetric(float64(after.stacks-before.stacks)/1024/runs, "stack-KiB/run")
		s.stop()
	}
}

type memory struct{ heap, stacks uint64 }

// heap measures what is left once the collector has had time to shrink the stacks,
// which it halves each time.
func heap() memory {
	var m runtime.MemStats
	for range 5 {
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return memory{m.HeapAlloc, m.StackInuse}
}

// BenchmarkClaim: one of 64 that claim a slot at the same time wins.
func BenchmarkClaim(b *testing.B) {
	s := startBench(b, b.TempDir())
	o := subagent.Owner{Tenant: "bench", Conversation: "c"}
	for i := 0; b.Loop(); i++ {
		run := subagent.Run{Owner: o, ID: fmt.Sprintf("run-%d", i), Status: subagent.Completed}
		if _, _, err := s.Ledger.BeginRun(b.Context(), run); err != nil {
			b.Fatal(err)
		}
		var won atomic.Int32
		var claimers sync.WaitGroup
		for range 64 {
			claimers.Go(func() {
				token := s.Ledger.Token()
				_, outcome, err := s.Ledger.UpdateRun(b.Context(), run, func(r subagent.Run) (subagent.Run, subagent.Outcome) {
					return r.Take(subagent.Finish, token, s.Ledger.Now(), s.Ledger.Terms)
				})
				if err == nil && outcome == subagent.Apply {
					won.Add(1)
				}
			})
		}
		claimers.Wait()
		if won.Load() != 1 {
			b.Fatalf("%d claims won", won.Load())
		}
	}
}

// BenchmarkTick: one tick over n outstanding runs that need nothing.
func BenchmarkTick(b *testing.B) {
	for _, n := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("outstanding=%d", n), func(b *testing.B) {
			s := startBench(b, b.TempDir())
			o := subagent.Owner{Tenant: "bench", Conversation: "c"}
			for i := range n {
				s.dispatch(b, "c", fmt.Sprintf("run-%d", i), "idle", "heard")
			}
			for s.Executor.Running() < n {
				runtime.Gosched()
			}
			for b.Loop() {
				backbone, err := s.Ledger.Backbone(b.Context(), o)
				if err != nil {
					b.Fatal(err)
				}
				if err := s.Reconciler.Tick(b.Context(), ledger.Wake{Owner: o, Tick: backbone.Epoch, Rung: 3}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkRecovery: from the start of a process to all of 10,000 runs delivered that
// its predecessor had dispatched and not begun.
func BenchmarkRecovery(b *testing.B) {
	const runs, conversations = 10_000, 100
	for b.Loop() {
		b.StopTimer()
		dir := b.TempDir()
		leaveBehind(b, dir, runs, conversations)
		b.StartTimer()
		begin := time.Now()
		s := startBench(b, dir)
		first := time.Duration(0)
		for i := range runs {
			h := <-s.heard
			if i == 0 {
				first = h.at.Sub(begin)
			}
		}
		b.ReportMetric(float64(first.Microseconds())/1000, "ms-to-first")
		b.ReportMetric(time.Since(begin).Seconds(), "s-to-last")
		s.stop()
	}
}

// leaveBehind fills a data folder with dispatched runs and closes it.
func leaveBehind(b *testing.B, dir string, runs, conversations int) {
	agents := agent.NewRegistry()
	none := func(context.Context, *agent.Run) (any, error) { return nil, nil }
	heard := func(context.Context, agent.Delivery) error { return nil }
	if err := agents.AddTask("work", none); err != nil {
		b.Fatal(err)
	}
	if err := agents.AddHandler("heard", heard); err != nil {
		b.Fatal(err)
	}
	stack, err := serve.Open(b.Context(), serve.Options{Dir: dir, Agents: agents, MaxConcurrentRuns: subagent.MaxOpen})
	if err != nil {
		b.Fatal(err)
	}
	s := &bench{Stack: stack}
	var dispatchers sync.WaitGroup
	for d := range 16 {
		dispatchers.Go(func() {
			for i := d; i < runs; i += 16 {
				s.dispatch(b, fmt.Sprintf("c%d", i%conversations), fmt.Sprintf("run-%d", i), "work", "heard")
			}
		})
	}
	dispatchers.Wait()
	if err := stack.Close(); err != nil {
		b.Fatal(err)
	}
}
