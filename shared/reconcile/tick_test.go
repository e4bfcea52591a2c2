package reconcile_test

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/dispatch"
	"github.com/errand-dev/errand/shared/ledger"
	"github.com/errand-dev/errand/shared/reconcile"
	"github.com/errand-dev/errand/shared/serve"
	"github.com/errand-dev/errand/shared/subagent"
)

var owner = subagent.Owner{Tenant: "default", Conversation: "c"}

// bubble opens a stack in fake time, without workers, and dispatches the run r1.
func bubble(t *testing.T, body func(t *testing.T, s *serve.Stack)) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		agents := agent.NewRegistry()
		must(t, agents.AddTask("idle", func(ctx context.Context, _ *agent.Run) (any, error) { <-ctx.Done(); return nil, ctx.Err() }))
		must(t, agents.AddChat("chat", func(context.Context, *agent.Turn) (string, error) { return "heard", nil }))
		s, err := serve.Open(t.Context(), serve.Options{Dir: dir, Agents: agents})
		must(t, err)
		_, _, err = s.Service.Dispatcher.Start(t.Context(), dispatch.Request{
			Owner: owner, Run: "r1", Agent: "idle", Input: json.RawMessage(`{}`), Notice: subagent.Notice{Message: true}})
		must(t, err)
		body(t, s)
		must(t, s.Close())
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func rows(t *testing.T, s *serve.Stack) (subagent.Run, subagent.Backbone) {
	t.Helper()
	run, err := s.Ledger.Run(t.Context(), owner, "r1")
	must(t, err)
	backbone, err := s.Ledger.Backbone(t.Context(), owner)
	must(t, err)
	return run, backbone
}

// Whoever can write to the queue of ticks can make reconcile look, and nothing else: what the
// message says of rows is not believed.
func TestATickIsAHintThatIsReadAgain(t *testing.T) {
	bubble(t, func(t *testing.T, s *serve.Stack) {
		run, backbone := rows(t, s)
		lies := run
		lies.Status, lies.EndedAt, lies.Finish = subagent.Completed, subagent.At(time.Now()), subagent.Delivery{State: subagent.Delivered}
		nothing := subagent.Backbone{Epoch: 99}
		for _, number := range []int64{1, backbone.Epoch, backbone.Epoch + 50, 1 << 40} {
			must(t, s.Reconciler.Tick(t.Context(), ledger.Wake{
				Owner: owner, Tick: number, Run: "r1", Row: &lies, Version: run.Version, Backbone: &nothing, BackboneVersion: backbone.Version}))
			after, kept := rows(t, s)
			if diff := cmp.Diff(run, after); diff != "" {
				t.Errorf("tick %d changed the run\n%s", number, diff)
			}
			if _, placed := kept.Open["r1"]; !placed || !kept.Armed {
				t.Errorf("after tick %d the run has no place, or no tick: %+v", number, kept)
			}
		}
		must(t, s.Reconciler.Tick(t.Context(), ledger.Wake{Owner: subagent.Owner{Tenant: "other", Conversation: "c"}, Tick: 1, Run: "r1", Row: &lies, Version: run.Version}))
		if after, _ := rows(t, s); after.Version != run.Version {
			t.Error("a tick of another tenant changed the run")
		}
	})
}

// Lambda's guard against loops is off for reconcile and executor: this bound takes its place.
func TestARunIsNotExecutedWithoutEnd(t *testing.T) {
	bubble(t, func(t *testing.T, s *serve.Stack) {
		const bound = 10_000
		run, backbone := rows(t, s)
		_, _, err := s.Ledger.UpdateRun(t.Context(), run, func(r subagent.Run) (subagent.Run, subagent.Outcome) {
			r.Status, r.Exec = subagent.Running, subagent.Lease{Epoch: bound}
			return r, subagent.Apply
		})
		must(t, err)
		time.Sleep(time.Minute)
		must(t, s.Reconciler.Tick(t.Context(), ledger.Wake{Owner: owner, Tick: backbone.Epoch}))
		after, _ := rows(t, s)
		if after.Status != subagent.Error || after.Reason != subagent.ReasonExecutorLost || after.Finish.State != subagent.Delivered {
			t.Errorf("after %d executions the run is %+v", bound, after)
		}
	})
}

func TestATickTellsHowLateItIsAndWhatRunsHaveUsedUp(t *testing.T) {
	bubble(t, func(t *testing.T, s *serve.Stack) {
		run, backbone := rows(t, s)
		_, _, err := s.Ledger.UpdateRun(t.Context(), run, func(r subagent.Run) (subagent.Run, subagent.Outcome) {
			r.Status, r.Exec = subagent.Running, subagent.Lease{Epoch: 7, Holder: "h", Until: subagent.At(time.Now().Add(time.Hour))}
			return r, subagent.Apply
		})
		must(t, err)
		var seen []reconcile.Observation
		s.Reconciler.Seen = func(_ context.Context, o reconcile.Observation) { seen = append(seen, o) }
		time.Sleep(time.Until(backbone.Due.Time().Add(time.Minute)))
		must(t, s.Reconciler.Tick(t.Context(), ledger.Wake{Owner: owner, Tick: backbone.Epoch}))
		must(t, s.Reconciler.Tick(t.Context(), ledger.Wake{Owner: owner, Tick: backbone.Epoch})) // stale by now
		want := []reconcile.Observation{{Late: time.Minute, Executions: 7, Run: "r1"}}
		if diff := cmp.Diff(want, seen); diff != "" {
			t.Errorf("(-want +seen)\n%s", diff)
		}
	})
}
