package ingress

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/api"
	"github.com/errand-dev/errand/shared/callback"
	"github.com/errand-dev/errand/shared/control"
	"github.com/errand-dev/errand/shared/dispatch"
	"github.com/errand-dev/errand/shared/ledger"
	"github.com/errand-dev/errand/shared/schedule"
	"github.com/errand-dev/errand/shared/subagent"
	"github.com/errand-dev/errand/shared/timetable"
)

// kind is one kind of problem: what a client branches on.
type kind struct {
	code        string
	status      int
	title       string
	explanation string
}

// The kinds of problems, each with its code. kinds lists them.
const (
	codeInvalidID        = "invalid-id"
	codeInvalidBody      = "invalid-body"
	codeUnknownField     = "unknown-field"
	codeInvalidParameter = "invalid-parameter"
	codeInvalidKey       = "invalid-idempotency-key"
	codeUnauthenticated  = "unauthenticated"
	codeNotFound         = "not-found"
	codeMethod           = "method-not-allowed"
	codeNotAcceptable    = "not-acceptable"
	codeAgentFixed       = "agent-fixed"
	codeRunEnded         = "run-ended"
	codeRunNotEnded      = "run-not-ended"
	codeNothingToRedrive = "nothing-to-redrive"
	codeAlreadyEnded     = "already-ended"
	codeAlreadyAnswered  = "already-answered"
	codeTooLarge         = "too-large"
	codeMediaType        = "unsupported-media-type"
	codeKeyReused        = "idempotency-key-reused"
	codeUnknownAgent     = "unknown-agent"
	codeUnknownHandler   = "unknown-handler"
	codeInvalidBudget    = "invalid-budget"
	codeConcurrency      = "concurrency-limit"
	codeAgentDisabled    = "agent-disabled"
	codeMaintenance      = "in-maintenance"
	codeBusy             = "busy"
	codeOperatorOnly     = "operator-only"
	codeSwitchedOff      = "switched-off"
	codeInvalidSchedule  = "invalid-schedule"
	codeTooManySchedules = "too-many-schedules"
	codeInternal         = "internal"
	codeContended        = "contended"
	codeStopping         = "stopping"
	codeUnavailable      = "store-unavailable"
)

