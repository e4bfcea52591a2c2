package cases_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/control"
	"github.com/errand-dev/errand/shared/harness"
	"github.com/errand-dev/errand/shared/ledger"
	"github.com/errand-dev/errand/shared/model"
	"github.com/errand-dev/errand/shared/money"
	"github.com/errand-dev/errand/shared/subagent"
)

// vendor is a model whose answers cost 100 tokens in and 10 out; each call is expected to
// take up to 50 out.
type vendor func(ctx context.Context, call int, task string) (text string, err error)

// perCall is what an answer costs by the price of the scripted model: 1 and 2 dollars a million.
const perCall = 120 * money.Dollar / 1_000_000

func (v vendor) Defaults() (name string, maxTokens int) { return "script", 50 }

func (v vendor) Generate(ctx context.Context, _ string, req model.Request, _ func(string)) (model.Response, error) {
	said := 0
	for _, m := range req.Messages {
		if m.Role == model.Assistant {
			said++
		}
	}
	text, err := v(ctx, said+1, req.Messages[0].Text)
	if err != nil {
		return model.Response{}, &model.Error{Kind: model.Ended, Err: err}
	}
	res := model.Response{Text: text, Stop: model.StopEnd, Usage: model.Usage{Input: 100, Output: 10}}
	if text == "" {
		res.Stop = model.StopTools
		res.Calls = []model.Call{{ID: fmt.Sprint("c", said), Name: "look", Arguments: json.RawMessage(fmt.Sprintf(`{"n":%d}`, said))}}
	}
	return res, nil
}

// endless looks again and again, and needs a budget to stop.
func endless(context.Context, int, string) (string, error) { return "", nil }

// asker registers an agent of the vendor's, with a tool to look with.
func (w *world) asker(name string, v vendor, limits harness.Limits) {
	w.Helper()
	look := harness.NewTool("look", "", func(_ context.Context, in struct {
		N int `json:"n"`
	}) (string, error) {
		return fmt.Sprint("seen ", in.N), nil
	})
	w.must(harness.Register(w.agents, harness.Agent{Name: name, Model: v, Tools: []harness.Tool{look}, Limits: limits}))
}

func (w *world) ask(run, name string, b subagent.Budget) subagent.Run {
	w.Helper()
	req := request(run, name, quietly)
	req.Input, req.Budget = json.RawMessage(`"look around"`), b
	return w.dispatch(req)
}

// accounts reads the own account of a run, and that of its tree.
func (w *world) accounts(r subagent.Run) (own, tree subagent.Account) {
	w.Helper()
	life := ledger.LifeOf(r)
	accounts, err := w.Ledger.Accounts(w.ctx(), ledger.OwnAccount(life), ledger.TreeAccount(life))
	w.must(err)
	return accounts[0], accounts[1]
}

func TestATreeSpendsNoMoreThanItsLimit(t *testing.T) {
	bubble(t, func(w *world) {
		w.asker("asker", endless, harness.Limits{})
		w.task("root", func(ctx context.Context, r *agent.Run) (any, error) {
			for i := range 4 {
				if _, err := r.Dispatch(ctx, agent.Dispatch{RunID: fmt.Sprint("child", i), Agent: "asker", Input: "look around"}); err != nil {
					return nil, err
				}
			}
			return nil, nil
		})
		w.start()
		limit := 10 * perCall
		top := w.ask("top", "root", subagent.Budget{MaxCost: limit})
		w.pass(time.Minute)
		var sum subagent.Spend
		for i := range 4 {
			child := w.run(fmt.Sprint("child", i))
			w.want(child.ID, child.Status, subagent.Error)
			w.want("its reason", child.Reason, subagent.ReasonSpend)
			if !strings.Contains(child.Problem, "run top with all below it may spend $0.0012") {
				w.Errorf("%s ended with %q", child.ID, child.Problem)
			}
			own, _ := w.accounts(child)
			sum = sum.Plus(own.Spent)
		}
		_, tree := w.accounts(top)
		w.want("the tree's account is the sum of its runs", tree.Spent, sum)
		if tree.Spent.Cost > limit || tree.Spent.Cost < limit/2 || len(tree.Open) != 0 {
			w.Errorf("spent %v of %v; open: %v", tree.Spent.Cost, limit, tree.Open)
		}
		cost, err := w.Service.RunCost(w.ctx(), owner, "top")
		w.must(err)
		w.want("the API tells the tree's cost", *cost.Tree.USD, tree.Spent.Cost)
		w.want("and its limit", cost.MaxUSD, limit)
	})
}

