package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/errand-dev/errand/shared/subagent"
)

// A run or turn that waits holds no process: its context ends, and its code is executed
// again from the beginning when the wait is over, its steps answered from the journal. A
// wait returns ErrSuspended then; pass it on. While a turn waits its conversation stands
// still, so a turn waits for an hour at most; whatever comes meanwhile is kept in order.

// Errors of waits.
var (
	// ErrTimedOut: what was waited for has not come in time.
	ErrTimedOut = errors.New("the wait has timed out")
	// ErrWaitsForItself: a run would wait for itself or for one above it.
	ErrWaitsForItself = errors.New("a run cannot wait for itself or for a run above it")
	// ErrJoinTooLarge: more runs are named than a row can wait for.
	ErrJoinTooLarge = errors.New("a join is of so many runs at most as a conversation may have outstanding")
	// ErrNoMilestone: the run has ended without the milestone.
	ErrNoMilestone = errors.New("the run has ended without this milestone")
)

// Await waits for the end of a run of the conversation and returns its result. A turn that
// has waited for too long gets ErrTimedOut. Errors: ErrNoRun, ErrWaitsForItself.
func (w *Work) Await(ctx context.Context, run string) (Result, error) {
	if err := w.backend.Wait(ctx, subagent.Wait{Runs: []string{run}, Need: 1}); err != nil {
		return Result{}, err
	}
	r, err := w.Inspect(ctx, run)
	if err == nil && r.Status.Live() {
		err = fmt.Errorf("%w: run %s is %s", ErrTimedOut, run, r.Status)
	}
	return r, err
}

// Join says which runs to wait for.
type Join struct {
	// Runs are at most subagent.MaxOpen: the row of whoever waits names them all.
	Runs []string
	// Need is how many of them must have ended; zero means all. One that is named twice
	// counts once.
	Need int
	// Within bounds the wait; zero means no bound but that of a turn.
	Within time.Duration
}

// Join waits until enough of the runs have ended, or until its time is over, and returns
// them all in the given order: those that have not ended have a live status. Which had
// ended is kept under key, so that executed again the code sees the same.
// Errors: ErrNoRun, ErrWaitsForItself, ErrJoinTooLarge.
func (w *Work) Join(ctx context.Context, key string, j Join) ([]Result, error) {
	if len(j.Runs) == 0 {
		return nil, nil
	}
	var runs []string
	for _, id := range j.Runs {
		if !slices.Contains(runs, id) {
			runs = append(runs, id)
		}
	}
	if len(runs) > subagent.MaxOpen {
		return nil, fmt.Errorf("%w: %d are more than %d", ErrJoinTooLarge, len(runs), subagent.MaxOpen)
	}
	need := j.Need
	if need <= 0 || need > len(runs) {
		need = len(runs)
	}
	seen, err := keep(ctx, w, "#join:"+key, func(ctx context.Context) ([]subagent.Status, error) {
		until, err := w.until(ctx, key, j.Within)
		if err != nil {
			return nil, err
		}
		if err := w.backend.Wait(ctx, subagent.Wait{Runs: runs, Need: need, Until: until}); err != nil {
			return nil, err
		}
		seen := make([]subagent.Status, len(runs))
		for i, id := range runs {
			r, err := w.Inspect(ctx, id)
			if err != nil {
				return nil, err
			}
			seen[i] = r.Status
		}
		return seen, nil
	})
	if err != nil {
		return nil, err
	}
	found := map[string]Result{}
	for i, id := range runs {
		r, err := w.Inspect(ctx, id)
		if err != nil {
			return nil, err
		}
		if seen[i].Live() {
			r.Status, r.Output = seen[i], nil
		}
		found[id] = r
	}
	results := make([]Result, len(j.Runs))
	for i, id := range j.Runs {
		results[i] = found[id]
	}
	return results, nil
}

// AwaitMilestone waits for a milestone of a run and returns it, or ErrTimedOut after within
// (zero means no bound but that of a turn). Errors: ErrNoMilestone, ErrNoRun, ErrWaitsForItself.
func (w *Work) AwaitMilestone(ctx context.Context, key, run, name string, within time.Duration) (Milestone, error) {
	heard, err := keep(ctx, w, "#milestone:"+key, func(ctx context.Context) (heard, error) {
		until, err := w.until(ctx, key, within)
		if err != nil {
			return heard{}, err
		}
		err = w.backend.Wait(ctx, subagent.Wait{Runs: []string{run}, Need: 1, Milestone: name, Until: until})
		if err != nil {
			return heard{}, err
		}
		return w.hear(ctx, run, name)
	})
	switch {
	case err != nil, heard.Milestone != nil:
		return deref(heard.Milestone), err
	case heard.Status.Live():
		return Milestone{}, fmt.Errorf("%w: no milestone %s of run %s", ErrTimedOut, name, run)
	}
	return Milestone{}, fmt.Errorf("%w: %s of run %s, which is %s", ErrNoMilestone, name, run, heard.Status)
}

// heard is what a wait for a milestone ended with, as it is kept.
type heard struct {
	Milestone *Milestone      `json:"milestone,omitempty"`
	Status    subagent.Status `json:"status"`
}

func (w *Work) hear(ctx context.Context, run, name string) (heard, error) {
	// The status first: a run that has ended reaches no milestone after that.
	r, err := w.Inspect(ctx, run)
	if err != nil {
		return heard{}, err
	}
	reached, err := w.Milestones(ctx, run)
	h := heard{Status: r.Status}
	if i := slices.IndexFunc(reached, func(m Milestone) bool { return m.Name == name }); i >= 0 {
		h.Milestone = &reached[i]
	}
	return h, err
}

func deref(m *Milestone) Milestone {
	if m == nil {
		return Milestone{}
	}
	return *m
}

// Sleep waits for d, counted from its first call under key. A turn that would sleep for more
// than an hour gets ErrTimedOut after that.
func (w *Work) Sleep(ctx context.Context, key string, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	until, err := w.until(ctx, key, d)
	if err != nil {
		return err
	}
	if err := w.backend.Wait(ctx, subagent.Wait{Until: until}); err != nil {
		return err
	}
	if subagent.At(w.Now()) < until {
		return fmt.Errorf("%w: a turn sleeps for an hour at most, not for %v", ErrTimedOut, d)
	}
	return nil
}

// until journals when a wait ends that may last d from its first call under key; zero d is
// no bound.
func (w *Work) until(ctx context.Context, key string, d time.Duration) (subagent.Time, error) {
	if d <= 0 {
		return 0, nil
	}
	return keep(ctx, w, "#until:"+key, func(context.Context) (subagent.Time, error) {
		return subagent.At(w.Now().Add(d)), nil
	})
}
