package openaimodel

import (
	"cmp"
	"context"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/shared"

	"github.com/errand-dev/errand/shared/model"
	"github.com/errand-dev/errand/shared/model/internal/adapt"
)

// Chat asks through chat completions. It implements model.Model.
type Chat struct {
	completions openai.ChatCompletionService
	options     Options
}

// NewChat fails if no key is set or the address is none.
func NewChat(o Options) (*Chat, error) {
	opts, err := o.client()
	if err != nil {
		return nil, err
	}
	return &Chat{completions: openai.NewChatCompletionService(opts...), options: o}, nil
}

// Generate implements model.Model.
func (c *Chat) Generate(ctx context.Context, key string, req model.Request, stream func(text string)) (model.Response, error) {
	params, err := c.params(req)
	if err != nil {
		return model.Response{}, err
	}
	call, cancel := adapt.Bound(ctx, c.options.Timeout)
	defer cancel()
	res, err := c.ask(call, params, stream, idempotent(key))
	if err == nil {
		return res, nil
	}
	if res, ok := declined(params.Model, err); ok && ctx.Err() == nil {
		return res, nil
	}
	return model.Response{}, adapt.Failed(ctx, err, complaint)
}

func (c *Chat) ask(ctx context.Context, params openai.ChatCompletionNewParams, stream func(text string), opts ...option.RequestOption) (model.Response, error) {
	if stream != nil {
		return c.listen(ctx, params, stream, opts...)
	}
	res, err := c.completions.New(ctx, params, opts...)
	if err != nil {
		return model.Response{}, err
	}
	if len(res.Choices) == 0 {
		return model.Response{}, adapt.Cut("the server sent a completion without a choice")
	}
	choice := res.Choices[0]
	d := draft{name: params.Model, model: res.Model, finish: choice.FinishReason, usage: res.Usage}
	d.text.WriteString(choice.Message.Content)
	d.refusal.WriteString(choice.Message.Refusal)
	for i, call := range choice.Message.ToolCalls {
		c := &callDraft{index: int64(i), id: call.ID, name: call.Function.Name}
		c.arguments.WriteString(call.Function.Arguments)
		d.calls = append(d.calls, c)
	}
	return d.response(), nil
}

// params is the request in the terms of chat completions.
func (c *Chat) params(req model.Request) (openai.ChatCompletionNewParams, error) {
	name, err := adapt.ModelName(req, c.options.Model)
	if err != nil {
		return openai.ChatCompletionNewParams{}, err
	}
	params := openai.ChatCompletionNewParams{Model: name}
	if n := cmp.Or(req.MaxTokens, c.options.MaxTokens); n > 0 {
		// OpenAI refuses the old name for models that reason; Ollama knows no other.
		if c.options.vendorsOwn() {
			params.MaxCompletionTokens = openai.Int(int64(n))
		} else {
			params.MaxTokens = openai.Int(int64(n))
		}
	}
	system := req.System
	// Ollama and llama.cpp hold every answer to the schema, so that none can be a call.
	if len(req.Tools) == 0 && adapt.Strict(req.Schema) {
		params.ResponseFormat.OfJSONSchema = &shared.ResponseFormatJSONSchemaParam{JSONSchema: shared.ResponseFormatJSONSchemaJSONSchemaParam{
			Name: "answer", Schema: req.Schema, Strict: openai.Bool(true),
		}}
	} else {
		system = adapt.Instruct(system, req.Schema)
	}
	if system != "" {
		params.Messages = append(params.Messages, openai.SystemMessage(system))
	}
	for _, t := range req.Tools {
		schema, err := adapt.Fields("the schema of tool "+t.Name, t.Schema)
		if err != nil {
			return params, err
		}
		params.Tools = append(params.Tools, openai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{
			Name: t.Name, Description: described(t.Description), Parameters: schema,
		}))
	}
	for _, message := range req.Messages {
		params.Messages = append(params.Messages, chatMessages(message)...)
	}
	return params, nil
}

// chatMessages is what a message says: each result is a message of its own here.
func chatMessages(m model.Message) []openai.ChatCompletionMessageParamUnion {
	if m.Role == model.Assistant {
		said := openai.ChatCompletionAssistantMessageParam{}
		if m.Text != "" {
			said.Content.OfString = openai.String(m.Text)
		}
		for _, call := range m.Calls {
			said.ToolCalls = append(said.ToolCalls, openai.ChatCompletionMessageToolCallUnionParam{OfFunction: &openai.ChatCompletionMessageFunctionToolCallParam{
				ID:       call.ID,
				Function: openai.ChatCompletionMessageFunctionToolCallFunctionParam{Name: call.Name, Arguments: cmp.Or(string(call.Arguments), "{}")},
			}})
		}
		return []openai.ChatCompletionMessageParamUnion{{OfAssistant: &said}}
	}
	var messages []openai.ChatCompletionMessageParamUnion
	for _, r := range m.Results {
		messages = append(messages, openai.ToolMessage(output(r.Text, r.Failed), r.CallID))
	}
	if m.Text != "" {
		messages = append(messages, openai.UserMessage(m.Text))
	}
	return messages
}
