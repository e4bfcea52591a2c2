package bill

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/errand-dev/errand/shared/ledger"
	"github.com/errand-dev/errand/shared/subagent"
)

// TestBilledOperationsOfATick pins that a tick costs by what is outstanding, never by
// what has been.
func TestBilledOperationsOfATick(t *testing.T) {
	a := newAccount(t, subagent.Cadence{10 * time.Minute})
	a.history("with-history", 1000)
	for _, n := range []int{1, 10, 64} {
		for _, conversation := range []string{fmt.Sprint("without-", n), "with-history"} {
			t.Run(fmt.Sprint(n, " outstanding ", conversation), func(t *testing.T) {
				o := subagent.Owner{Tenant: "default", Conversation: conversation}
				epoch := a.outstanding(o, n)
				a.since()
				if err := a.invoke("reconcile").Reconciler.Tick(t.Context(), ledger.Wake{Owner: o, Tick: epoch}); err != nil {
					t.Fatal(err)
				}
				calls, bill := a.since()
				want := []string{
					"Invoke reconcile", "GetItem EVENT~BACKBONE", fmt.Sprintf("BatchGetItem %d RUN", n),
					"SendMessage ticks", "PutItem EVENT~BACKBONE",
				}
				if diff := cmp.Diff(want, calls); diff != "" {
					t.Errorf("(-want +called)\n%s", diff)
				}
				for _, row := range bill {
					if row.Operation == "BatchGetItem" && row.Units != n {
						t.Errorf("%d units for reading %d runs", row.Units, n)
					}
				}
				t.Logf("\n%s", bill)
			})
		}
	}
}

// history stores n settled runs in a conversation.
func (a *account) history(conversation string, n int) {
	a.t.Helper()
	stack := a.invoke("history")
	o := subagent.Owner{Tenant: "default", Conversation: conversation}
	now := subagent.At(a.now)
	for i := range n {
		_, _, err := stack.Ledger.BeginRun(a.t.Context(), subagent.Run{
			Owner: o, ID: fmt.Sprintf("old-%04d", i), Agent: "lab-echo", Status: subagent.Completed, DispatchedAt: now, EndedAt: now,
			Finish: subagent.Delivery{State: subagent.Delivered, At: now},
		})
		if err != nil {
			a.t.Fatal(err)
		}
	}
	runs, err := stack.Ledger.ListRuns(a.t.Context(), o, "", n+1)
	if err != nil || len(runs) != n {
		a.t.Fatalf("%d settled runs (%v)", len(runs), err)
	}
}

// outstanding dispatches runs up to n in all, under execution by somebody else, and
// returns the backbone's epoch.
func (a *account) outstanding(o subagent.Owner, n int) int64 {
	a.t.Helper()
	stack := a.invoke("outstanding")
	b, err := stack.Ledger.Backbone(a.t.Context(), o)
	if err != nil {
		a.t.Fatal(err)
	}
	for i := len(b.Open); i < n; i++ {
		id := fmt.Sprintf("run-%02d", i)
		a.post("/v1/conversations/"+o.Conversation+"/runs", fmt.Sprintf(`{"agent":"lab-stall","run_id":%q,"input":{"signal_first":false}}`, id))
		_, outcome, err := stack.Ledger.UpdateRun(a.t.Context(), subagent.Run{Owner: o, ID: id}, func(r subagent.Run) (subagent.Run, subagent.Outcome) {
			return r.Acquire("somebody", a.now.Add(10*time.Minute), subagent.DefaultTerms)
		})
		if err != nil || outcome != subagent.Apply {
			a.t.Fatal(outcome, err)
		}
	}
	if b, err = stack.Ledger.Backbone(a.t.Context(), o); err != nil || len(b.Open) != n {
		a.t.Fatalf("%d of %d outstanding (%v)", len(b.Open), n, err)
	}
	return b.Epoch
}
