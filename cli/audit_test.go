package cli

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/api"
	"github.com/errand-dev/errand/shared/dispatch"
	"github.com/errand-dev/errand/shared/ingress"
	"github.com/errand-dev/errand/shared/lab"
	"github.com/errand-dev/errand/shared/platform"
	"github.com/errand-dev/errand/shared/serve"
	"github.com/errand-dev/errand/shared/subagent"
)

var c1 = subagent.Owner{Tenant: "default", Conversation: "c1"}

// damaged serves a conversation whose run and turn lost all their messages, an hour ago. Its
// workers work.
func damaged(t *testing.T) (url string, stack *serve.Stack) {
	t.Helper()
	agents := agent.NewRegistry()
	if err := lab.Register(agents); err != nil {
		t.Fatal(err)
	}
	var hours atomic.Int64
	hours.Store(-1)
	stack, err := serve.Open(t.Context(), serve.Options{
		Dir: t.TempDir(), Agents: agents, Cadence: subagent.Cadence{50 * time.Millisecond},
		Now: func() time.Time { return time.Now().Add(time.Duration(hours.Load()) * time.Hour) },
	})
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = stack.Service.Dispatcher.Start(t.Context(), dispatch.Request{
		Owner: c1, Run: "r1", Agent: "lab-echo", Input: json.RawMessage(`{"text":"a"}`), Notice: subagent.Notice{Message: true}})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := stack.Service.Accept(t.Context(), ingress.TurnRequest{Owner: c1, Message: "say hello"}); err != nil {
		t.Fatal(err)
	}
	hours.Store(0)
	purge(t, stack)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); stack.Run(ctx) }()
	server := httptest.NewServer(ingress.NewHandler(stack.Service, ingress.HandlerOptions{}))
	t.Cleanup(func() {
		server.Close()
		cancel()
		<-done
		if err := stack.Close(); err != nil {
			t.Error(err)
		}
	})
	return server.URL, stack
}

// purge takes every message off every queue.
func purge(t *testing.T, stack *serve.Stack) {
	t.Helper()
	for _, queue := range platform.Queues {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		got, err := stack.Receiver().Receive(ctx, queue, 10, time.Minute)
		cancel()
		if err != nil || len(got) != 1 {
			t.Fatalf("queue %s has %d messages (%v)", queue, len(got), err)
		}
		if err := stack.Receiver().Acknowledge(t.Context(), got[0]); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAnAuditNamesWhatWasLostAndARepairBringsItBack(t *testing.T) {
	url, _ := damaged(t)
	code, out, errOut := errand(t, url, "audit")
	if code != exitFailed || !strings.Contains(errOut, "findings: 3") {
		t.Errorf("%d %q", code, errOut)
	}
	for _, want := range []string{"overdue-backbone: tick 1 has been due for 1h", "not-started run r1: no executor has taken it for 1h", "stuck-turn turn t-", "errand audit --repair -c c1"} {
		if !strings.Contains(out, want) {
			t.Errorf("no word of %q in\n%s", want, out)
		}
	}
	code, out, errOut = errand(t, url, "audit", "--repair")
	if code != exitOK || errOut != "" {
		t.Errorf("repair: %d %q", code, errOut)
	}
	for _, want := range []string{"sent tick 1\n", "woke turn t-", "mended: overdue-backbone", "mended: not-started run r1", "mended: stuck-turn", "nothing to mend"} {
		if !strings.Contains(out, want) {
			t.Errorf("no word of %q in\n%s", want, out)
		}
	}
}

func TestARepairLeavesWhatNoTickCanMend(t *testing.T) {
	url, stack := damaged(t)
	// A run that lost its place, as after half a restore.
	_, _, err := stack.Ledger.UpdateBackbone(t.Context(), c1, subagent.Backbone{}, func(b subagent.Backbone) (subagent.Backbone, subagent.Outcome) {
		b.Open = nil
		return b, subagent.Apply
	})
	if err != nil {
		t.Fatal(err)
	}
	code, out, _ := errand(t, url, "audit", "--repair", "--json")
	var got audited
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != exitFailed {
		t.Fatalf("%d %q (%v)", code, out, err)
	}
	kinds := func(all []api.Finding) string {
		var names []string
		for _, f := range all {
			names = append(names, f.Kind)
		}
		return strings.Join(names, " ")
	}
	if kinds(got.Findings) != "unplaced not-started" || kinds(got.Repair.Mended) != "overdue-backbone stuck-turn" || got.Repair.Tick == 0 {
		t.Errorf("left %q, mended %q", kinds(got.Findings), kinds(got.Repair.Mended))
	}
	// What is advised helps.
	if code, _, errOut := errand(t, url, "cancel", "r1"); code != exitOK {
		t.Errorf("cancel: %s", errOut)
	}
	if code, out, errOut := errand(t, url, "audit"); code != exitOK {
		t.Errorf("%s %s", out, errOut)
	}
}

func TestEachFindingHasACommandThatHelps(t *testing.T) {
	s := session{conversation: "c"}
	for want, f := range map[string]api.Finding{
		"errand audit --repair -c c":           {RunID: "r", Remedy: "repair"},
		"errand redrive -c c r":                {RunID: "r", Slot: "finish", Remedy: "redrive"},
		"errand redrive --slot give_up -c c r": {RunID: "r", Slot: "give_up", Remedy: "redrive"},
		"errand cancel -c c r":                 {RunID: "r", Remedy: "cancel"},
		"errand why -c c r":                    {RunID: "r", Remedy: "none"},
		"errand tail --once -c c":              {TurnID: "t", Remedy: "none"},
	} {
		if got := s.remedy(f); got != want {
			t.Errorf("%+v: %s, not %s", f, got, want)
		}
	}
}
