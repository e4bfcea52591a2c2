package openaimodel

import (
	"cmp"
	"strings"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"

	"github.com/errand-dev/errand/shared/model"
	"github.com/errand-dev/errand/shared/model/internal/adapt"
)

// params is the request in the terms of the Responses API.
func (m *Model) params(req model.Request) (responses.ResponseNewParams, error) {
	name, err := adapt.ModelName(req, m.options.Model)
	if err != nil {
		return responses.ResponseNewParams{}, err
	}
	params := responses.ResponseNewParams{Model: name, Store: openai.Bool(false)}
	if reasons(name) {
		params.Include = []responses.ResponseIncludable{responses.ResponseIncludableReasoningEncryptedContent}
	}
	if n := cmp.Or(req.MaxTokens, m.options.MaxTokens); n > 0 {
		params.MaxOutputTokens = openai.Int(int64(n))
	}
	system := req.System
	if adapt.Strict(req.Schema) {
		schema, err := adapt.Fields("the schema of the answer", req.Schema)
		if err != nil {
			return params, err
		}
		params.Text.Format.OfJSONSchema = &responses.ResponseFormatTextJSONSchemaConfigParam{Name: "answer", Schema: schema, Strict: openai.Bool(true)}
	} else {
		system = adapt.Instruct(system, req.Schema)
	}
	if system != "" {
		params.Instructions = openai.String(system)
	}
	for _, t := range req.Tools {
		schema, err := adapt.Fields("the schema of tool "+t.Name, t.Schema)
		if err != nil {
			return params, err
		}
		params.Tools = append(params.Tools, responses.ToolUnionParam{OfFunction: &responses.FunctionToolParam{
			Name: t.Name, Description: described(t.Description), Parameters: schema, Strict: openai.Bool(adapt.Strict(t.Schema)),
		}})
	}
	for _, message := range req.Messages {
		params.Input.OfInputItemList = append(params.Input.OfInputItemList, items(name, message)...)
	}
	return params, nil
}

// items is what a message says, item by item.
func items(name string, m model.Message) []responses.ResponseInputItemUnionParam {
	var items []responses.ResponseInputItemUnionParam
	for _, r := range m.Results {
		items = append(items, responses.ResponseInputItemUnionParam{OfFunctionCallOutput: &responses.ResponseInputItemFunctionCallOutputParam{
			CallID: openai.String(r.CallID),
			Output: responses.ResponseInputItemFunctionCallOutputOutputUnionParam{OfString: openai.String(output(r.Text, r.Failed))},
		}})
	}
	for _, p := range adapt.Pieces(vendor, name, m) {
		switch {
		case p.Call != nil:
			items = append(items, responses.ResponseInputItemParamOfFunctionCall(cmp.Or(string(p.Call.Arguments), "{}"), p.Call.ID, p.Call.Name))
		case p.Own != nil:
			items = append(items, param.Override[responses.ResponseInputItemUnionParam](p.Own))
		default:
			items = append(items, responses.ResponseInputItemUnionParam{OfMessage: &responses.EasyInputMessageParam{
				Type: responses.EasyInputMessageTypeMessage, Role: responses.EasyInputMessageRole(m.Role),
				Content: responses.EasyInputMessageContentUnionParam{OfString: openai.String(p.Text)},
				Phase:   responses.EasyInputMessagePhase(p.Mark),
			}})
		}
	}
	return items
}

func described(text string) param.Opt[string] {
	if text == "" {
		return param.Opt[string]{}
	}
	return openai.String(text)
}

// reasons reports whether the model reasons. OpenAI refuses to encrypt the reasoning of
// one that does not. Names that we do not know are taken for those of newer models, which do.
func reasons(name string) bool {
	name = strings.TrimPrefix(name, "ft:")
	for _, plain := range []string{"gpt-3", "gpt-4", "chatgpt", "gpt-5-chat"} {
		if strings.HasPrefix(name, plain) {
			return false
		}
	}
	return true
}
