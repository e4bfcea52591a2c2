package ingress

import (
	"context"
	"time"

	"github.com/errand-dev/errand/shared/api"
	"github.com/errand-dev/errand/shared/ledger"
	"github.com/errand-dev/errand/shared/subagent"
)

// EventQuery selects events of a conversation's log.
type EventQuery struct {
	Owner subagent.Owner
	// Run selects those of one run, if set.
	Run   string
	After int64
	Limit int
}

const (
	scanPage = 500
	// scanPages bounds how much of the log one request reads in search of a run's events.
	scanPages = 20
	// pollEvery is the pause between two looks where the platform cannot tell of changes.
	pollEvery = 500 * time.Millisecond
)

// Events returns the events after q.After, waiting up to wait for the next one. It may
// return none although there are more: Next says from where to go on in any case.
// Errors: ErrNotFound.
func (s *Service) Events(ctx context.Context, q EventQuery, wait time.Duration) (api.EventPage, error) {
	over := time.NewTimer(wait)
	defer over.Stop()
	for first := true; ; first = false {
		// Watch first, then look: nothing is missed in between.
		changed, stop := s.changed(q.Owner)
		page, more, err := s.scan(ctx, q)
		if err == nil && first && len(page.Events) == 0 {
			err = s.watchable(ctx, q)
		}
		if err != nil || len(page.Events) > 0 || wait <= 0 {
			stop()
			return page, err
		}
		q.After = page.Next
		waited := false
		select {
		case <-over.C:
			waited = true
		case <-ctx.Done():
			// The server stops, or nobody listens any more: there is no next one from here.
			waited = true
		case <-lookAgain(changed, more):
		}
		stop()
		if waited {
			return page, nil
		}
	}
}

// lookAgain returns a channel that is ready at once if there is more to look at, else changed.
func lookAgain(changed <-chan struct{}, more bool) <-chan struct{} {
	if !more {
		return changed
	}
	ready := make(chan struct{})
	close(ready)
	return ready
}

// watchable returns ErrNotFound if nothing can ever come.
func (s *Service) watchable(ctx context.Context, q EventQuery) error {
	if q.Run == "" {
		return s.exists(ctx, q.Owner)
	}
	_, err := s.Control.Run(ctx, q.Owner, q.Run)
	return err
}

// changed returns a channel that is closed after the next write to the log or, where
// nobody can tell, after a pause.
func (s *Service) changed(o subagent.Owner) (<-chan struct{}, func()) {
	if changed, stop, ok := s.Ledger.WatchEvents(o); ok {
		return changed, stop
	}
	later := make(chan struct{})
	timer := time.AfterFunc(pollEvery, func() { close(later) })
	return later, func() { timer.Stop() }
}

// scan reads the log until the page is full, the log ends, or it has read enough; more
// says that it did not reach the end.
func (s *Service) scan(ctx context.Context, q EventQuery) (page api.EventPage, more bool, err error) {
	page = api.EventPage{Events: []api.Event{}, Next: q.After}
	size := 0
	for range scanPages {
		limit := scanPage
		if q.Run == "" {
			limit = q.Limit - len(page.Events)
		}
		events, err := s.Ledger.Events(ctx, q.Owner, page.Next, limit)
		if err != nil {
			return page, false, err
		}
		for _, e := range events {
			if q.wants(e) {
				size += len(e.Data)
				if len(page.Events) == q.Limit || size > pageBytes && len(page.Events) > 0 {
					return page, true, nil
				}
				page.Events = append(page.Events, viewEvent(e))
			}
			page.Next = e.Seq
		}
		if len(events) < limit {
			return page, false, nil
		}
		if len(page.Events) == q.Limit {
			break
		}
	}
	return page, true, nil
}

func (q EventQuery) wants(e ledger.Event) bool { return q.Run == "" || e.Run == q.Run }
