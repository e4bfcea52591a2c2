package anthropicmodel

import (
	"encoding/json"
	"errors"

	"github.com/anthropics/anthropic-sdk-go"

	"github.com/errand-dev/errand/shared/model"
	"github.com/errand-dev/errand/shared/model/internal/adapt"
)

// complaint reads Anthropic's words, whether they came with a status or in the middle of a
// stream.
func complaint(err error) (adapt.Complaint, bool) {
	said, ok := errors.AsType[*anthropic.Error](err)
	if !ok {
		return adapt.Complaint{}, false
	}
	var body struct {
		Error struct{ Type, Message string }
	}
	_ = json.Unmarshal([]byte(said.RawJSON()), &body) // a proxy may answer with anything
	c := adapt.Complaint{
		Vendor: vendor, Status: said.StatusCode, Code: body.Error.Type, Message: body.Error.Message,
	}
	if said.StatusCode < 400 { // in the middle of a stream
		c.Kind = kindOf(anthropic.ErrorType(body.Error.Type))
	}
	if said.Response != nil {
		c.Header = said.Response.Header
	}
	return c, true
}

// kindOf classifies Anthropic's error types.
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
