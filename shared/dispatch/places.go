package dispatch

import (
	"context"
	"fmt"
	"time"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/ledger"
	"github.com/errand-dev/errand/shared/subagent"
)

// Reserve makes sure that the run has a place in its conversation's backbone, above
// the cap if need be: for a run that becomes outstanding again.
func (d *Dispatcher) Reserve(ctx context.Context, run subagent.Run, redrives int) error {
	_, err := d.place(ctx, start{req: Request{Owner: run.Owner, Run: run.ID}, redrives: redrives})
	return err
}

// ReserveTurn makes sure that ticks look after a turn that waits, until then if that is not
// zero.
func (d *Dispatcher) ReserveTurn(ctx context.Context, o subagent.Owner, turn string, until subagent.Time) error {
	b, err := d.place(ctx, start{req: Request{Owner: o, Run: subagent.TurnPlace(turn)}, soft: true})
	if err != nil || until == 0 || until >= b.Due {
		return err
	}
	left := until.Time().Sub(d.Ledger.Now())
	if left > soon {
		return nil
	}
	// The tick that is under way comes later than that; this one, sooner and ahead of it, makes it
	// stale. If that one is just being handled, this has the number of its successor.
	return d.Ledger.SendTick(ctx, o, b.Epoch+1, b.Rung, max(left, 0)+time.Millisecond)
}

// soon is how near the end of a wait must be to have a tick of its own. For later ones the
// next tick sees to it.
const soon = 30 * time.Second

func (d *Dispatcher) place(ctx context.Context, s start) (subagent.Backbone, error) {
	unlimited := *d
	unlimited.Cap = subagent.MaxOpen
	s.Dispatcher, s.ledger, s.now = &unlimited, d.Ledger, d.Ledger.Now()
	b, err := d.Ledger.Backbone(ctx, s.req.Owner)
	for range maxRounds {
		if err != nil {
			return b, err
		}
		var outcome subagent.Outcome
		if b, outcome, err = s.reserve(ctx, b, 0); err == nil && outcome.OK() {
			return b, nil
		}
		if outcome == subagent.Full {
			return b, &agent.CapError{Cap: subagent.MaxOpen}
		}
	}
	return b, fmt.Errorf("reserving a place for %s: %w", s.req.Run, ledger.ErrContended)
}

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