func kinds() []kind {
	return []kind{
		{codeInvalidID, http.StatusBadRequest, "Invalid id",
			"Ids of conversations, turns and runs have 1 to 128 characters from A-Z a-z 0-9 . _ : - and are neither . nor .. alone."},
		{codeInvalidBody, http.StatusBadRequest, "Invalid body",
			"The body is not the JSON object that this call takes: it is broken, lacks a field or has one of the wrong type."},
		{codeUnknownField, http.StatusBadRequest, "Unknown field",
			"The request has a field or query parameter that this call does not know. It is refused, so that a typo cannot silently change what is asked. Names are case-sensitive."},
		{codeInvalidParameter, http.StatusBadRequest, "Invalid query parameter",
			"A query parameter is out of its range, is not of its type, or comes twice."},
		{codeInvalidKey, http.StatusBadRequest, "Invalid Idempotency-Key",
			"The header Idempotency-Key takes 1 to 255 visible ASCII characters, in quotes or bare, once."},
		{codeUnauthenticated, http.StatusUnauthorized, "Not authenticated",
			"The request carries no valid credential."},
		{codeOperatorOnly, http.StatusForbidden, "For operators only",
			"The credential does not make its bearer an operator of this deployment."},
		{codeNotFound, http.StatusNotFound, "Not found",
			"There is no such resource, or it belongs to another tenant. A conversation exists from its first turn or dispatch on."},
		{codeMethod, http.StatusMethodNotAllowed, "Method not allowed",
			"This path exists but not with this method; the header Allow names those that it has."},
		{codeNotAcceptable, http.StatusNotAcceptable, "Not acceptable",
			"This server cannot stream events. Ask for application/json and use wait_ms."},
		{codeAgentFixed, http.StatusConflict, "Another agent",
			"The first turn of a conversation fixes its agent. Leave agent out, or begin another conversation."},
		{codeAgentDisabled, http.StatusConflict, "Agent disabled",
			"An operator has disabled the agent: it takes no new turns and runs. What it has accepted goes on. Nothing was left behind; the same request can be sent again when the agent is enabled."},
		{codeSwitchedOff, http.StatusConflict, "Switched off",
			"This deployment has switched that off: creating and changing schedules (those that there are go on, and can be listed and deleted), or operator control."},
		{codeTooManySchedules, http.StatusConflict, "Too many schedules",
			"The conversation has as many schedules as it may have. Delete one that has ended, or is not needed."},
		{codeRunEnded, http.StatusConflict, "Run ended",
			"The run (or turn) has ended, or was given up; nobody reads a message or an answer to it any more."},
		{codeRunNotEnded, http.StatusConflict, "Run not ended",
			"Only a run that has ended can be replayed; one that was given up, when nobody watches for its late result any more. Wait for its end, or cancel it."},
		{codeAlreadyEnded, http.StatusConflict, "Already ended",
			"The run or turn that waited for this callback has ended, so nobody waits any more. Nothing was changed."},
		{codeAlreadyAnswered, http.StatusConflict, "Already answered",
			"Another answer was given before, and stands. The same answer again is no problem."},
		{codeNothingToRedrive, http.StatusConflict, "Nothing to redrive",
			"Only a slot that is dead-lettered can be delivered again."},
		{codeTooLarge, http.StatusRequestEntityTooLarge, "Too large",
			"A message or the text of a schedule has at most 256 KB, metadata or the note of a decision 16 KB, the result that a callback brings 200 KB, the input of a run 1 MB, a whole request 2 MB."},
		{codeMediaType, http.StatusUnsupportedMediaType, "Unsupported media type",
			"A request with a body needs the header Content-Type: application/json."},
		{codeKeyReused, http.StatusUnprocessableEntity, "Idempotency-Key reused",
			"This Idempotency-Key was used with another body in this conversation. The same key must come with the same body; another request needs another key."},
		{codeUnknownAgent, http.StatusUnprocessableEntity, "Unknown agent",
			"No agent of this name is registered for this use."},
		{codeUnknownHandler, http.StatusUnprocessableEntity, "Unknown handler",
			"No handler of this name is registered. detached.on_finish takes the name of a registered handler."},
		{codeInvalidBudget, http.StatusUnprocessableEntity, "Invalid budget",
			"Budgets of time are whole milliseconds, at most 31536000000 (365 days): max_budget_ms at least 1, no_progress_budget_ms at least 0, which switches it off. max_tokens is at least 1, max_usd a positive number of US dollars."},
		{codeInvalidSchedule, http.StatusUnprocessableEntity, "Invalid schedule",
			"The expression, its time zone or its end makes no schedule that fires: cron(0 9 ? * MON-FRI *), rate(5 minutes) or at(2026-12-24T18:00:00), an IANA time zone, and a firing to come."},
		{codeBusy, http.StatusTooManyRequests, "Too many turns are waiting",
			"The conversation has as many waiting turns as it may have. Send the same request again after the time in Retry-After."},
		{codeConcurrency, http.StatusTooManyRequests, "Too many background runs",
			"The conversation has as many background runs as it may have. Nothing was left behind: the same request can be sent again when one of them has ended."},
		{codeInternal, http.StatusInternalServerError, "Internal error",
			"Something failed on the server. The same request can be sent again; the request id finds the cause in the server's log."},
		{codeMaintenance, http.StatusServiceUnavailable, "In maintenance",
			"The agent is in maintenance and refuses new turns and runs. Nothing was left behind: send the same request again after the time in Retry-After."},
		{codeContended, http.StatusServiceUnavailable, "Too busy",
			"Others change the same rows too fast. Nothing is wrong with the request: send it again after the time in Retry-After."},
		{codeUnavailable, http.StatusServiceUnavailable, "Store unavailable",
			"The store did not take or give the data: its disk may be full, or it cannot be reached. Nothing is wrong with the request: send the same again after the time in Retry-After. The request id finds the cause in the server's log."},
		{codeStopping, http.StatusServiceUnavailable, "Stopping",
			"This server stops and broke the request off. Send it again after the time in Retry-After."},
	}
}

func kindOf(code string) (kind, bool) {
	all := kinds()
	i := slices.IndexFunc(all, func(k kind) bool { return k.code == code })
	if i < 0 {
		return kind{}, false
	}
	return all[i], true
}

// Errors of requests that are not what a call takes.
var (
	ErrNotFound         = errors.New("there is no such thing")
	errUnauthenticated  = errors.New("no valid credential")
	errInvalidParameter = errors.New("not valid")
	errInvalidKey       = errors.New("not a valid Idempotency-Key")
	errInvalidBody      = errors.New("not a valid body")
	errUnknownField     = errors.New("there is no such field")
	errMethod           = errors.New("this path does not have this method")
	errNotAcceptable    = errors.New("this server cannot stream events; ask for application/json")
	errMediaType        = errors.New("the Content-Type must be application/json")
	errTooLarge         = errors.New("the request is too large")
	errStopping         = errors.New("the server stops")
	errNotOperator      = errors.New("only an operator may do this")
)

