package ledger_test

import (
	"testing"
	"time"

	"github.com/errand-dev/errand/shared/ledger"
	"github.com/errand-dev/errand/shared/platform"
	"github.com/errand-dev/errand/shared/sqlitestore"
	"github.com/errand-dev/errand/shared/subagent"
)

// The row of a settled run expires after a month; its journal, which has no end of its
// own, must go with the conversation all the same.
func TestEraseFindsTheJournalOfARunWhoseRowHasExpired(t *testing.T) {
	t.Parallel()
	store, err := sqlitestore.Open(t.Context(), t.TempDir(), sqlitestore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	ctx, o := t.Context(), subagent.Owner{Tenant: "t", Conversation: "c"}
	l := ledger.New(store, subagent.DefaultTerms, time.Now, ledger.RandomNonce)
	for _, id := range []string{"run", "turn"} {
		if _, err := l.FinishStep(ctx, ledger.LifeOf(subagent.Run{Owner: o, ID: id}), "step", ledger.Step{Result: subagent.Value{Inline: "a secret"}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Emit(ctx, o, l.NewEvent("run.ended", "run", "", nil), l.NewEvent("turn.completed", "", "turn", nil)); err != nil {
		t.Fatal(err)
	}
	if err := l.Erase(ctx, o); err != nil {
		t.Fatal(err)
	}
	for _, partition := range []string{"t/c", "t/c/run", "t/c/turn"} {
		left, err := store.List(ctx, platform.Query{Partition: partition})
		if err != nil || len(left) > 0 {
			t.Errorf("%s has %d items left: %v", partition, len(left), err)
		}
	}
}
