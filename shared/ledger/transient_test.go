package ledger_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/errand-dev/errand/shared/ledger"
	"github.com/errand-dev/errand/shared/platform"
	"github.com/errand-dev/errand/shared/subagent"
)

var errDown = errors.New("the platform is down")

// down fails every call but Atomically, which fails when fn has succeeded.
type down struct{ platform.Store }

func (down) Get(context.Context, platform.Key) (platform.Item, error) {
	return platform.Item{}, errDown
}

func (down) GetMany(context.Context, []platform.Key) ([]platform.Item, error) { return nil, errDown }

func (down) List(context.Context, platform.Query) ([]platform.Item, error) { return nil, errDown }

func (down) Put(context.Context, platform.Item) error { return errDown }

func (down) Delete(context.Context, platform.Key, int64) error { return errDown }

func (down) Send(context.Context, platform.Message) error { return errDown }

func (down) PutBlob(context.Context, string, []byte) error { return errDown }

func (down) GetBlob(context.Context, string) ([]byte, error) { return nil, errDown }

func (d down) Atomically(_ context.Context, fn func(platform.Store) error) error {
	if err := fn(d); err != nil {
		return err
	}
	return errDown
}

// Whoever is refused by a platform that is down tries again later. An error that is not
// marked ends a run or turn instead.
func TestEveryFailureOfThePlatformIsTransient(t *testing.T) {
	t.Parallel()
	ctx, o := t.Context(), subagent.Owner{Tenant: "t", Conversation: "c"}
	l := ledger.New(down{}, subagent.DefaultTerms, time.Now, func() string { return "n" })
	keep := func(r subagent.Run) (subagent.Run, subagent.Outcome) { return r, subagent.Apply }
	for name, call := range map[string]func() error{
		"backbone":          func() error { _, err := l.Backbone(ctx, o); return err },
		"backbone and tail": func() error { _, err := l.BackboneAndTail(ctx, o); return err },
		"run":               func() error { _, err := l.Run(ctx, o, "r"); return err },
		"runs":              func() error { _, err := l.Runs(ctx, o, []string{"r"}); return err },
		"update": func() error {
			_, _, err := l.UpdateRun(ctx, subagent.Run{Owner: o, ID: "r", Version: 1}, keep)
			return err
		},
		"begin":       func() error { _, _, err := l.BeginRun(ctx, subagent.Run{Owner: o, ID: "r"}); return err },
		"steps":       func() error { _, err := l.Steps(ctx, ledger.Life{}); return err },
		"large value": func() error { _, err := l.StoreValue(ctx, o, string(make([]byte, 300<<10))); return err },
		"blob":        func() error { _, err := l.LoadValue(ctx, o, subagent.Value{Blob: "b"}); return err },
		"send":        func() error { return l.SendTick(ctx, o, 1, 0, 0) },
		"emit":        func() error { return l.Emit(ctx, o, l.NewEvent("x", "", "", nil)) },
		"erase":       func() error { return l.Erase(ctx, o) },
		"commit":      func() error { return l.Atomically(ctx, func(*ledger.Ledger) error { return nil }) },
	} {
		if err := call(); !errors.Is(err, errDown) || !ledger.IsTransient(err) {
			t.Errorf("%s: %v is not transient", name, err)
		}
	}
	ours := errors.New("ours")
	if err := l.Atomically(ctx, func(*ledger.Ledger) error { return ours }); !errors.Is(err, ours) || ledger.IsTransient(err) {
		t.Errorf("an error of the caller's own: %v", err)
	}
}
