package ingress_test

import (
	"encoding/json"
	"testing"

	"github.com/errand-dev/errand/shared/api"
	"github.com/errand-dev/errand/shared/money"
)

func TestALimitInDollarsEndsARunAndItsCostIsShown(t *testing.T) {
	s := open(t, options{})
	const path = "/v1/conversations/c/runs"
	body := `{"agent":"lab-spend","run_id":"r1","input":{"calls":9,"input_tokens":2000,"output_tokens":500},"detached":{"max_usd":0.02,"max_tokens":100000}}`
	get[api.Run](s, s.call("POST", path, body), 202)
	s.event("c", "run.ended", "r1")
	run := get[api.Run](s, s.call("GET", path+"/r1", ""), 200)
	if run.Status != "error" || run.Reason != "spend-exceeded" || run.Cost == nil || *run.Cost.USD != 18*money.Dollar/1000 {
		t.Errorf("the run is %s, %q, and cost %+v", run.Status, run.Reason, run.Cost)
	}
	cost := get[api.RunCost](s, s.call("GET", path+"/r1/cost", ""), 200)
	if cost.MaxUSD != 2*money.Cent || cost.MaxTokens != 100_000 || *cost.Tree.USD != *run.Cost.USD || cost.Tree.ModelCalls != 6 || cost.Reserved != nil {
		t.Errorf("its tree: %+v", cost)
	}
	raw, err := json.Marshal(cost)
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"run_id":"r1","own":{"model_calls":6,"input_tokens":12000,"output_tokens":3000,"usd":0.018},"tree":{"model_calls":6,"input_tokens":12000,"output_tokens":3000,"usd":0.018},"max_tokens":100000,"max_usd":0.02}`; string(raw) != want {
		t.Errorf("on the wire it is\n%s, want\n%s", raw, want)
	}
	if page := get[api.RunPage](s, s.call("GET", path, ""), 200); page.Runs[0].Cost == nil {
		t.Error("the list shows no cost")
	}
	s.problem(s.call("GET", path+"/none/cost", ""), 404, "not-found", "")
}

func TestTheCostOfAModelWithoutAPriceIsInTokens(t *testing.T) {
	s := open(t, options{})
	const path = "/v1/conversations/c/runs"
	get[api.Run](s, s.call("POST", path, `{"agent":"lab-spend","run_id":"r1","input":{"calls":1,"model":"mystery-9","input_tokens":20}}`), 202)
	s.event("c", "run.ended", "r1")
	if run := get[api.Run](s, s.call("GET", path+"/r1", ""), 200); run.Cost.USD != nil || run.Cost.InputTokens != 20 || run.Cost.UnpricedCalls != 1 {
		t.Errorf("%+v", run.Cost)
	}
}

func TestBoundsOfSpendingThatAreNoneAreRefused(t *testing.T) {
	s := open(t, options{})
	for bound, want := range map[string]struct {
		status      int
		code, field string
	}{
		`"max_usd":0`:            {422, "invalid-budget", "detached"},
		`"max_tokens":0`:         {422, "invalid-budget", "detached"},
		`"max_tokens":-5`:        {422, "invalid-budget", "detached"},
		`"max_usd":-1`:           {400, "invalid-body", "detached.max_usd"},
		`"max_usd":"1"`:          {400, "invalid-body", "detached.max_usd"},
		`"max_usd":1e3`:          {400, "invalid-body", "detached.max_usd"},
		`"max_usd":0.0000000001`: {400, "invalid-body", "detached.max_usd"},
		`"max_tokens":1.5`:       {400, "invalid-body", "detached.max_tokens"},
	} {
		t.Log(bound)
		s.problem(s.call("POST", "/v1/conversations/c/runs", `{"agent":"lab-echo","detached":{`+bound+`}}`), want.status, want.code, want.field)
	}
	const path = "/v1/conversations/c/runs"
	get[api.Run](s, s.call("POST", path, `{"agent":"lab-echo","detached":{"max_usd":1}}`, "Idempotency-Key", "k"), 202)
	get[api.Run](s, s.call("POST", path, `{"agent":"lab-echo","detached":{"max_usd":1.00}}`, "Idempotency-Key", "k"), 202)
	s.problem(s.call("POST", path, `{"agent":"lab-echo","detached":{"max_usd":2}}`, "Idempotency-Key", "k"), 422, "idempotency-key-reused", "")
}
