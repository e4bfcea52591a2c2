package cases_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/control"
	"github.com/errand-dev/errand/shared/harness"
	"github.com/errand-dev/errand/shared/model"
	"github.com/errand-dev/errand/shared/platform"
	"github.com/errand-dev/errand/shared/subagent"
)

func (w *world) replay(of, id string) (subagent.Run, bool) {
	w.Helper()
	run, known, err := w.Service.Control.Replay(w.ctx(), owner, of, id)
	w.must(err)
	w.pass(time.Second)
	return run, known
}

// A run that has ended is run again: by the same agent, for the same input, under the same
// budget, told in the same way. The new one names the old one, which stays as it is.
func TestAReplayRepeatsARunAndNamesIt(t *testing.T) {
	bubble(t, func(w *world) {
		w.task("echo", func(_ context.Context, r *agent.Run) (any, error) {
			var input string
			err := r.Input(&input)
			w.record("echo %s of %q: %s", r.ID, r.ReplayOf, input)
			return input, err
		})
		w.start()
		req := request("r1", "echo", byNote)
		req.Input, req.Budget = raw("hello"), subagent.Budget{Max: time.Hour, NoProgress: time.Minute, MaxTokens: 1000}
		w.dispatch(req)
		before := w.run("r1")
		w.replay("r1", "r2")
		_, known := w.replay("r1", "r2")
		w.want("known", known, true)
		w.want("executions", w.called("echo"), []string{`echo r1 of "": hello`, `echo r2 of "r1": hello`})
		w.want("told", w.called("note"), []string{"note r1 completed", "note r2 completed"})
		run := w.run("r2")
		w.want("of", run.ReplayOf, "r1")
		w.want("budget", run.Budget(), before.Budget())
		w.want("the old one", w.run("r1"), before)
		w.want("in the log", string(w.events("run.dispatched", "r2")[0].Data), `{"agent":"echo","replay_of":"r1"}`)
		w.want("shown", w.shownRun("r2").ReplayOf, "r1")
	})
}

// shownRun is the run as the API shows it.
func (w *world) shownRun(id string) (view struct{ ReplayOf string }) {
	w.Helper()
	run, err := w.Service.Run(w.ctx(), owner, id)
	w.must(err)
	view.ReplayOf = run.ReplayOf
	return view
}

// A replay is nobody's child: that of an awaited run is told to the conversation.
func TestAReplayOfAnAwaitedRunIsToldToTheConversation(t *testing.T) {
	bubble(t, func(w *world) {
		w.awaiting("boss", "done", subagent.Budget{})
		w.start()
		w.dispatch(request("boss", "boss", quietly))
		w.pass(time.Minute)
		child := w.events("run.dispatched", "")[1].Run
		w.want("awaited", w.run(child).Awaited, true)
		w.replay(child, "again")
		w.want("parent", w.run("again").Parent, "")
		w.want("told", len(w.called("turn")), 1)
	})
}

// What has not ended is not replayed, nor what is not there; nothing is left behind.
func TestARunThatIsAtWorkIsNotReplayed(t *testing.T) {
	bubble(t, func(w *world) {
		w.open()
		w.dispatch(request("live", "idle", quietly))
		w.dispatch(request("given-up", "idle", quietly))
		w.lost("given-up")
		w.giveUp("given-up")
		for id, want := range map[string]error{"live": control.ErrNotEnded, "given-up": control.ErrNotEnded, "none": agent.ErrNoRun} {
			if _, _, err := w.Service.Control.Replay(w.ctx(), owner, id, "again"); !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", id, err, want)
			}
		}
		w.want("row", w.run("again").Status, subagent.Status(""))
		w.want("places", len(w.backbone().Open), 2)
		w.want("jobs", len(w.take(platform.Runs)), 0)
	})
}

// asked is a model that records what it is asked with, and answers.
type asked struct{ w *world }

func (a asked) Defaults() (name string, maxTokens int) { return "script", 50 }

func (a asked) Generate(_ context.Context, _ string, req model.Request, _ func(string)) (model.Response, error) {
	tools := []string{}
	for _, t := range req.Tools {
		tools = append(tools, t.Name)
	}
	a.w.record("asked %s, %s, %v", req.System, req.Model, tools)
	return model.Response{Text: "fine", Stop: model.StopEnd}, nil
}

// An agent begins a replay with what the run began with that it repeats, not with what it
// is told today; a new run begins with that.
func TestAReplayBeginsWithWhatTheRunBeganWith(t *testing.T) {
	bubble(t, func(w *world) {
		tool := harness.NewTool("look", "", func(context.Context, struct{}) (string, error) { return "", nil })
		deploy := func(day, look string) {
			w.must(harness.Register(w.agents, harness.Agent{Name: "asker", Instructions: day, ModelName: day, Model: asked{w}, Tools: []harness.Tool{tool},
				Policies: map[string]harness.Policy{"look": harness.Policy(look)}}))
			w.start()
		}
		ask := func(run string) {
			req := request(run, "asker", quietly)
			req.Input = raw("look around")
			w.dispatch(req)
		}
		deploy("yesterday", "disabled")
		ask("r1")
		w.halt()
		w.must(w.Close())
		w.agents = agent.NewRegistry()
		w.options.Agents = w.agents
		w.register()
		deploy("today", "enabled")
		w.replay("r1", "r2")
		ask("r3")
		then, now := "asked yesterday, yesterday, [report_progress read_result]", "asked today, today, [report_progress look read_result]"
		if got := fmt.Sprint(w.called("asked")); got != fmt.Sprint([]string{then, then, now}) {
			t.Error(got)
		}
	})
}
