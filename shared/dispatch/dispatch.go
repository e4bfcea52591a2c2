// Package dispatch starts background runs. The order of its steps is the backbone
// protocol: send the tick, reserve the run's place, write its row, send its job. A
// crash between any two of them is repaired by the tick or by a retry of the same id;
// a rejection leaves nothing behind.
package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/ledger"
	"github.com/errand-dev/errand/shared/operator"
	"github.com/errand-dev/errand/shared/subagent"
)

// Dispatcher starts runs.
type Dispatcher struct {
	Ledger  *ledger.Ledger
	Agents  *agent.Registry
	Cadence subagent.Cadence
	// Cap is how many live runs a conversation may have, at most subagent.MaxOpen.
	Cap int
	// Controls refuse new runs of agents that take none; nil refuses nothing.
	Controls *operator.Controls
	Log      *slog.Logger
}

// Request asks for a run.
type Request struct {
	Owner subagent.Owner
	// Run is the id: the same id is the same run.
	Run   string
	Agent string
	Input json.RawMessage
	// Parent is the run that dispatches, nil for a turn or the API.
	Parent *subagent.Run
	// Waiter, if set, is woken by the run's milestones and end (subagent.Run.Watch).
	Waiter string
	// By is the agent that dispatches, whose own handlers are found first; empty for the API.
	By string
	// ReplayOf is the run that the new one repeats.
	ReplayOf string
	Awaited  bool
	Notice   subagent.Notice
	Budget   subagent.Budget
}

// ErrInputTooLarge is returned for an input over MaxInput bytes.
var ErrInputTooLarge = errors.New("the input is too large")

// ErrTooDeep is returned for a run that would stand below too many others.
var ErrTooDeep = errors.New("the run is nested too deeply")

// MaxInput is the largest input of a run, in bytes.
const MaxInput = 1 << 20

// maxRounds bounds how often a dispatch begins again because ticks overtake it.
const maxRounds = 8

// Start dispatches a run and returns its row. known reports that a run has the id
// already: then that row is the answer as it stands, and nothing was started.
//
// Errors: agent.ErrUnknownAgent, agent.ErrUnknownHandler, subagent.ErrInvalidID,
// subagent.ErrInvalidBudget, ErrInputTooLarge, ErrTooDeep, *agent.CapError,
// agent.ErrAgentDisabled, agent.ErrInMaintenance: nothing was written.
// After any other error the same request may be sent again.
func (d *Dispatcher) Start(ctx context.Context, req Request) (run subagent.Run, known bool, err error) {
	if err := d.check(&req); err != nil {
		return run, false, err
	}
	s := start{Dispatcher: d, req: req, now: d.Ledger.Now()}
	if err := d.Controls.Admit(ctx, req.Agent); err != nil {
		return s.existing(ctx, err)
	}
	err = d.Ledger.Atomically(ctx, func(l *ledger.Ledger) error {
		s.ledger = l
		run, known, err = s.run(ctx)
		return err
	})
	if err != nil {
		var full *agent.CapError
		if errors.As(err, &full) {
			return s.existing(ctx, full)
		}
		return run, false, err
	}
	if !known {
		d.Log.InfoContext(ctx, "dispatched run", "run_id", run.ID, "agent", run.Agent, "input_bytes", len(req.Input))
	}
	return run, known, nil
}

// check refuses a bad request, and completes the name of its handler.
func (d *Dispatcher) check(req *Request) error {
	for _, id := range []string{req.Owner.Tenant, req.Owner.Conversation, req.Run} {
		if err := subagent.CheckID(id); err != nil {
			return err
		}
	}
	if _, ok := d.Agents.Task(req.Agent); !ok {
		return agent.UnknownAgent(req.Agent, d.Agents.Tasks())
	}
	if name := req.Notice.Handler; name != "" {
		full, ok := d.Agents.Resolve(req.By, name)
		if !ok {
			return fmt.Errorf("%w: %q", agent.ErrUnknownHandler, name)
		}
		req.Notice.Handler = full
	}
	if len(req.Input) > MaxInput {
		return fmt.Errorf("%w: %d bytes, at most %d are allowed", ErrInputTooLarge, len(req.Input), MaxInput)
	}
	if req.Parent != nil && len(req.Parent.Lineage())+1 > subagent.MaxDepth {
		return fmt.Errorf("%w: %d runs stand above it already", ErrTooDeep, subagent.MaxDepth)
	}
	return req.Budget.Validate()
}

// start is one dispatch under way.
type start struct {
	*Dispatcher
	ledger *ledger.Ledger
	req    Request
	now    time.Time
	events []ledger.Event
	// redrives is what the run's redrive count will be, zero for a new run.
	redrives int
	// soft: the place does not count against the cap.
	soft bool
}

func (s *start) run(ctx context.Context) (subagent.Run, bool, error) {
	s.events = nil
	backbone, err := s.ledger.BackboneAndTail(ctx, s.req.Owner)
	if err != nil {
		return subagent.Run{}, false, err
	}
	var voided int64
	for range maxRounds {
		var outcome subagent.Outcome
		backbone, outcome, err = s.reserve(ctx, backbone, voided)
		switch {
		case err != nil:
			return subagent.Run{}, false, err
		case outcome == subagent.Stale:
			continue
		case outcome == subagent.Full:
			var freed bool
			if backbone, freed, err = s.prune(ctx, backbone); err != nil {
				return subagent.Run{}, false, err
			}
			if !freed {
				return subagent.Run{}, false, &agent.CapError{Cap: s.Cap}
			}
			continue
		}
		row, outcome, err := s.begin(ctx, backbone.Open[s.req.Run].Generation)
		switch {
		case err != nil:
			return row, false, err
		case outcome == subagent.Stale:
			voided = row.Generation
			if backbone, err = s.ledger.Backbone(ctx, s.req.Owner); err != nil {
				return row, false, err
			}
			continue
		}
		return row, outcome == subagent.Mine, s.send(ctx, row, backbone, outcome == subagent.Mine)
	}
	return subagent.Run{}, false, fmt.Errorf("dispatching run %s: %w", s.req.Run, ledger.ErrContended)
}

