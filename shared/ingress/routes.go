package ingress

import (
	"net/http"
	"slices"

	"github.com/errand-dev/errand/shared/api"
)

// route is one call of the API: how it is served, and what the OpenAPI document says
// of it. A test keeps the two equal.
type route struct {
	method, path string
	// name is the operation's id for generated clients.
	name, summary string
	handle        func(*handler, *call) error
	// tenant: the caller must be authenticated and the path names a conversation.
	tenant bool
	// operator: the caller must be authenticated, and an operator.
	operator bool
	query    []string
	// request and answer are examples of the bodies' types; nil means none.
	request  any
	optional bool
	status   int
	answer   any
	// headers that the request may have, besides the usual ones.
	headers []string
	// location: the answer has a Location.
	location bool
	problems []string
}

const (
	conversationPath = "/v1/conversations/{conversation}"
	turnsPath        = conversationPath + "/turns"
	runsPath         = conversationPath + "/runs"
	runPath          = runsPath + "/{run}"
)

const (
	keyHeader    = "Idempotency-Key"
	replayHeader = "Idempotency-Replayed"
	resumeHeader = "Last-Event-ID"
)

// body are the problems that any call with a body has.
func body(more ...string) []string {
	return append([]string{codeInvalidBody, codeUnknownField, codeTooLarge, codeMediaType, codeContended}, more...)
}

func routes() []route {
	all := slices.Concat(conversationRoutes(), runRoutes(), approvalRoutes())
	all = append(all, scheduleRoutes()...)
	for i := range all {
		all[i].tenant = true
		all[i].problems = append(all[i].problems, codeInvalidID, codeUnknownField, codeInvalidParameter, codeUnauthenticated)
	}
	all = append(all, agentRoutes()...)
	return append(append(all, callbackRoutes()...),
		route{method: "GET", path: "/healthz", name: "health", summary: "Whether the server is alive, and its version", handle: healthz,
			status: http.StatusOK, answer: api.Health{}, problems: []string{codeUnknownField, codeInvalidParameter}},
		route{method: "GET", path: "/v1/openapi.json", name: "getOpenAPI", summary: "This document", handle: openAPIDocument,
			status: http.StatusOK, answer: map[string]any{}, problems: []string{codeUnknownField, codeInvalidParameter}},
		route{method: "GET", path: "/problems/{code}", name: "explainProblem", summary: "Explain a kind of problem", handle: explain,
			status: http.StatusOK, answer: api.Explanation{}, problems: []string{codeNotFound, codeUnknownField, codeInvalidParameter}},
	)
}

func conversationRoutes() []route {
	return []route{
		{method: "POST", path: turnsPath, name: "acceptTurn", summary: "Accept one turn", handle: postTurn, headers: []string{keyHeader},
			request: api.TurnRequest{}, status: http.StatusAccepted, answer: api.Turn{}, location: true,
			problems: body(codeInvalidKey, codeKeyReused, codeUnknownAgent, codeAgentFixed, codeAgentDisabled, codeMaintenance, codeBusy)},
		{method: "GET", path: turnsPath + "/{turn}", name: "getTurn", summary: "One turn", handle: getTurn,
			status: http.StatusOK, answer: api.Turn{}, problems: []string{codeNotFound}},
		{method: "GET", path: conversationPath, name: "getConversation", summary: "One conversation", handle: getConversation,
			status: http.StatusOK, answer: api.Conversation{}, problems: []string{codeNotFound}},
		{method: "DELETE", path: conversationPath, name: "clearConversation", summary: "Clear a conversation: cancel what runs, tell nobody, delete", handle: deleteConversation,
			status: http.StatusAccepted, problems: []string{codeNotFound, codeContended}},
		{method: "GET", path: conversationPath + "/messages", name: "listMessages", summary: "The transcript, in order", handle: getMessages, query: []string{"after", "limit"},
			status: http.StatusOK, answer: api.MessagePage{}, problems: []string{codeNotFound}},
		{method: "GET", path: conversationPath + "/events", name: "listEvents", summary: "The event log, waiting for the next event", handle: getEvents,
			query: []string{"after", "wait_ms", "limit"}, headers: []string{resumeHeader},
			status: http.StatusOK, answer: api.EventPage{}, problems: []string{codeNotFound, codeNotAcceptable}},
		{method: "GET", path: conversationPath + "/audit", name: "auditConversation", summary: "What is not as it should be in a conversation", handle: getAudit,
			status: http.StatusOK, answer: api.Audit{}, problems: []string{codeNotFound}},
		{method: "POST", path: conversationPath + "/repair", name: "repairConversation", summary: "Send the tick and the wake that may be lost; write nothing", handle: postRepair,
			status: http.StatusAccepted, answer: api.Repair{}, problems: []string{codeNotFound}},
	}
}