func TestWithoutALimitTheTreesCostIsTheSumOfItsRuns(t *testing.T) {
	bubble(t, func(w *world) {
		thrice := func(_ context.Context, call int, _ string) (string, error) {
			if call < 3 {
				return "", nil
			}
			return "seen it all", nil
		}
		w.asker("asker", thrice, harness.Limits{})
		w.task("leafless", func(ctx context.Context, r *agent.Run) (any, error) {
			return nil, r.Spend(ctx, "ask:1", "script", subagent.Usage{Input: 100, Output: 10})
		})
		w.task("root", func(ctx context.Context, r *agent.Run) (any, error) {
			_, err := r.Dispatch(ctx, agent.Dispatch{RunID: "other", Agent: "leafless"})
			if err == nil {
				_, err = r.Dispatch(ctx, agent.Dispatch{RunID: "mid", Agent: "middle"})
			}
			return nil, err
		})
		w.task("middle", func(ctx context.Context, r *agent.Run) (any, error) {
			_, err := r.Dispatch(ctx, agent.Dispatch{RunID: "leaf", Agent: "asker", Input: "look around"})
			return nil, err
		})
		w.start()
		w.ask("top", "root", subagent.Budget{})
		w.ask("stranger", "asker", subagent.Budget{})
		w.pass(time.Minute)
		cost, err := w.Service.RunCost(w.ctx(), owner, "top")
		w.must(err)
		w.want("calls of the tree", cost.Tree.ModelCalls, int64(4))
		w.want("its cost", *cost.Tree.USD, 4*perCall)
		w.want("calls of the run itself", cost.Own.ModelCalls, int64(0))
		_, tree := w.accounts(w.run("top"))
		w.want("nothing was written for the tree", tree.Version, int64(0))
		page, err := w.Service.AllRuns(w.ctx(), owner, "", 10)
		w.must(err)
		for _, r := range page.Runs {
			if asked := r.Cost != nil; asked != (r.ID == "leaf" || r.ID == "other" || r.ID == "stranger") {
				w.Errorf("the list shows a cost of %s: %v", r.ID, asked)
			}
		}
		ended := w.events("run.ended", "leaf")
		w.want("the event of its end", string(ended[0].Data), `{"status":"completed","cost":{"model_calls":3,"tokens":330,"usd":0.00036}}`)
	})
}

func TestAnAgentsOwnLimitEndsItsRunAndNoOther(t *testing.T) {
	bubble(t, func(w *world) {
		w.asker("asker", endless, harness.Limits{Tokens: 600})
		w.start()
		for _, id := range []string{"r1", "r2"} {
			w.ask(id, "asker", subagent.Budget{})
			w.pass(time.Minute)
			run := w.run(id)
			w.want(id, run.Reason, subagent.ReasonSpend)
			own, _ := w.accounts(run)
			if n := own.Spent.Tokens(); n > 600 || n < 220 {
				w.Errorf("%s has used %d tokens of 600", id, n)
			}
		}
	})
}

