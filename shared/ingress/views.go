package ingress

import (
	"encoding/json"

	"github.com/errand-dev/errand/shared/api"
	"github.com/errand-dev/errand/shared/ledger"
	"github.com/errand-dev/errand/shared/subagent"
)

func timeOf(t subagent.Time) api.Time { return api.Time{Time: t.Time()} }

// viewRun shows a row. Output and milestones have rows of their own.
func viewRun(r subagent.Run, now subagent.Time, t subagent.Terms) api.Run {
	run := api.Run{
		ID: r.ID, Conversation: r.Owner.Conversation, Agent: r.Agent, ParentRunID: r.Parent, ReplayOf: r.ReplayOf, Detached: !r.Awaited,
		Status: string(r.Status), Summary: r.Summary, Error: r.Problem, Reason: r.Reason,
		ChildStillRunning: r.ChildStillRunning(), Attempts: r.Exec.Epoch,
		Finish: viewSlot(r, subagent.Finish, now, t), GiveUp: viewSlot(r, subagent.GiveUp, now, t),
		DeadlineAt: timeOf(r.Deadline), DispatchedAt: timeOf(r.DispatchedAt), StartedAt: timeOf(r.StartedAt), CompletedAt: timeOf(r.EndedAt),
	}
	if r.Status == subagent.Waiting {
		run.WaitingFor = viewWait(r.Wait)
	}
	if r.Progress.At != 0 {
		run.Progress = &api.Progress{Fraction: r.Progress.Fraction, Message: r.Progress.Message, Phase: r.Progress.Phase, At: timeOf(r.Progress.At)}
	}
	return run
}

func viewSlot(r subagent.Run, slot subagent.Slot, now subagent.Time, t subagent.Terms) api.Slot {
	d := r.Delivery(slot)
	view := api.Slot{State: string(d.State), Attempts: d.Attempts}
	switch {
	case d.State == subagent.Delivered:
		view.DeliveredAt = timeOf(d.At)
	case d.State == subagent.Open && claimed(r, slot, now, t):
		view.State = "claimed"
	case d.State == subagent.Open:
		view.State = "open"
	}
	return view
}

// claimed reports whether somebody delivers the slot right now. The row has one claim
// for both slots; the status says which one can be meant.
func claimed(r subagent.Run, slot subagent.Slot, now subagent.Time, t subagent.Terms) bool {
	meant := slot == subagent.Finish && r.Status.Hard() || slot == subagent.GiveUp && r.Status == subagent.Interrupted
	return meant && r.Claim.Token != "" && !r.Claim.Free(now, t)
}

func viewMilestones(reached []ledger.Milestone) []api.Milestone {
	views := make([]api.Milestone, len(reached))
	for i, m := range reached {
		views[i] = api.Milestone{Name: m.Name, Sequence: m.Sequence, At: timeOf(m.At), Data: m.Data}
	}
	return views
}

// viewTurn shows a turn. The row of a turn says that it is queued until it has ended;
// the conversation says which turn has its place, and is therefore running.
func viewTurn(t subagent.Turn, c subagent.Conversation) api.Turn {
	view := api.Turn{
		ID: t.ID, Conversation: t.Owner.Conversation, Kind: string(t.Kind), Status: string(t.Status),
		RunID: t.Run, Error: t.Problem,
		AcceptedAt: timeOf(t.AcceptedAt), StartedAt: timeOf(t.StartedAt), CompletedAt: timeOf(t.EndedAt),
	}
	switch {
	case t.Done():
	case c.Waits(t.ID):
		view.Status, view.WaitingFor = string(subagent.Waiting), viewWait(c.Wait)
	case running(t, c):
		view.Status = string(subagent.Running)
	}
	return view
}

func running(t subagent.Turn, c subagent.Conversation) bool {
	return !t.Done() && (t.Status == subagent.Running || c.Turn == t.ID)
}

func viewWait(w subagent.Wait) *api.Wait {
	return &api.Wait{Runs: w.Runs, Need: w.Need, Milestone: w.Milestone, Signal: w.Signal, Until: timeOf(w.Until)}
}

func viewEvent(e ledger.Event) api.Event {
	return api.Event{Seq: e.Seq, Type: e.Type, RunID: e.Run, TurnID: e.Turn, At: timeOf(e.At), Data: data(e.Data)}
}

// data leaves out what says nothing.
func data(raw json.RawMessage) json.RawMessage {
	if api.Null(raw) {
		return nil
	}
	return raw
}