// reserve sends the tick that must exist before the reservation does, then reserves.
func (s *start) reserve(ctx context.Context, b subagent.Backbone, voided int64) (subagent.Backbone, subagent.Outcome, error) {
	have, known := b.Open[s.req.Run]
	if known && have.Generation != voided && have.Redrives >= s.redrives {
		return b, subagent.Mine, nil
	}
	// On a copy that shows no room, ask before a tick is sent: a rejection leaves nothing behind.
	if !known && (b.Live() >= s.Cap && !s.soft || len(b.Open) >= subagent.MaxOpen) {
		return b, subagent.Full, nil
	}
	first := s.Cadence.First()
	arming := subagent.Arming{By: subagent.At(s.now.Add(first)), Redrives: s.redrives, Soft: s.soft}
	if b.NeedsTick(s.now, first) {
		arming.Sent, arming.Due = b.Epoch+1, subagent.At(s.now.Add(first))
		if err := s.ledger.SendTick(ctx, s.req.Owner, arming.Sent, 0, first); err != nil {
			return b, 0, err
		}
	}
	next, outcome, err := s.ledger.UpdateBackbone(ctx, s.req.Owner, b, func(b subagent.Backbone) (subagent.Backbone, subagent.Outcome) {
		return b.Reserve(s.req.Run, s.Cap, arming, voided, s.now)
	})
	if err == nil && outcome == subagent.Apply {
		if arming.Sent != 0 {
			s.events = append(s.events, s.ledger.NewEvent("backbone.armed", "", "", armed{arming.Sent, first.Milliseconds()}))
		}
		return s.warn(ctx, next)
	}
	return next, outcome, err
}

type armed struct {
	Epoch   int64 `json:"epoch"`
	AfterMS int64 `json:"after_ms"`
}

func (s *start) begin(ctx context.Context, generation int64) (subagent.Run, subagent.Outcome, error) {
	input, err := s.ledger.StoreValue(ctx, s.req.Owner, string(s.req.Input))
	if err != nil {
		return subagent.Run{}, 0, err
	}
	fresh := subagent.Run{
		Owner: s.req.Owner, ID: s.req.Run, Agent: s.req.Agent, Awaited: s.req.Awaited, ReplayOf: s.req.ReplayOf,
		Status: subagent.Queued, Generation: generation, Notice: s.req.Notice,
		DispatchedAt: subagent.At(s.now), Input: input,
	}
	if s.req.Waiter != "" {
		fresh.Waiters = []string{s.req.Waiter}
	}
	if parent := s.req.Parent; parent != nil {
		fresh.Parent, fresh.Ancestors = parent.ID, parent.Lineage()
	}
	fresh.Deadline, fresh.Silence = s.req.Budget.Bounds(s.now)
	fresh.Payers = s.payers(generation)
	return s.ledger.BeginRun(ctx, fresh)
}

// payers are those of the parent, and the run itself if it has a limit of its own.
func (s *start) payers(generation int64) []subagent.Payer {
	var payers []subagent.Payer
	if s.req.Parent != nil {
		payers = slices.Clone(s.req.Parent.Payers)
	}
	if limit := s.req.Budget.Allowance(); limit.Any() {
		payers = append(payers, subagent.Payer{Run: s.req.Run, Generation: generation, Limit: limit})
	}
	return payers
}

// send wakes an executor. A run that was known and never started gets its job again;
// one that is settled gives back the place that this dispatch took.
func (s *start) send(ctx context.Context, row subagent.Run, b subagent.Backbone, known bool) error {
	if known && !row.Outstanding() {
		_, _, err := s.ledger.UpdateBackbone(ctx, row.Owner, b, func(b subagent.Backbone) (subagent.Backbone, subagent.Outcome) {
			return b.Settle(row.ID, row.Redrives)
		})
		return err
	}
	if known && row.Status != subagent.Queued {
		return nil
	}
	if !known {
		s.events = append(s.events, s.ledger.NewEvent("run.dispatched", row.ID, "", dispatched{row.Agent, row.Parent, row.ReplayOf}))
	}
	// First, so that the log tells of the dispatch before the run, and the job knows
	// where the log ends.
	if err := s.ledger.Emit(ctx, row.Owner, s.events...); err != nil {
		s.Log.WarnContext(ctx, "events lost", "run_id", row.ID, "error", err)
	}
	return s.ledger.SendJob(ctx, row, b, 0)
}

type dispatched struct {
	Agent  string `json:"agent"`
	Parent string `json:"parent_run_id,omitempty"`
	Replay string `json:"replay_of,omitempty"`
}

// existing answers a dispatch that is refused with the run that has its id, if one has.
func (s *start) existing(ctx context.Context, refusal error) (subagent.Run, bool, error) {
	row, err := s.Ledger.Run(ctx, s.req.Owner, s.req.Run)
	if err != nil {
		return row, false, err
	}
	if row.Status == "" || row.Status == subagent.Void {
		return subagent.Run{}, false, refusal
	}
	return row, true, nil
}
