package api

import "strings"

// Problem is an error as RFC 9457 has it, with the content type ProblemType.
type Problem struct {
	Type   string `json:"type" doc:"/problems/<code>: a reference that the server answers with an explanation."`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
	Field  string `json:"field,omitempty" doc:"The field or parameter at fault."`
	// RequestID is set on internal errors: the server's log has more under it.
	RequestID string `json:"request_id,omitempty"`
}

// ProblemType is the content type of a Problem.
const ProblemType = "application/problem+json"

// Code is the part of the type that programs branch on.
func (p *Problem) Code() string { return strings.TrimPrefix(p.Type, "/problems/") }

// Error implements error.
func (p *Problem) Error() string {
	switch {
	case p.Detail == "":
		return p.Title
	case p.Field == "":
		return p.Detail
	}
	return p.Field + ": " + p.Detail
}

// Explanation is what the server answers under the type of a problem.
type Explanation struct {
	Code        string `json:"code"`
	Status      int    `json:"status"`
	Title       string `json:"title"`
	Explanation string `json:"explanation"`
}
