package harness

import (
	"context"
	"fmt"
	"time"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/model"
)

// submitted is a model call that the vendor works on.
type submitted struct {
	ID string `json:"id"`
}

// fetched is what a look for its answer found.
type fetched struct {
	Done  bool  `json:"done"`
	Reply reply `json:"reply,omitzero"`
	// Failed says why the vendor has ended the call without an answer.
	Failed string `json:"failed,omitempty"`
}

// fetch submits call n and looks for its answer now and then; in between no process is held.
// One that failed at the vendor and may not fail again is submitted again: looked at once more it
// would show the same failure for ever. A cancel while nobody looks stops the run, but not what
// the vendor works on.
func (x *session) fetch(ctx context.Context, n int, key string, req model.Request, c agent.Call) (reply, error) {
	vendor := x.Model.(model.Background) // Register has seen to it
	round := 1
	call, err := x.submit(ctx, n, round, key, req, c)
	if err != nil {
		return reply{}, err
	}
	for k := 1; k <= mostLooks; k++ {
		if err := x.work.Sleep(ctx, fmt.Sprintf("look:%d:%d", n, k), lookAfter(k)); err != nil {
			return reply{}, err
		}
		found, err := step(ctx, x, fmt.Sprintf("fetch:%d:%d", n, k), func(ctx context.Context) (fetched, error) {
			return x.look(ctx, vendor, call.ID, c)
		})
		switch {
		case err != nil || found.Done:
			return found.Reply, err
		case found.Failed == "":
			continue
		case round >= x.limits.ModelAttempts:
			return reply{}, terminalf("the model failed %d times: %s", round, found.Failed)
		}
		round++
		if call, err = x.submit(ctx, n, round, key, req, c); err != nil {
			return reply{}, err
		}
	}
	return reply{}, terminalf("the model has not answered within %d looks, about a day", mostLooks)
}

// mostLooks bounds a call that the vendor never ends: at a look a minute, about a day.
const mostLooks = 24 * 60

// submit submits call n for the round-th time: another time needs another key, for the journal
// as for the vendor.
func (x *session) submit(ctx context.Context, n, round int, key string, req model.Request, c agent.Call) (submitted, error) {
	name := fmt.Sprintf("submit:%d", n)
	if round > 1 {
		name, key = fmt.Sprintf("%s:%d", name, round), fmt.Sprintf("%s-again%d", key, round)
	}
	return step(ctx, x, name, func(ctx context.Context) (submitted, error) {
		id, err := tries(ctx, x, req, c, func() (string, error) { return x.Model.(model.Background).Submit(ctx, key, req) })
		return submitted{id}, err
	})
}

// look fetches the answer once. If our run ends meanwhile the vendor is told to stop.
func (x *session) look(ctx context.Context, vendor model.Background, id string, c agent.Call) (fetched, error) {
	res, done, err := vendor.Fetch(ctx, id)
	if err == nil {
		return fetched{Done: done, Reply: replyOf(res)}, nil
	}
	if ctx.Err() != nil {
		x.abandon(ctx, vendor, id)
		return fetched{}, context.Cause(ctx)
	}
	_, passes := model.Retryable(err)
	if passes && !done {
		return fetched{}, nil // the next look may find it
	}
	if err := x.unanswered(ctx, c, err); err != nil {
		return fetched{}, err
	}
	if passes {
		return fetched{Failed: err.Error()}, nil
	}
	return fetched{}, plain(err, x.begin.Model)
}

// abandonWithin bounds the last call to the vendor.
const abandonWithin = 5 * time.Second

func (x *session) abandon(ctx context.Context, vendor model.Background, id string) {
	switch context.Cause(ctx) {
	case agent.ErrCancelled, agent.ErrGivenUp:
	default:
		return // the run goes on elsewhere
	}
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), abandonWithin)
	defer done()
	// If it fails the vendor ends the call by itself, and its answer is lost.
	_ = vendor.Abandon(ctx, id)
}

// lookAfter is the pause before look k: short at first, a minute at last.
func lookAfter(k int) time.Duration { return min(time.Second<<min(k, 6), time.Minute) }