// Asked at the limit, people may raise it; the run waits for them without a process.
func TestAtTheLimitPeopleAreAskedForMore(t *testing.T) {
	for name, decision := range map[string]agent.Decision{
		"they agree": {Approved: true}, "they do not": {Note: "too dear"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				w.asker("asker", func(_ context.Context, call int, _ string) (string, error) {
					if call < 6 {
						return "", nil
					}
					return "seen it all", nil
				}, harness.Limits{AskWhenSpent: true})
				w.start()
				run := w.ask("r1", "asker", subagent.Budget{MaxTokens: 700})
				w.pass(time.Minute)
				w.want("it waits", w.run("r1").Status, subagent.Waiting)
				view, err := w.Service.Run(w.ctx(), owner, "r1")
				w.must(err)
				if len(view.Approvals) != 1 || view.Approvals[0].Title != "May run r1 with all below it spend 700 tokens more?" {
					w.Fatalf("it asks %+v", view.Approvals)
				}
				question := view.Approvals[0].ID
				w.must(w.Service.Control.Decide(w.ctx(), control.Asker{Owner: owner, Run: "r1"}, question, decision))
				w.pass(time.Minute)
				_, tree := w.accounts(run)
				if !decision.Approved {
					w.want("it ends", w.run("r1").Reason, subagent.ReasonSpend)
					if !strings.Contains(w.run("r1").Problem, "more was not allowed: too dear") {
						w.Errorf("it ended with %q", w.run("r1").Problem)
					}
					return
				}
				w.want("it goes on", w.run("r1").Status, subagent.Completed)
				w.want("it has been allowed as much again", tree.Raised, subagent.Allowance{Tokens: 700})
				w.want("calls", tree.Spent.Calls, int64(6))
				cost, err := w.Service.RunCost(w.ctx(), owner, "r1")
				w.must(err)
				w.want("the API tells the raised limit", cost.MaxTokens, int64(1400))
			})
		})
	}
}

// A call that is under way when its run is cancelled cannot be taken back: what it cost is
// booked, apart.
func TestWhatACallCostsThatACancelCutsOffIsBooked(t *testing.T) {
	for name, c := range map[string]struct {
		answers bool
		want    subagent.Spend
	}{
		"it answers all the same": {true, subagent.Spend{Usage: subagent.Usage{Input: 100, Output: 10}, Calls: 1, Cost: perCall}},
		// In doubt: its prompt had some tokens, its answer might have had 50.
		"it is broken off": {false, subagent.Spend{Usage: subagent.Usage{Output: 50}, Calls: 1, Uncertain: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				w.asker("asker", func(ctx context.Context, call int, _ string) (string, error) {
					switch {
					case call == 1:
						return "", nil
					case c.answers:
						<-w.gate("r1")
						return "late", nil
					}
					<-ctx.Done()
					return "", context.Cause(ctx)
				}, harness.Limits{})
				w.start()
				run := w.ask("r1", "asker", subagent.Budget{MaxTokens: 10_000})
				w.pass(time.Second)
				w.cancel("r1", "")
				w.free("r1")
				w.pass(time.Minute)
				own, tree := w.accounts(run)
				w.want("both accounts", tree.Spent, own.Spent)
				w.want("calls", own.Spent.Calls, int64(2))
				for _, a := range []subagent.Account{own, tree} {
					if !c.answers { // how large the prompt is taken to be is not the point
						a.AfterFence.Input, a.AfterFence.Cost = 0, 0
					}
					w.want("behind the fence", a.AfterFence, c.want)
					w.want("nothing is reserved", len(a.Open), 0)
				}
			})
		})
	}
}

func TestAProcessThatDiesInACallLeavesItInDoubtAndTheNextMakesIt(t *testing.T) {
	bubble(t, func(w *world) {
		w.asker("asker", func(ctx context.Context, call int, _ string) (string, error) {
			if call == 1 {
				return "", nil
			}
			<-w.gate("r1")
			return "seen", nil
		}, harness.Limits{})
		w.start()
		run := w.ask("r1", "asker", subagent.Budget{MaxTokens: 10_000})
		w.pass(time.Second)
		w.kill()
		w.work()
		w.pass(time.Second)
		w.free("r1")
		w.pass(time.Minute)
		w.want("status", w.run("r1").Status, subagent.Completed)
		own, tree := w.accounts(run)
		w.want("both accounts", tree.Spent, own.Spent)
		w.want("calls, of which one is in doubt", [2]int64{own.Spent.Calls, own.Spent.Uncertain}, [2]int64{3, 1})
		w.want("what is certain came from two answers", own.Spent.Output, int64(2*10+50))
		w.want("nothing is reserved", len(tree.Open), 0)
	})
}

