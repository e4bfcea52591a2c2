package openaimodel

import (
	"cmp"
	"encoding/json"
	"errors"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/ssestream"
	"github.com/openai/openai-go/v3/responses"

	"github.com/errand-dev/errand/shared/model"
	"github.com/errand-dev/errand/shared/model/internal/adapt"
)

// complaint reads the server's words, whether they came with a status or in the middle of
// a stream.
func complaint(err error) (adapt.Complaint, bool) {
	if said, ok := errors.AsType[*openai.Error](err); ok {
		c := adapt.Complaint{Vendor: vendor, Status: said.StatusCode, Code: cmp.Or(said.Code, said.Type), Message: said.Message}
		if saysMore(c.Code) {
			c.Kind = kindOf(c.Code)
		}
		if said.Response != nil {
			c.Header = said.Response.Header
		}
		return c, true
	}
	if said, ok := errors.AsType[*ssestream.StreamError](err); ok {
		var event struct {
			Error struct {
				Code, Type any // some servers send numbers
				Message    string
			}
		}
		_ = json.Unmarshal(said.Event.Data, &event) // if it is no object, its kind is Broken
		code, _ := event.Error.Code.(string)
		kind, _ := event.Error.Type.(string)
		c := adapt.Complaint{Vendor: vendor, Code: cmp.Or(code, kind), Message: event.Error.Message}
		c.Kind = cmp.Or(kindOf(code), kindOf(kind))
		return c, true
	}
	c, ok := errors.AsType[adapt.Complaint](err)
	return c, ok
}

// failedAnswer is the error of an answer that the vendor itself calls failed.
func failedAnswer(e responses.ResponseError) error {
	code := string(e.Code)
	return adapt.Complaint{Vendor: vendor, Code: code, Message: e.Message, Kind: cmp.Or(kindOf(code), model.Invalid)}
}

// saysMore reports whether a code says more than the status that it comes with: an account
// without money is told like one that asks too often.
func saysMore(code string) bool {
	return code == "insufficient_quota" || code == "billing_hard_limit_reached" || code == "model_not_found"
}

// kindOf classifies OpenAI's codes and types of errors.
func kindOf(code string) model.Kind {
	switch code {
	case "insufficient_quota", "billing_hard_limit_reached", "invalid_request_error", "invalid_prompt":
		return model.Invalid
	case "context_length_exceeded":
		return model.TooLong
	case "model_not_found":
		return model.NotFound
	case "invalid_api_key":
		return model.Unauthorized
	case "rate_limit_exceeded":
		return model.RateLimited
	case "server_error", "server_is_overloaded", "slow_down":
		return model.Overloaded
	}
	return ""
}

// declined turns an error by which the vendor refuses to touch a prompt into the refusal
// that it is.
func declined(name string, err error) (model.Response, bool) {
	c, ok := complaint(err)
	if !ok {
		return model.Response{}, false
	}
	switch c.Code {
	case "content_filter", "content_policy_violation", "invalid_prompt", "bio_policy", "cyber_policy", "misalignment_policy_violation":
		return model.Response{Text: c.Message, Stop: model.StopRefusal, Model: name}, true
	}
	return model.Response{}, false
}
