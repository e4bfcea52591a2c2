package main

import (
	"testing"

	"github.com/errand-dev/errand/shared/api"
	"github.com/errand-dev/errand/shared/apiclient"
	"github.com/errand-dev/errand/shared/money"
)

// operated disables an agent that no other scenario uses, and enables it again.
func operated(t *testing.T, c *apiclient.Client) {
	const agent, conversation = "lab-tree", "operator"
	no, yes := false, true
	_, err := c.SetAgentControl(t.Context(), agent, api.AgentControlRequest{Enabled: &no, Maintenance: "off"})
	refused(t, "who is no operator", err, "operator-only")
	if deployed.stack.auth == "iam" {
		t.Log("NOT TESTED: operators; nobody whom IAM verifies is one")
		return
	}
	operator := client(t, "acme", "operator")
	set := func(enabled *bool) {
		if _, err := operator.SetAgentControl(t.Context(), agent, api.AgentControlRequest{Enabled: enabled, Maintenance: "off"}); err != nil {
			t.Fatal(err)
		}
		if got, err := operator.AgentControl(t.Context(), agent); err != nil || got.Enabled != *enabled {
			t.Errorf("what is set is %+v (%v)", got, err)
		}
	}
	var run api.Run
	ask := func() error {
		run, err = c.Dispatch(t.Context(), conversation, api.DispatchRequest{Agent: agent, Detached: &api.Detached{}}, "")
		return err
	}
	set(&no)
	// Each process believes for some seconds what it has read before.
	await(t, "it takes no runs", func() bool { return ask() != nil })
	refused(t, "a disabled agent", err, "agent-disabled")
	set(&yes)
	await(t, "it takes runs again", func() bool { return ask() == nil })
	await(t, "one ends", func() bool { return runOf(t, c, conversation, run.ID).Status == "completed" })
}

// spent has a run pretend to make calls of 0.3 cents until its limit.
func spent(t *testing.T, c *apiclient.Client) {
	const conversation = "spend"
	limit := api.Dollars(money.Cent)
	id := dispatch(t, c, conversation, api.DispatchRequest{
		Agent: "lab-spend", Input: []byte(`{"calls":9,"input_tokens":2000,"output_tokens":500}`),
		Detached: &api.Detached{Notify: api.Notify{On: true}, MaxUSD: &limit},
	})
	await(t, "its end is told", func() bool { return heard(t, c, conversation) > 0 })
	if run := runOf(t, c, conversation, id); run.Status != "error" || run.Reason != "spend-exceeded" {
		t.Errorf("the run is %+v", run)
	}
	cost, err := c.RunCost(t.Context(), conversation, id)
	if err != nil {
		t.Fatal(err)
	}
	if usd := cost.Tree.USD; cost.Tree.ModelCalls != 3 || usd == nil || *usd != 9*money.Cent/10 || cost.MaxUSD != money.Cent || cost.Reserved != nil {
		t.Errorf("it has cost %+v", cost)
	}
}