func TestACallOfADeadProcessWhoseRunIsCancelledStaysInDoubt(t *testing.T) {
	bubble(t, func(w *world) {
		w.asker("asker", func(context.Context, int, string) (string, error) {
			<-w.gate("r1")
			return "seen", nil
		}, harness.Limits{})
		w.start()
		w.ask("r1", "asker", subagent.Budget{MaxTokens: 10_000})
		w.pass(time.Second)
		w.kill()
		w.cancel("r1", "")
		w.work()
		w.pass(time.Minute)
		view, err := w.Service.Run(w.ctx(), owner, "r1")
		w.must(err)
		if view.Cost == nil || view.Cost.UncertainCalls != 1 || view.Cost.OutputTokens != 50 {
			w.Errorf("the cost of the run is %+v", view.Cost)
		}
	})
}

func TestATaskThatPaysAfterwardsHearsThatTheLimitIsPassed(t *testing.T) {
	bubble(t, func(w *world) {
		w.task("spender", func(ctx context.Context, r *agent.Run) (any, error) {
			for i := range 10 {
				if err := r.Spend(ctx, fmt.Sprintf("ask:%d", i+1), "script", subagent.Usage{Input: 100, Output: 10}); err != nil {
					return nil, err
				}
			}
			return nil, errors.New("nobody has stopped it")
		})
		w.start()
		run := w.ask("r1", "spender", subagent.Budget{MaxCost: 3 * perCall})
		w.pass(time.Minute)
		w.want("reason", w.run("r1").Reason, subagent.ReasonSpend)
		own, tree := w.accounts(run)
		w.want("calls", own.Spent.Calls, int64(4))
		w.want("both accounts", tree.Spent, own.Spent)
	})
}

func TestATurnsOwnCallsAreCounted(t *testing.T) {
	bubble(t, func(w *world) {
		w.asker("asker", func(context.Context, int, string) (string, error) { return "hello", nil }, harness.Limits{})
		w.agents.DefaultChat = "asker"
		w.start()
		turn := w.say("hi")
		w.pass(time.Second)
		view, err := w.Service.Turn(w.ctx(), owner, turn.ID)
		w.must(err)
		if view.Cost == nil || view.Cost.ModelCalls != 1 || *view.Cost.USD != perCall {
			w.Errorf("the turn's cost is %+v", view.Cost)
		}
	})
}

func TestAClearLeavesNoAccountAlsoOfACallUnderWay(t *testing.T) {
	bubble(t, func(w *world) {
		w.task("asker", func(ctx context.Context, r *agent.Run) (any, error) {
			return agent.Step(ctx, r, "ask", func(ctx context.Context) (int, error) {
				<-w.gate("r1") // between the step's fence and its reservation
				return 1, r.Spender().Reserve(context.WithoutCancel(ctx), agent.Call{Key: "ask"})
			})
		})
		w.dispatcher("root", "child", "asker", quietly)
		w.start()
		top := w.ask("top", "root", subagent.Budget{MaxTokens: 10_000})
		w.pass(time.Second)
		child := w.run("child")
		w.must(w.Service.Control.Clear(w.ctx(), owner))
		w.free("r1")
		w.pass(time.Minute)
		_, tree := w.accounts(top)
		own, _ := w.accounts(child)
		w.want("the tree's account", tree.Version, int64(0))
		w.want("the child's account", own.Version, int64(0))
	})
}
