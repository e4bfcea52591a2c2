package mcptools

import (
	"context"
	"strconv"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/harness"
)

// underway is a call that was not answered yet.
type underway struct {
	reports chan agent.Progress
	cancel  context.CancelCauseFunc
}

// follow reports the progress of a call, named by the token, as that of its run until stop.
// Until then the call is cancelled by cancel if the source is closed; stop calls it too.
func (s *Source) follow(ctx context.Context, cancel context.CancelCauseFunc) (token string, stop func()) {
	reports := make(chan agent.Progress, 1)
	s.mu.Lock()
	s.calls++
	token = strconv.Itoa(s.calls)
	s.underway[token] = &underway{reports, cancel}
	if s.closed {
		cancel(errClosed)
	}
	s.mu.Unlock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for p := range reports {
			if err := harness.ReportProgress(ctx, p); err != nil && ctx.Err() == nil {
				s.log.WarnContext(ctx, "progress of an mcp tool is not reported", "server", s.options.Name, "error", err)
			}
		}
	}()
	return token, func() {
		s.mu.Lock()
		delete(s.underway, token)
		close(reports)
		s.mu.Unlock()
		cancel(nil)
		<-done
	}
}

// progressed hands on what the server says of a call. It never waits, or answers would wait
// behind it: of what could not be reported yet, the latest wins.
func (s *Source) progressed(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
	token, _ := r.Params.ProgressToken.(string)
	s.mu.Lock()
	defer s.mu.Unlock()
	u, ok := s.underway[token]
	if !ok {
		return
	}
	select {
	case <-u.reports:
	default:
	}
	u.reports <- progressOf(r.Params)
}

func progressOf(p *mcp.ProgressNotificationParams) agent.Progress {
	report := agent.Progress{Message: p.Message}
	switch {
	case p.Total > 0:
		fraction := max(min(p.Progress/p.Total, 1), 0)
		report.Fraction = &fraction
	case p.Message == "":
		report.Message = strconv.FormatFloat(p.Progress, 'g', -1, 64)
	}
	return report
}
