package openaimodel

import (
	"cmp"
	"context"

	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"

	"github.com/errand-dev/errand/shared/model"
	"github.com/errand-dev/errand/shared/model/internal/adapt"
)

// Model asks through the Responses API. It implements model.Background.
type Model struct {
	responses responses.ResponseService
	options   Options
}

// New fails if no key is set or the address is none.
func New(o Options) (*Model, error) {
	opts, err := o.client()
	if err != nil {
		return nil, err
	}
	return &Model{responses: responses.NewResponseService(opts...), options: o}, nil
}

// Generate implements model.Model.
func (m *Model) Generate(ctx context.Context, key string, req model.Request, stream func(text string)) (model.Response, error) {
	params, err := m.params(req)
	if err != nil {
		return model.Response{}, err
	}
	call, cancel := adapt.Bound(ctx, m.options.Timeout)
	defer cancel()
	res, err := m.ask(call, params, stream, idempotent(key))
	if err == nil {
		return res, nil
	}
	if res, ok := declined(params.Model, err); ok && ctx.Err() == nil {
		return res, nil
	}
	return model.Response{}, adapt.Failed(ctx, err, complaint)
}

func (m *Model) ask(ctx context.Context, params responses.ResponseNewParams, stream func(text string), opts ...option.RequestOption) (model.Response, error) {
	if stream != nil {
		return m.listen(ctx, params, stream, opts...)
	}
	res, err := m.responses.New(ctx, params, opts...)
	if err != nil {
		return model.Response{}, err
	}
	return answer(params.Model, res)
}

// listen reads the stream to its last event, which carries the whole answer.
func (m *Model) listen(ctx context.Context, params responses.ResponseNewParams, stream func(text string), opts ...option.RequestOption) (model.Response, error) {
	events := m.responses.NewStreaming(ctx, params, opts...)
	defer events.Close()
	for events.Next() {
		switch event := events.Current(); event.Type {
		case "response.output_text.delta", "response.refusal.delta":
			stream(event.Delta)
		case "response.completed", "response.incomplete", "response.failed":
			return answer(params.Model, &event.Response)
		case "error":
			return model.Response{}, adapt.Complaint{Vendor: vendor, Code: event.Code, Message: event.Message, Kind: kindOf(event.Code)}
		}
	}
	if err := events.Err(); err != nil {
		return model.Response{}, err
	}
	return model.Response{}, adapt.Cut("openai's stream ended in the middle of its answer")
}

// answer reads a response that has ended. name is what its model was asked by.
func answer(name string, res *responses.Response) (model.Response, error) {
	switch res.Status {
	case responses.ResponseStatusFailed:
		return model.Response{}, failedAnswer(res.Error)
	case responses.ResponseStatusCancelled:
		return model.Response{}, adapt.Invalid("the answer was cancelled at openai")
	case responses.ResponseStatusQueued, responses.ResponseStatusInProgress:
		return model.Response{}, adapt.Cut("openai sent an answer that is not ready")
	}
	a, stop := adapt.NewAnswer(vendor, name), model.StopEnd
	for _, item := range res.Output {
		switch item.Type {
		case "message":
			for _, part := range item.Content {
				a.AddMarked(cmp.Or(part.Text, part.Refusal), string(item.Phase))
				if part.Type == "refusal" {
					stop = model.StopRefusal
				}
			}
		case "function_call":
			call := item.AsFunctionCall()
			a.AddCall(model.Call{ID: call.CallID, Name: call.Name, Arguments: []byte(cmp.Or(call.Arguments, "{}"))})
		default:
			// Nothing is stored there, so what is not encrypted cannot go back.
			if item.EncryptedContent != "" {
				a.AddOwn([]byte(item.RawJSON()))
			}
		}
	}
	if res.Status == responses.ResponseStatusIncomplete {
		stop = model.StopMaxTokens
		if res.IncompleteDetails.Reason == "content_filter" {
			stop = model.StopRefusal
		}
	}
	cached, written := res.Usage.InputTokensDetails.CachedTokens, res.Usage.InputTokensDetails.CacheWriteTokens
	return a.Response(res.Model, stop, model.Usage{
		Input:  max(res.Usage.InputTokens-cached-written, 0), // theirs counts all
		Output: res.Usage.OutputTokens, CacheRead: cached, CacheWrite: written,
	}), nil
}
