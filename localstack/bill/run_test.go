package bill

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/errand-dev/errand/shared/platform"
	"github.com/errand-dev/errand/shared/subagent"
)

// operation is a billed operation, and what is bought by it.
type operation struct{ call, buys string }

// detachedRun is what a detached run costs on its happy path, from the API's dispatch to
// the delivered slot, with its first tick.
var detachedRun = []operation{
	{"POST api", "the dispatch is asked for"},
	{"Invoke ingress", "it is checked and answered"},
	{"Query EVENT", "the backbone: cap, open runs, pending tick; with it the end of the event log"},
	{"SendMessage ticks", "whatever crashes from here on is found"},
	{"PutItem EVENT~BACKBONE", "the run's place under the cap; armed implies a tick"},
	{"PutItem RUN", "the run"},
	{"PutItem EVENT", "backbone.armed, run.dispatched: whoever watches sees it"},
	{"SendMessage runs", "it starts at once, not with the tick"},
	{"Invoke executor", "it runs"},
	{"ReceiveMessage runs", "the job, with run, backbone and log's end as hints: no read"},
	{"PutItem RUN", "the lease: one executor, fenced"},
	{"PutItem RUN", "the end, with output and summary"},
	{"PutItem TURN", "the message to the conversation, under its own id: told once"},
	{"SendMessage turns", "it is told at once, not with the tick"},
	{"PutItem RUN", "the slot is marked delivered"},
	{"PutItem EVENT~BACKBONE", "the place is free, the backbone disarmed: no further tick"},
	{"PutItem EVENT", "run.started, run.ended, turn.accepted, delivery.delivered, backbone.disarmed"},
	{"DeleteMessage runs", "the job is done"},
	{"Invoke reconcile", "the guarantee behind all of this"},
	{"ReceiveMessage ticks", "the tick"},
	{"GetItem EVENT~BACKBONE", "it is stale: nothing is outstanding"},
	{"DeleteMessage ticks", "the tick is done"},
}

// mostOperations is the bar of docs/design.md section 7.
const mostOperations = 22

// reaction says what the operations buy of the turn that hears of the end. It is a turn
// like any other, and not counted with the run.
var reaction = map[string]string{
	"Invoke executor":      "the conversation reacts",
	"ReceiveMessage turns": "the turn's message",
	"GetItem TURN":         "the turn",
	// On AWS a queue hides a message for longer than its function's time-out.
	"ChangeMessageVisibility turns": "if the executor dies the turn is back in 90 s, not in a quarter of an hour",
	"GetItem CONV":                  "who has the conversation's place",
	"PutItem CONV":                  "the place, under a lease, and its release",
	"PutItem MSG":                   "what the run said, and what the agent says to that",
	"PutItem TURN":                  "the turn's end",
	"Query EVENT":                   "the end of the event log",
	"PutItem EVENT":                 "turn.started, message.added, turn.completed (over 1 KB: two units)",
	"DeleteMessage turns":           "the message is done",
}

// mostReaction is one more for the first turn, whose conversation has no row yet.
const mostReaction = 15

func TestBilledOperationsOfADetachedRun(t *testing.T) {
	a := newAccount(t, subagent.Cadence{2 * time.Second, time.Minute})
	for _, name := range []string{"the first run of a conversation", "a later one"} {
		a.since()
		a.post("/v1/conversations/c/runs", `{"agent":"lab-echo","input":{"text":"hello"}}`)
		a.drain(platform.Runs)
		a.drain(platform.Ticks)
		calls, bill := a.since()
		if diff := cmp.Diff(callsOf(detachedRun), calls); diff != "" {
			t.Errorf("%s: the table does not tell the truth (-table +called):\n%s", name, diff)
		}
		if n := bill.Units(); n > mostOperations {
			t.Errorf("%s is billed as %d operations, at most %d are allowed", name, n, mostOperations)
		}
		t.Logf("%s:\n%s\n%s", name, table(detachedRun), bill)

		a.drain(platform.Turns)
		calls, bill = a.since()
		if n := bill.Units(); n > mostReaction {
			t.Errorf("the reaction to %s is billed as %d operations, at most %d are allowed", name, n, mostReaction)
		}
		heard := make([]operation, len(calls))
		for i, call := range calls {
			heard[i] = operation{call, reaction[call]}
			if heard[i].buys == "" {
				t.Errorf("the reaction to %s: %s buys nothing that the table knows", name, call)
			}
		}
		t.Logf("the reaction to it, a turn of its own:\n%s\n%s", table(heard), bill)
	}
}

// TestBilledOperationsOfARunWhoseConversationWentOn pins what a wrong hint costs: one
// write that is refused and one read. The place of the log's end is believed for
// seconds only, so a run that takes longer pays the read alone.
func TestBilledOperationsOfARunWhoseConversationWentOn(t *testing.T) {
	t.Parallel()
	a := newAccount(t, subagent.Cadence{time.Minute})
	a.post("/v1/conversations/c/runs", `{"agent":"lab-echo","input":{"text":"hello"}}`)
	_, dispatch := a.since()
	a.post("/v1/conversations/c/turns", `{"message":"say hello","agent":"lab"}`)
	a.drain(platform.Turns)
	a.since()
	a.drain(platform.Runs)
	calls, bill := a.since()
	want := []string{
		"Invoke executor", "ReceiveMessage runs", "PutItem RUN", "PutItem RUN", "PutItem TURN", "SendMessage turns", "PutItem RUN",
		"PutItem EVENT~BACKBONE", "PutItem EVENT", "Query EVENT", "PutItem EVENT", "DeleteMessage runs",
	}
	if diff := cmp.Diff(want, calls); diff != "" {
		t.Errorf("(-want +called)\n%s", diff)
	}
	const tick = 4
	if n := dispatch.Units() + bill.Units() + tick; n > mostOperations+2 {
		t.Errorf("billed as %d operations, at most %d are allowed", n, mostOperations+2)
	}
}

func callsOf(operations []operation) []string {
	calls := make([]string, len(operations))
	for i, o := range operations {
		calls[i] = o.call
	}
	return calls
}

func table(operations []operation) string {
	var s strings.Builder
	for i, o := range operations {
		fmt.Fprintf(&s, "%3d %-24s %s\n", i+1, o.call, o.buys)
	}
	return s.String()
}
