package bedrockmodel

import (
	"context"
	"errors"
	"strings"

	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/errand-dev/errand/shared/model"
	"github.com/errand-dev/errand/shared/model/internal/adapt"
)

// complaint reads Bedrock's words, whether they came with a status or in the middle of a
// stream, and those of the SDK about a call that it never made.
func complaint(err error) (adapt.Complaint, bool) {
	c := adapt.Complaint{Vendor: vendor}
	response, answered := errors.AsType[*smithyhttp.ResponseError](err)
	if answered && response.Response != nil {
		c.Status, c.Header = response.HTTPStatusCode(), response.Response.Header
	}
	if said, ok := errors.AsType[smithy.APIError](err); ok {
		c.Code, c.Message = said.ErrorCode(), said.ErrorMessage()
		c.Kind = kindOf(c)
		return c, true
	}
	if answered && c.Status >= 400 {
		return c, true
	}
	if unsent(err) {
		c.Message, c.Kind = err.Error(), model.Invalid
		if strings.Contains(c.Message, "credentials") {
			c.Kind = model.Unauthorized
		}
		return c, true
	}
	return c, false
}

// kindOf classifies what says more than its status, or has none because it was told in the
// middle of a stream.
func kindOf(c adapt.Complaint) model.Kind {
	switch c.Code {
	case "ModelErrorException", "ModelNotReadyException":
		return model.Overloaded
	case "ModelStreamErrorException":
		return model.Broken
	case "ValidationException":
		if strings.Contains(c.Message, "model identifier is invalid") {
			return model.NotFound
		}
	}
	if c.Status >= 400 {
		return ""
	}
	switch c.Code {
	case "ThrottlingException":
		return model.RateLimited
	case "ServiceUnavailableException", "InternalServerException":
		return model.Overloaded
	case "ModelTimeoutException":
		return model.Timeout
	case "ValidationException":
		return model.Invalid
	}
	return model.Broken
}

// unsent reports whether the SDK gave up before it had a connection: its configuration or its
// credentials lack something.
func unsent(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return false
	}
	_, operation := errors.AsType[*smithy.OperationError](err)
	_, sent := errors.AsType[*smithyhttp.RequestSendError](err)
	_, answered := errors.AsType[*smithyhttp.ResponseError](err)
	return operation && !sent && !answered
}
