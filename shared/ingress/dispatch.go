package ingress

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/errand-dev/errand/shared/dispatch"
	"github.com/errand-dev/errand/shared/ledger"
	"github.com/errand-dev/errand/shared/subagent"
)

// RunRequest asks for a background run.
type RunRequest struct {
	Owner subagent.Owner
	Agent string
	Input json.RawMessage
	// Run is the id of the run. Without it the id is derived from Key, else fresh.
	Run string
	// Key makes the request repeatable.
	Key    string
	Notice subagent.Notice
	Budget subagent.Budget
}

// Dispatch starts a background run, as a turn's tool call would. known reports that a
// run has the id already: that one is the answer as it stands, nothing was started.
//
// Errors: those of dispatch.Dispatcher.Start, and ErrKeyReused if the id comes from
// the key and the run that has it was asked for in other words.
func (s *Service) Dispatch(ctx context.Context, req RunRequest) (run subagent.Run, known bool, err error) {
	input, err := compact(req.Input)
	if err != nil {
		return run, false, err
	}
	run, known, err = s.Dispatcher.Start(ctx, dispatch.Request{
		Owner: req.Owner, Run: s.runID(req.Owner, req.Run, req.Key), Agent: req.Agent, Input: input, Notice: req.Notice, Budget: req.Budget,
	})
	if err != nil || !known || req.Run != "" {
		return run, known, err
	}
	same, err := s.asksFor(ctx, req, input, run)
	if err == nil && !same {
		err = ErrKeyReused
	}
	return run, known, err
}

// Replay dispatches a run that repeats another one; known as for Dispatch.
//
// Errors: those of control.Control.Replay, and ErrKeyReused if the run that has the key's id
// repeats another one, or none.
func (s *Service) Replay(ctx context.Context, o subagent.Owner, of, key string) (run subagent.Run, known bool, err error) {
	run, known, err = s.Control.Replay(ctx, o, of, s.runID(o, "", key))
	if err == nil && run.ReplayOf != of {
		err = ErrKeyReused
	}
	return run, known, err
}

// runID is the one that is asked for, else the key's, else a fresh one.
func (s *Service) runID(o subagent.Owner, id, key string) string {
	switch {
	case id != "":
		return id
	case key == "":
		return "r-" + s.Ledger.Nonce()
	}
	return "r-" + ledger.Digest(o.Tenant + "/" + o.Conversation + "/run/" + key)[:26]
}

// asksFor reports whether the run is what the request asks for.
func (s *Service) asksFor(ctx context.Context, req RunRequest, input json.RawMessage, run subagent.Run) (bool, error) {
	value, err := s.Ledger.StoreValue(ctx, req.Owner, string(input))
	deadline, silence := req.Budget.Bounds(run.DispatchedAt.Time())
	return run.ReplayOf == "" && run.Agent == req.Agent && run.Input == value && run.Deadline == deadline && run.Silence == silence &&
		run.Limit() == req.Budget.Allowance() && reflect.DeepEqual(run.Notice, req.Notice), err
}

// compact makes the input independent of its white space. None, or null, is nothing.
func compact(input json.RawMessage) (json.RawMessage, error) {
	var buffer bytes.Buffer
	if len(input) == 0 {
		return nil, nil
	}
	if err := json.Compact(&buffer, input); err != nil {
		return nil, atFault("input", fmt.Errorf("%w: %w", errInvalidBody, err))
	}
	if buffer.String() == "null" {
		return nil, nil
	}
	return buffer.Bytes(), nil
}
