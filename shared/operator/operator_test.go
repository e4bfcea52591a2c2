package operator_test

import (
	"errors"
	"testing"
	"time"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/conformance"
	"github.com/errand-dev/errand/shared/ledger"
	"github.com/errand-dev/errand/shared/operator"
	"github.com/errand-dev/errand/shared/sqlitestore"
	"github.com/errand-dev/errand/shared/subagent"
)

// deployment is one store, the processes on it, and a count of what they do.
type deployment struct {
	clock time.Time
	calls []string
	fails bool
	store *conformance.Faults
}

func newDeployment(t *testing.T) *deployment {
	t.Helper()
	store, err := sqlitestore.Open(t.Context(), t.TempDir(), sqlitestore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	d := &deployment{clock: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)}
	d.store = &conformance.Faults{Inner: store, Decide: func(op conformance.Op) conformance.Fault {
		d.calls = append(d.calls, string(op.Kind)+" "+op.Key.Sort)
		if d.fails {
			return conformance.NotApplied
		}
		return conformance.None
	}}
	return d
}

func (d *deployment) process() *operator.Controls {
	return operator.New(ledger.New(d.store, subagent.DefaultTerms, func() time.Time { return d.clock }, ledger.RandomNonce))
}

func set(t *testing.T, c *operator.Controls, name string, to subagent.Control) {
	t.Helper()
	if _, err := c.Set(t.Context(), name, to); err != nil {
		t.Fatal(err)
	}
}

func TestAProcessReadsOnceInFiveSeconds(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	c := d.process()
	o := subagent.Owner{Tenant: "t", Conversation: "c"}
	for range 100 {
		if err := c.Admit(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		if err := c.AdmitTurn(t.Context(), o, "a"); err != nil {
			t.Fatal(err)
		}
		if held, err := c.Holding(t.Context(), "a"); held || err != nil {
			t.Fatal(held, err)
		}
		d.clock = d.clock.Add(99 * time.Millisecond)
	}
	if len(d.calls) != 2 {
		t.Errorf("9.9 seconds took %v, want two reads", d.calls)
	}
}

func TestWhatIsSetHoldsAtOnceHereAndInFiveSecondsElsewhere(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	here, there := d.process(), d.process()
	if err := there.Admit(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	set(t, here, "a", subagent.Control{Disabled: true})
	set(t, here, "b", subagent.Control{Maintenance: subagent.RejectInMaintenance})
	set(t, here, "c", subagent.Control{Maintenance: subagent.AcceptInMaintenance})
	for name, want := range map[string]error{"a": agent.ErrAgentDisabled, "b": agent.ErrInMaintenance, "c": nil, "d": nil} {
		if err := here.Admit(t.Context(), name); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
		if held, err := here.Holding(t.Context(), name); held != (name == "c") || err != nil {
			t.Errorf("%s is held: %v %v", name, held, err)
		}
	}
	d.clock = d.clock.Add(operator.Staleness - 1)
	if err := there.Admit(t.Context(), "a"); err != nil {
		t.Errorf("within the staleness another process reads again: %v", err)
	}
	d.clock = d.clock.Add(1)
	if err := there.Admit(t.Context(), "a"); !errors.Is(err, agent.ErrAgentDisabled) {
		t.Errorf("after it, another process still admits: %v", err)
	}
	set(t, there, "a", subagent.Control{})
	d.clock = d.clock.Add(operator.Staleness)
	if err := here.Admit(t.Context(), "a"); err != nil {
		t.Errorf("enabled again it is refused: %v", err)
	}
}

func TestATurnIsForTheAgentThatItsConversationHas(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	c := d.process()
	l := ledger.New(d.store, subagent.DefaultTerms, func() time.Time { return d.clock }, ledger.RandomNonce)
	o := subagent.Owner{Tenant: "t", Conversation: "c"}
	_, _, err := l.UpdateConversation(t.Context(), subagent.Conversation{Owner: o}, func(c subagent.Conversation) (subagent.Conversation, subagent.Outcome) {
		c.Agent, c.CreatedAt = "its own", 1
		return c, subagent.Apply
	})
	if err != nil {
		t.Fatal(err)
	}
	set(t, c, "its own", subagent.Control{Disabled: true})
	if err := c.AdmitTurn(t.Context(), o, "another"); !errors.Is(err, agent.ErrAgentDisabled) {
		t.Errorf("its agent is disabled: %v", err)
	}
	if err := c.AdmitTurn(t.Context(), subagent.Owner{Tenant: "t", Conversation: "new"}, "another"); err != nil {
		t.Errorf("a new conversation of another agent: %v", err)
	}
}

func TestNoControlsRefuseNothingAndAFailedReadIsNoAnswer(t *testing.T) {
	t.Parallel()
	var none *operator.Controls
	if err := none.Admit(t.Context(), "a"); err != nil {
		t.Error(err)
	}
	if err := none.AdmitTurn(t.Context(), subagent.Owner{}, "a"); err != nil {
		t.Error(err)
	}
	if held, err := none.Holding(t.Context(), "a"); held || err != nil {
		t.Error(held, err)
	}
	d := newDeployment(t)
	d.fails = true
	if err := d.process().Admit(t.Context(), "a"); !ledger.IsTransient(err) {
		t.Errorf("an outage is %v", err)
	}
}