func runRoutes() []route {
	return []route{
		{method: "POST", path: runsPath, name: "dispatchRun", summary: "Dispatch a background run", handle: postRun, headers: []string{keyHeader},
			request: api.DispatchRequest{}, status: http.StatusAccepted, answer: api.Run{}, location: true,
			problems: body(codeInvalidKey, codeKeyReused, codeUnknownAgent, codeUnknownHandler, codeInvalidBudget, codeConcurrency, codeAgentDisabled, codeMaintenance)},
		{method: "GET", path: runsPath, name: "listRuns", summary: "Background runs", handle: getRuns, query: []string{"status", "after", "limit"},
			status: http.StatusOK, answer: api.RunPage{}, problems: []string{codeNotFound}},
		{method: "GET", path: runPath, name: "getRun", summary: "One run", handle: getRun,
			status: http.StatusOK, answer: api.Run{}, problems: []string{codeNotFound}},
		{method: "POST", path: runPath + "/cancel", name: "cancelRun", summary: "Cancel a run and its descendants", handle: postCancel,
			request: api.CancelRequest{}, optional: true, status: http.StatusOK, answer: api.Run{}, problems: body(codeNotFound)},
		{method: "POST", path: runPath + "/messages", name: "followUp", summary: "A follow-up into a running run", handle: postFollowUp,
			request: api.FollowUpRequest{}, status: http.StatusAccepted, problems: body(codeNotFound, codeRunEnded)},
		{method: "GET", path: runPath + "/events", name: "listRunEvents", summary: "One run's events, waiting for the next one", handle: getEvents,
			query: []string{"after", "wait_ms", "limit"}, headers: []string{resumeHeader},
			status: http.StatusOK, answer: api.EventPage{}, problems: []string{codeNotFound, codeNotAcceptable}},
		{method: "POST", path: runPath + "/redrive", name: "redriveSlot", summary: "Deliver a dead-lettered slot again", handle: postRedrive,
			request: api.RedriveRequest{}, optional: true, status: http.StatusAccepted, answer: api.Run{},
			problems: body(codeNotFound, codeNothingToRedrive, codeConcurrency)},
		{method: "POST", path: runPath + "/replay", name: "replayRun", summary: "Dispatch a run that repeats one that has ended", handle: postReplay, headers: []string{keyHeader},
			status: http.StatusAccepted, answer: api.Run{}, location: true,
			problems: []string{codeNotFound, codeRunNotEnded, codeInvalidKey, codeKeyReused, codeUnknownAgent, codeUnknownHandler, codeConcurrency, codeAgentDisabled, codeMaintenance, codeContended}},
		{method: "GET", path: runPath + "/cost", name: "getRunCost", summary: "What a run and all below it have cost", handle: getCost,
			status: http.StatusOK, answer: api.RunCost{}, problems: []string{codeNotFound}},
		{method: "GET", path: runPath + "/why", name: "explainRun", summary: "How a run came to where it is", handle: getWhy,
			status: http.StatusOK, answer: api.Why{}, problems: []string{codeNotFound}},
	}
}