// codeOf is the one table from an error to the kind of its problem.
func codeOf(err error) string {
	table := []struct {
		err  error
		code string
	}{
		{subagent.ErrInvalidID, codeInvalidID},
		{errInvalidBody, codeInvalidBody},
		{ErrEmptyMessage, codeInvalidBody},
		{agent.ErrDetached, codeInvalidBody},
		{errUnknownField, codeUnknownField},
		{errInvalidParameter, codeInvalidParameter},
		{errInvalidKey, codeInvalidKey},
		{errUnauthenticated, codeUnauthenticated},
		{ErrNotFound, codeNotFound},
		{agent.ErrNoRun, codeNotFound},
		{callback.ErrToken, codeNotFound},
		{control.ErrNoTurn, codeNotFound},
		{control.ErrNoQuestion, codeNotFound},
		{control.ErrOnlyRuns, codeNotFound},
		{control.ErrAnswered, codeAlreadyAnswered},
		{errAlreadyEnded, codeAlreadyEnded},
		{errMethod, codeMethod},
		{errNotAcceptable, codeNotAcceptable},
		{ErrAgentFixed, codeAgentFixed},
		{agent.ErrRunEnded, codeRunEnded},
		{control.ErrNotEnded, codeRunNotEnded},
		{control.ErrNothingToRedrive, codeNothingToRedrive},
		{ErrMessageTooLarge, codeTooLarge},
		{dispatch.ErrInputTooLarge, codeTooLarge},
		{errTooLarge, codeTooLarge},
		{errMediaType, codeMediaType},
		{ErrKeyReused, codeKeyReused},
		{agent.ErrUnknownAgent, codeUnknownAgent},
		{agent.ErrUnknownHandler, codeUnknownHandler},
		{subagent.ErrInvalidBudget, codeInvalidBudget},
		{agent.ErrAgentDisabled, codeAgentDisabled},
		{agent.ErrInMaintenance, codeMaintenance},
		{ErrBusy, codeBusy},
		{errNotOperator, codeOperatorOnly},
		{errSwitchedOff, codeSwitchedOff},
		{timetable.ErrFrozen, codeSwitchedOff},
		{timetable.ErrNothingToDo, codeInvalidBody},
		{timetable.ErrTwoTexts, codeInvalidBody},
		{timetable.ErrTooLarge, codeTooLarge},
		{timetable.ErrNever, codeInvalidSchedule},
		{schedule.ErrExpression, codeInvalidSchedule},
		{schedule.ErrZone, codeInvalidSchedule},
		{timetable.ErrTooMany, codeTooManySchedules},
		{timetable.ErrNoSchedule, codeNotFound},
		{timetable.ErrKeyReused, codeKeyReused},
		{ledger.ErrContended, codeContended},
	}
	for _, row := range table {
		if errors.Is(err, row.err) {
			return row.code
		}
	}
	if errors.As(err, new(*agent.CapError)) {
		return codeConcurrency
	}
	if ledger.IsTransient(err) {
		return codeUnavailable
	}
	return codeInternal
}

// fieldError names the field or parameter at fault.
type fieldError struct {
	field string
	error
}

func (e *fieldError) Unwrap() error { return e.error }

func atFault(field string, err error) error { return &fieldError{field, err} }

// retryAfter is what 429 and 503 say, in seconds: a run takes a while to end,
// contention does not last, maintenance does.
func retryAfter(k kind) string {
	switch {
	case k.code == codeMaintenance:
		return "60"
	case k.status == http.StatusTooManyRequests:
		return "5"
	case k.status == http.StatusServiceUnavailable:
		return "1"
	}
	return ""
}

// refuse answers with the problem of err. What the table does not know is logged with
// a request id and answered without its text: it may tell of internals.
func (h *handler) refuse(ctx context.Context, w http.ResponseWriter, err error) {
	code := codeOf(err)
	if (code == codeInternal || code == codeUnavailable) && ctx.Err() != nil {
		// The server stops, or the client has gone and does not see this. Never silence:
		// that would reach the client as an empty 200.
		code, err = codeStopping, errStopping
	}
	k, _ := kindOf(code)
	p := api.Problem{Type: "/problems/" + k.code, Title: k.title, Status: k.status, Detail: err.Error()}
	var field *fieldError
	if errors.As(err, &field) {
		p.Field = field.field
	}
	if k.code == codeInternal || k.code == codeUnavailable {
		p.RequestID = h.Ledger.Nonce()
		p.Detail = fmt.Sprintf("The server's log has more under request id %s.", p.RequestID)
		h.Log.ErrorContext(ctx, "request failed", "request_id", p.RequestID, "error", err)
	}
	if after := retryAfter(k); after != "" {
		w.Header().Set("Retry-After", after)
	}
	if k.status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	h.write(ctx, w, api.ProblemType, k.status, p)
}

// write sends value as JSON. What it cannot send any more, nobody waits for.
func (h *handler) write(ctx context.Context, w http.ResponseWriter, contentType string, status int, value any) {
	body, err := json.Marshal(value)
	if err != nil {
		h.Log.ErrorContext(ctx, "answer not encoded", "error", err)
		status, body = http.StatusInternalServerError, nil
	}
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	if _, err := w.Write(append(body, '\n')); err != nil {
		h.Log.DebugContext(ctx, "answer not sent", "error", err)
	}
}
