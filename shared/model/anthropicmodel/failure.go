package anthropicmodel

import (
	"encoding/json"
	"errors"

	"github.com/anthropics/anthropic-sdk-go"

	"github.com/errand-dev/errand/shared/model"
	"github.com/errand-dev/errand/shared/model/internal/adapt"
)

// refusal reads Anthropic's words, whether they came with a status or in the middle of a
// stream.
func refusal(err error) (adapt.Refusal, bool) {
	said, ok := errors.AsType[*anthropic.Error](err)
	if !ok {
		return adapt.Refusal{}, false
	}
	var body struct {
		Error struct{ Type, Message string }
	}
	_ = json.Unmarshal([]byte(said.RawJSON()), &body) // a proxy may answer with anything
	r := adapt.Refusal{
		Vendor: vendor, Status: said.StatusCode, Code: body.Error.Type, Message: body.Error.Message,
		Kind: kindOf(anthropic.ErrorType(body.Error.Type)),
	}
	if said.Response != nil {
		r.Header = said.Response.Header
	}
	return r, true
}

// kindOf classifies Anthropic's error types; others go by their status.
func kindOf(t anthropic.ErrorType) model.Kind {
	switch t {
	case anthropic.ErrorTypeInvalidRequestError, anthropic.ErrorTypeBillingError:
		return model.Invalid
	case "request_too_large":
		return model.TooLong
	case anthropic.ErrorTypeAuthenticationError, anthropic.ErrorTypePermissionError:
		return model.Unauthorized
	case anthropic.ErrorTypeNotFoundError:
		return model.NotFound
	case anthropic.ErrorTypeRateLimitError:
		return model.RateLimited
	case anthropic.ErrorTypeTimeoutError:
		return model.Timeout
	case anthropic.ErrorTypeOverloadedError, anthropic.ErrorTypeAPIError:
		return model.Overloaded
	}
	return ""
}
