package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
)

// authorizer is what the HTTP API's authorizer verified.
type authorizer struct {
	JWT *struct {
		// Claims are texts on AWS. An endpoint may keep their JSON types, and one claim
		// that is a number must not lose the request.
		Claims map[string]json.RawMessage `json:"claims"`
	} `json:"jwt"`
	IAM *struct {
		UserID string `json:"userId"`
	} `json:"iam"`
}

// tenant returns the verified tenant: the claim "tenant", without one the subject, or
// the IAM user or role; "" if nobody was verified.
func (a *authorizer) tenant() string {
	switch {
	case a == nil:
		return ""
	case a.JWT != nil:
		if tenant, claimed := a.JWT.Claims["tenant"]; claimed {
			return text(tenant)
		}
		return text(a.JWT.Claims["sub"])
	case a.IAM != nil && a.IAM.UserID != "":
		// A role's id is followed by the name of the session, which its user chooses.
		id, _, _ := strings.Cut(a.IAM.UserID, ":")
		return "iam:" + id
	}
	return ""
}

// text returns a claim as AWS passes it on: a number is its digits. Anything else that
// is no text names nobody.
func text(claim json.RawMessage) string {
	var s string
	if json.Unmarshal(claim, &s) == nil {
		return s
	}
	var n json.Number
	if json.Unmarshal(claim, &n) == nil {
		return n.String()
	}
	return ""
}

// operatorScope makes whoever has it an operator, as does a claim of that name that is true.
const operatorScope = "operator"

// operator reports whether the verified token makes its bearer an operator. Who is verified
// by IAM is none: a user's or role's id says nothing of that.
func (a *authorizer) operator() bool {
	if a == nil || a.JWT == nil {
		return false
	}
	var claimed bool
	if json.Unmarshal(a.JWT.Claims[operatorScope], &claimed) == nil && claimed || text(a.JWT.Claims[operatorScope]) == "true" {
		return true
	}
	return slices.Contains(strings.Fields(text(a.JWT.Claims["scope"])), operatorScope)
}

type identityKey struct{}

// identity is who asks.
type identity struct {
	tenant   string
	operator bool
}

func withIdentity(ctx context.Context, a *authorizer) context.Context {
	return context.WithValue(ctx, identityKey{}, identity{a.tenant(), a.operator()})
}

var errNobody = errors.New("no verified identity")

// authenticate returns the tenant that the authorizer verified. Path and headers, which
// the caller writes, have no say.
func authenticate(r *http.Request) (string, error) {
	who, _ := r.Context().Value(identityKey{}).(identity)
	if who.tenant == "" {
		return "", errNobody
	}
	return who.tenant, nil
}

// isOperator reports whether that was an operator.
func isOperator(r *http.Request) bool {
	who, _ := r.Context().Value(identityKey{}).(identity)
	return who.operator
}
