package harness_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/harness"
	"github.com/errand-dev/errand/shared/model"
)

// slowVendor answers a submitted request at the fetch whose number is ready; fails is the
// error of the fetch before.
type slowVendor struct {
	model.Model
	ready int
	fails error
	// ends: that error is how the call ended at the vendor.
	ends      bool
	fetched   int
	submitted []model.Request
	keys      []string
	abandoned []string
	onFetch   func()
}

func (v *slowVendor) Submit(_ context.Context, key string, req model.Request) (string, error) {
	v.submitted, v.keys = append(v.submitted, req), append(v.keys, key)
	return "resp-1", nil
}

func (v *slowVendor) Fetch(ctx context.Context, _ string) (model.Response, bool, error) {
	v.fetched++
	if v.onFetch != nil {
		v.onFetch()
	}
	switch {
	case ctx.Err() != nil:
		return model.Response{}, false, &model.Error{Kind: model.Ended, Err: context.Cause(ctx)}
	case v.fetched == v.ready-1 && v.fails != nil:
		return model.Response{}, v.ends, v.fails
	case v.fetched < v.ready:
		return model.Response{}, false, nil
	}
	res, err := v.Generate(ctx, "", v.submitted[0], nil)
	return res, true, err
}

func (v *slowVendor) Abandon(_ context.Context, id string) error {
	v.abandoned = append(v.abandoned, id)
	return nil
}

// A call in the background is submitted once; between two looks the run holds no process.
func TestACallInTheBackgroundIsSubmittedOnceAndLookedForNowAndThen(t *testing.T) {
	v := &slowVendor{Model: script(t, "when think\nThought."), ready: 4, fails: &model.Error{Kind: model.Overloaded, Err: errors.New("busy")}}
	b := newMemory()
	a := harness.Agent{Name: "thinker", Model: v, InBackground: true}
	executions := 0
	for {
		executions++
		out, err := b.run(t, a, `"think"`)
		if err == nil {
			if out != "Thought." {
				t.Errorf("answered %v", out)
			}
			break
		}
		if !errors.Is(err, agent.ErrSuspended) || executions > 9 {
			t.Fatalf("execution %d ended with %v", executions, err)
		}
		b.now = b.now.Add(time.Minute)
	}
	if len(v.submitted) != 1 || v.fetched != 4 || executions != 5 {
		t.Errorf("%d submitted, %d looks, %d executions", len(v.submitted), v.fetched, executions)
	}
	settled := slices.DeleteFunc(slices.Clone(b.spent), func(s string) bool { return !strings.HasPrefix(s, "settle") })
	if len(settled) != 1 {
		t.Errorf("the call was booked as %q", b.spent)
	}
}

// A cancel while the answer is looked for tells the vendor to stop; handing on does not.
func TestAnAbandonedCallIsStopped(t *testing.T) {
	for cause, stops := range map[error]bool{agent.ErrCancelled: true, agent.ErrHandOn: false} {
		v := &slowVendor{Model: script(t, "when think\nThought."), ready: 9}
		ctx, cancel := context.WithCancelCause(t.Context())
		v.onFetch = func() { cancel(cause) }
		b := newMemory()
		b.now = b.now.Add(time.Hour)
		b.journal["#until:look:1:1"] = []byte("1")
		_, err := b.runIn(ctx, harness.Agent{Name: "thinker", Model: v, InBackground: true}, `"think"`)
		if !errors.Is(err, cause) || len(v.abandoned) > 0 != stops {
			t.Errorf("%v: ended with %v, abandoned %v", cause, err, v.abandoned)
		}
	}
}

// A vendor that fails the call for good ends the run.
func TestACallInTheBackgroundThatFails(t *testing.T) {
	v := &slowVendor{Model: script(t, "when think\nThought."), ready: 2, fails: &model.Error{Kind: model.Invalid, Err: errors.New("no such call")}}
	b := newMemory()
	b.journal["#until:look:1:1"] = []byte("1")
	_, err := b.run(t, harness.Agent{Name: "thinker", Model: v, InBackground: true}, `"think"`)
	if err == nil || agent.IsRetryable(err) || !strings.Contains(err.Error(), "no such call") {
		t.Errorf("ended with %v", err)
	}
}

// A call that ended at the vendor without an answer is submitted again, under another key, as
// often as a call is tried: to look at it once more shows the same failure for ever.
func TestACallThatFailedInTheBackgroundIsSubmittedAgain(t *testing.T) {
	busy := &model.Error{Kind: model.Overloaded, Err: errors.New("server error")}
	for _, attempts := range []int{1, 2} {
		v := &slowVendor{Model: script(t, "when think\nThought."), ready: 3, fails: busy, ends: true}
		b := newMemory()
		a := harness.Agent{Name: "thinker", Model: v, InBackground: true, Limits: harness.Limits{ModelAttempts: attempts}}
		out, err := any(nil), error(agent.ErrSuspended)
		for executions := 0; errors.Is(err, agent.ErrSuspended) && executions < 9; executions++ {
			out, err = b.run(t, a, `"think"`)
			b.now = b.now.Add(time.Minute)
		}
		if len(v.submitted) != attempts || len(slices.Compact(v.keys)) != attempts {
			t.Errorf("%d attempts: submitted %d times, as %q", attempts, len(v.submitted), v.keys)
		}
		if attempts == 2 && (err != nil || out != "Thought.") {
			t.Errorf("answered %v, %v", out, err)
		}
		if attempts == 1 && (err == nil || agent.IsRetryable(err) || !strings.Contains(err.Error(), "server error")) {
			t.Errorf("ended with %v", err)
		}
	}
}

// What a model says is shown while it says it.
func TestWordsAreShownAsTheyCome(t *testing.T) {
	b := newMemory()
	if _, err := b.run(t, harness.Agent{Name: "a", Model: script(t, "when hello\nGood day.")}, `"hello"`); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(b.shown, ""); got != "Good day." {
		t.Errorf("shown was %q", got)
	}
}
