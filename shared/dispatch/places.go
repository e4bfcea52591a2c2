package dispatch

import (
	"context"

	"github.com/errand-dev/errand/shared/ledger"
	"github.com/errand-dev/errand/shared/subagent"
)

// warn keeps the live-count warning edge-triggered.
func (s *start) warn(ctx context.Context, b subagent.Backbone) (subagent.Backbone, subagent.Outcome, error) {
	if _, o := b.Warn(); o != subagent.Apply {
		return b, subagent.Apply, nil
	}
	next, o, err := s.ledger.UpdateBackbone(ctx, s.req.Owner, b, subagent.Backbone.Warn)
	if err != nil {
		return b, subagent.Apply, err
	}
	if o == subagent.Apply && next.Warned {
		s.events = append(s.events, s.ledger.NewEvent("run.live_count_warning", "", "", LiveCount{next.Live(), subagent.WarnAt}))
	}
	return next, subagent.Apply, nil
}

// LiveCount is the data of a run.live_count_warning event.
type LiveCount struct {
	Live      int `json:"live"`
	Threshold int `json:"threshold"`
}

// prune frees places of runs that are settled or given up. A reservation without a row
// stays: its dispatch may be about to write it.
func (s *start) prune(ctx context.Context, b subagent.Backbone) (subagent.Backbone, bool, error) {
	gone, soft, err := Survey(ctx, s.ledger, s.req.Owner, b)
	if err != nil {
		return b, false, err
	}
	next, outcome, err := s.ledger.UpdateBackbone(ctx, s.req.Owner, b, func(b subagent.Backbone) (subagent.Backbone, subagent.Outcome) {
		return b.Prune(gone, soft)
	})
	return next, outcome == subagent.Apply && next.Live() < s.Cap && len(next.Open) < subagent.MaxOpen, err
}

// Survey reads the runs of the backbone and returns the reservations of those that
// are settled and of those that were given up, with their generations.
func Survey(ctx context.Context, l *ledger.Ledger, o subagent.Owner, b subagent.Backbone) (gone, soft map[string]int64, err error) {
	rows, err := l.Runs(ctx, o, b.Runs())
	if err != nil {
		return nil, nil, err
	}
	gone, soft = map[string]int64{}, map[string]int64{}
	for _, r := range rows {
		generation := b.Open[r.ID].Generation
		switch {
		case b.Open[r.ID].Awaits(r, l.Now()):
		case r.Status == "", r.Status == subagent.Void && r.Generation < generation:
		case !r.Outstanding():
			gone[r.ID] = generation
		case !r.HoldsSlot():
			soft[r.ID] = generation
		}
	}
	return gone, soft, nil
}
