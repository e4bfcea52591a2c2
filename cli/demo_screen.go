package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	importagent "github.com/errand-dev/errand/examples/importer/subagent"
	"github.com/errand-dev/errand/shared/subagent"
)

// screen shows the events of the demo: as text, with bars on a terminal, or as JSON.
type screen struct {
	out  io.Writer
	json bool
	bars *mpb.Progress
	// redraw draws the bars and, above them, what was printed since the last time.
	redraw chan any
	bar    map[string]*bar
	// quarter is the last quarter of each run that was told without bars.
	quarter map[string]int
	seq     int64
}

// bar is the progress bar of one run. Its text is read by another goroutine.
type bar struct {
	*mpb.Bar
	text *atomic.Value
}

func newScreen(f demoFlags, out io.Writer) *screen {
	s := &screen{out: out, json: f.json, bar: map[string]*bar{}, quarter: map[string]int{}}
	if !f.plain && !f.json && isTerminal(out) {
		s.redraw = make(chan any)
		s.bars = mpb.New(mpb.WithOutput(out), mpb.WithWidth(30), mpb.WithManualRefresh(s.redraw))
	}
	return s
}

// close removes the bars. It may be called twice.
func (s *screen) close() {
	if s.bars == nil {
		return
	}
	s.dropBars()
	s.bars.Shutdown()
	s.bars = nil
}

func (s *screen) dropBars() {
	for run, b := range s.bar {
		b.Abort(true)
		delete(s.bar, run)
	}
	if s.bars != nil {
		s.redraw <- time.Now() // shows the bars a last time
		s.redraw <- time.Now()
	}
}

// show shows one event. A message that was shown before is left out: a worker that
// starts again tells the conversation from its beginning.
func (s *screen) show(e demoEvent) {
	if m := e.Message; m != nil {
		if m.Seq <= s.seq {
			return
		}
		s.seq = m.Seq
	}
	if s.json {
		// Events are our own structs: they always encode. A reader that has left is not
		// a reason to stop an import.
		_ = json.NewEncoder(s.out).Encode(e)
		return
	}
	switch e.Type {
	case eventStarted:
		s.print("Data folder: %s\n\n", e.Data)
	case eventMessage:
		s.message(*e.Message)
	case eventProgress:
		s.progress(*e.Progress)
	case eventKilled:
		s.dropBars()
		clear(s.quarter)
		s.print("\n  ----  The worker process was killed (SIGKILL). Starting it again on the same folder.\n\n")
	case eventStopped:
		s.close()
		s.print("\nStopped. The import is not lost. To go on: %s demo%s --data %s\n", program(), argument(e.File), e.Data)
	case eventReport:
		s.close()
		s.report(*e.Report)
	}
}

// print writes text, above the bars if there are any.
func (s *screen) print(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if s.bars != nil {
		_, _ = s.bars.Write([]byte(text))
		s.redraw <- time.Now()
		return
	}
	_, _ = io.WriteString(s.out, text)
}

func (s *screen) message(m demoMessage) {
	took := ""
	if m.AnswerMS != nil {
		took = fmt.Sprintf("  [%d ms]", *m.AnswerMS)
	}
	const indent = "                    "
	s.print("%5.1f s  %-10s  %s%s\n", float64(m.AtMS)/1000, speaker(m), strings.ReplaceAll(m.Text, "\n", "\n"+indent+"  "), took)
}

func speaker(m demoMessage) string {
	switch {
	case m.Run != "" && m.Role == "user":
		return "RESULT"
	case m.Role == "user":
		return "you"
	}
	return "agent"
}

func (s *screen) progress(p demoProgress) {
	if s.bars != nil {
		s.moveBar(p)
		return
	}
	const quarters = 4
	q := int(p.Fraction * quarters)
	if q <= s.quarter[p.Run] || q == quarters {
		return
	}
	s.quarter[p.Run] = q
	s.print("%5.1f s  %-10s  %d %%: %s, %s\n", float64(p.AtMS)/1000, "progress", q*100/quarters, p.Phase, p.Message)
}

// barSteps is the resolution of a bar.
const barSteps = 1000

func (s *screen) moveBar(p demoProgress) {
	b, ok := s.bar[p.Run]
	if !ok {
		if p.Fraction >= 1 {
			return
		}
		b = &bar{text: &atomic.Value{}}
		b.text.Store("")
		b.Bar = s.bars.AddBar(barSteps, mpb.BarRemoveOnComplete(),
			mpb.PrependDecorators(decor.Name("         ")),
			mpb.AppendDecorators(decor.Percentage(decor.WCSyncSpace), decor.Any(func(decor.Statistics) string {
				text, _ := b.text.Load().(string)
				return "  " + text
			})))
		s.bar[p.Run] = b
	}
	b.text.Store(p.Phase + ", " + p.Message)
	b.SetCurrent(int64(p.Fraction * barSteps))
	s.redraw <- time.Now()
}

func (s *screen) report(r demoReport) {
	s.print("\nWhat happened\n")
	s.print("  The importer was sent off and its user answered in %d ms%s.\n", r.DispatchMS, waiting(r.WaitedMS))
	s.print("  Answered while imports ran: %d of the user's messages%s.\n", len(r.Meanwhile), slowest(r.Meanwhile))
	for _, i := range r.Imports {
		times := "once"
		if i.Told != 1 {
			times = fmt.Sprintf("%d times", i.Told)
		}
		s.print("  The %s %s after %.1f s; the conversation was told %d ms later, %s.%s\n", i.Source, ending(i.Status), float64(i.RunMS)/1000, i.NoticeMS, times, again(i.Executions))
	}
	for _, i := range r.Imports {
		s.sample(i)
	}
	s.next(r)
}

// waiting is about a turn that may have found the columns there already.
func waiting(ms int64) string {
	if ms == 0 {
		return ""
	}
	return fmt.Sprintf("; for %d ms of that the turn waited for the columns and held no process", ms)
}

func slowest(answers []demoAnswer) string {
	if len(answers) == 0 {
		return ""
	}
	var most int64
	for _, a := range answers {
		most = max(most, a.MS)
	}
	return fmt.Sprintf(", the slowest in %d ms", most)
}

func ending(s subagent.Status) string {
	if s == subagent.Completed {
		return "was done"
	}
	return "ended as " + string(s)
}

func again(executions int64) string {
	if executions < 2 {
		return ""
	}
	return fmt.Sprintf(" It took %d executions.", executions)
}

func (s *screen) sample(i demoImport) {
	if len(i.Sample) == 0 {
		return
	}
	s.print("\nThe first of %s rows of %s\n", importagent.Thousands(i.Rows), i.Table)
	table := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
	for _, cells := range i.Sample {
		fmt.Fprintln(table, "  "+strings.Join(cells, "\t"))
	}
	_ = table.Flush()
}

// next says what to try now.
func (s *screen) next(r demoReport) {
	s.print("\nTry next\n")
	if len(r.Imports) > 0 && r.Imports[0].Database != "" {
		s.print("  sqlite3 %s '.tables'\n", filepath.Clean(r.Imports[0].Database))
	}
	s.print("  %s demo --kill\n", program())
	s.print("  %s serve --lab --data %s\n", program(), r.Data)
	s.print("  curl http://127.0.0.1:8080/v1/conversations/demo/messages\n")
}
