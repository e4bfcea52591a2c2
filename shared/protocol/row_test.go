package protocol

import (
	"time"

	"github.com/errand-dev/errand/shared/subagent"
)

// One unit of the models' time is one second of the rules', and stands for about
// five of the real ones: clocks differ from true time by one unit at most.
var terms = subagent.Terms{Lease: 3 * time.Second, Skew: time.Second, Margin: time.Second, MaxExecutions: 3}

const (
	// Times in a state are relative to now, so that waiting leads to no new states.
	// What is floor units ago is as good as for ever ago, for every clock.
	floor = int8(-3)
	unset = int8(-100)
	// present is "now" when the rules are asked.
	present = 1000
	// newest is the epoch of whoever acquired last; older holders count back from it.
	newest = 50
)

func clock(offset int8) time.Time { return time.Unix(present+int64(offset), 0) }

func rel(t subagent.Time) int8 {
	if t == 0 {
		return unset
	}
	return max(int8(int64(t)/1000-present), floor)
}

func abs(r int8) subagent.Time {
	if r == unset {
		return 0
	}
	return subagent.Time((present + int64(r)) * 1000)
}

func passed(r int8) int8 {
	if r == unset || r == floor {
		return r
	}
	return r - 1
}

var (
	statuses = [...]subagent.Status{subagent.Queued, subagent.Running, subagent.Waiting, subagent.Completed, subagent.Error, subagent.Aborted, subagent.Interrupted, subagent.Void}
	slots    = [...]subagent.Slot{subagent.Finish, subagent.GiveUp}
	closings = [...]subagent.SlotState{subagent.Open, subagent.Delivered, subagent.Dead, subagent.Silent, subagent.Abandoned}
	tokens   = [...]string{"", "t1", "t2", "t3", "t4", "t5", "t6", "t7"}
)

const (
	queued = iota
	running
	waiting
	completed
	failed
	aborted
	interrupted
)

const (
	finish = iota
	giveUp
)

func find[T comparable](list []T, x T) uint8 {
	for i, y := range list {
		if x == y {
			return uint8(i)
		}
	}
	panic("a value that the model does not know")
}

// row is what the rules decide by, of the control row of a run.
type row struct {
	status          uint8
	acquired        bool
	holder          uint8
	until           int8
	lost            int8
	token           uint8
	claim           int8
	claims          int8
	state           [2]uint8
	attempts        [2]int8
	torn            bool
	watch, deadline int8
	redrives        int8
}

// run completes the row for the rules. budget is the run's time in units.
func (r *row) run(budget int8) subagent.Run {
	x := subagent.Run{
		ID: "run", Status: statuses[r.status], Lost: int(r.lost),
		Exec:  subagent.Lease{Holder: tokens[r.holder], Until: abs(r.until)},
		Claim: subagent.Claim{Token: tokens[r.token], Until: abs(r.claim), N: int64(r.claims)},
		Torn:  r.torn, WatchUntil: abs(r.watch), Redrives: int(r.redrives),
		Deadline: abs(r.deadline), DispatchedAt: abs(r.deadline - budget),
	}
	if r.acquired {
		x.Exec.Epoch = newest
	}
	for i, slot := range slots {
		*x.Delivery(slot) = subagent.Delivery{State: closings[r.state[i]], Attempts: int(r.attempts[i])}
	}
	return x
}

// rowOf forgets what no rule decides by. Epochs are told apart by whoever calls it.
func rowOf(x subagent.Run) row {
	r := row{
		status: find(statuses[:], x.Status), acquired: x.Exec.Epoch > 0,
		holder: find(tokens[:], x.Exec.Holder), until: rel(x.Exec.Until), lost: int8(x.Lost),
		token: find(tokens[:], x.Claim.Token), claim: rel(x.Claim.Until), claims: int8(x.Claim.N),
		torn: x.Torn, watch: rel(x.WatchUntil), deadline: rel(x.Deadline), redrives: int8(x.Redrives),
	}
	for i, slot := range slots {
		d := x.Delivery(slot)
		r.state[i], r.attempts[i] = find(closings[:], d.State), int8(d.Attempts)
	}
	return r
}

func (r *row) pass() {
	r.until, r.claim = passed(r.until), passed(r.claim)
	r.watch, r.deadline = passed(r.watch), passed(r.deadline)
}

func (r *row) hard() bool { return statuses[r.status].Hard() }
