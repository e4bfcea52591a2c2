package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/errand-dev/errand/shared/api"
	"github.com/errand-dev/errand/shared/subagent"
)

// event is what the work tells of: a line of text, or of JSON.
type event struct {
	Type     string `json:"type"`
	Question string `json:"question,omitempty"`
	Data     string `json:"data,omitempty"`
	Sources  int    `json:"sources,omitempty"`
	// Source and what follows tell how the reading of one source has ended.
	Source  string          `json:"source,omitempty"`
	Status  subagent.Status `json:"status,omitempty"`
	Claims  int             `json:"claims,omitempty"`
	Refused int             `json:"refused,omitempty"`
	Reason  string          `json:"reason,omitempty"`
	Title   string          `json:"title,omitempty"`
	Report  string          `json:"report,omitempty"`
	Summary string          `json:"summary,omitempty"`
	Cost    *api.Cost       `json:"cost,omitempty"`
}

// Types of events.
const (
	eventStarted  = "started"
	eventSource   = "source"
	eventApproved = "approved"
	eventReport   = "report"
	eventCost     = "cost"
)

// screen shows events, on a terminal with a bar below them.
type screen struct {
	out  io.Writer
	json bool
	// scripted: what the model costs is made up.
	scripted bool
	bars     *mpb.Progress
	bar      *mpb.Bar
	redraw   chan any
}

func newScreen(o options, out io.Writer) *screen {
	s := &screen{out: out, json: o.jsonEvents, scripted: o.modelName == "script"}
	if file, ok := out.(*os.File); ok && isatty.IsTerminal(file.Fd()) && !o.plain && !o.jsonEvents {
		s.redraw = make(chan any)
		s.bars = mpb.New(mpb.WithOutput(out), mpb.WithWidth(30), mpb.WithManualRefresh(s.redraw))
	}
	return s
}

// close removes the bar. It may be called twice.
func (s *screen) close() {
	if s.bars == nil {
		return
	}
	if s.bar != nil {
		s.bar.Abort(true)
	}
	s.redraw <- time.Now()
	s.bars.Shutdown()
	s.bars = nil
}

func (s *screen) show(e event) {
	if s.json {
		// Events always encode. A reader that has left is no reason to stop.
		_ = json.NewEncoder(s.out).Encode(e)
		return
	}
	switch e.Type {
	case eventStarted:
		s.print("%s\n  %-9s %s\n", e.Question, "reading", count(e.Sources, "source"))
		if s.bars != nil {
			s.bar = s.bars.AddBar(int64(e.Sources), mpb.BarRemoveOnComplete(), mpb.PrependDecorators(decor.Name("  ")),
				mpb.AppendDecorators(decor.CountersNoUnit("  %d of %d")))
		}
	case eventSource:
		if s.bar != nil {
			s.bar.Increment()
		}
		s.source(e)
	case eventApproved:
		s.print("  %-9s %s\n", "approved", e.Title)
	case eventReport:
		s.close()
		s.print("  %-9s %s\n\n%s\n", "report", e.Report, e.Summary)
	case eventCost:
		s.close()
		s.print("%s\n", s.costText(*e.Cost))
	}
}

func (s *screen) source(e event) {
	if e.Status != subagent.Completed {
		s.print("  %-9s %s: %s\n", "not read", e.Source, e.Reason)
		return
	}
	left := ""
	if e.Refused > 0 {
		left = fmt.Sprintf("; %s left out, whose quote is not in it", count(e.Refused, "claim"))
	}
	s.print("  %-9s %s: %s%s\n", "read", e.Source, count(e.Claims, "claim"), left)
}

func (s *screen) costText(c api.Cost) string {
	text := fmt.Sprintf("%s, %d tokens in, %d out", count(int(c.ModelCalls), "model call"), c.InputTokens, c.OutputTokens)
	switch {
	case c.USD == nil:
		return "Cost: " + text + "; the model has no price."
	case s.scripted:
		text += "; a price made up, since the script costs nothing"
	}
	return fmt.Sprintf("Cost: %v for %s.", c.USD, text)
}

// print writes text, above the bar if there is one.
func (s *screen) print(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if s.bars != nil {
		_, _ = s.bars.Write([]byte(text))
		s.redraw <- time.Now()
		return
	}
	_, _ = io.WriteString(s.out, text)
}
