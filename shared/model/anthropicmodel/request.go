package anthropicmodel

import (
	"cmp"
	"encoding/json"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/packages/param"

	"github.com/errand-dev/errand/shared/model"
	"github.com/errand-dev/errand/shared/model/internal/adapt"
)

// params is the request in Anthropic's terms.
func (m *Model) params(req model.Request) (anthropic.MessageNewParams, error) {
	name, err := adapt.ModelName(req, m.options.Model)
	if err != nil {
		return anthropic.MessageNewParams{}, err
	}
	params := anthropic.MessageNewParams{
		Model: anthropic.Model(name), MaxTokens: int64(cmp.Or(req.MaxTokens, m.options.MaxTokens)),
	}
	system := req.System
	if adapt.Strict(req.Schema) {
		params.OutputConfig.Format.Schema, err = adapt.Fields("the schema of the answer", req.Schema)
	} else {
		system = adapt.Instruct(system, req.Schema)
	}
	if err != nil {
		return params, err
	}
	if system != "" {
		params.System = []anthropic.TextBlockParam{{Text: system}}
	}
	for _, t := range req.Tools {
		if !json.Valid(t.Schema) {
			return params, adapt.Invalid("the schema of tool " + t.Name + " is no JSON")
		}
		tool := anthropic.ToolParam{Name: t.Name, InputSchema: param.Override[anthropic.ToolInputSchemaParam](t.Schema)}
		if t.Description != "" {
			tool.Description = anthropic.String(t.Description)
		}
		params.Tools = append(params.Tools, anthropic.ToolUnionParam{OfTool: &tool})
	}
	for _, message := range req.Messages {
		blocks, err := content(name, message)
		if err != nil {
			return params, err
		}
		params.Messages = append(params.Messages, anthropic.MessageParam{
			Role: anthropic.MessageParamRole(message.Role), Content: blocks,
		})
	}
	markCached(&params)
	return params, nil
}

// content is what a message says. Results stand first, as the API wants them.
func content(name string, m model.Message) ([]anthropic.ContentBlockParamUnion, error) {
	var blocks []anthropic.ContentBlockParamUnion
	for _, r := range m.Results {
		blocks = append(blocks, anthropic.NewToolResultBlock(r.CallID, adapt.Output(r.Text), r.Failed))
	}
	for _, p := range adapt.Pieces(vendor, name, m) {
		switch {
		case p.Call != nil:
			blocks = append(blocks, anthropic.NewToolUseBlock(p.Call.ID, adapt.Object(p.Call.Arguments), p.Call.Name))
		case p.Own != nil:
			var own anthropic.ContentBlockUnion
			if err := json.Unmarshal(p.Own, &own); err != nil {
				return nil, adapt.Invalid("the opaque part of an earlier answer cannot be read: " + err.Error())
			}
			blocks = append(blocks, own.ToParam())
		case !adapt.Blank(p.Text):
			blocks = append(blocks, anthropic.NewTextBlock(p.Text))
		}
	}
	if blocks == nil {
		blocks = append(blocks, anthropic.NewTextBlock("(no words)"))
	}
	return blocks, nil
}

// markCached asks to cache what the next call of a run begins with as well: tools and
// instructions, and the messages so far. The prompt begins with the tools, so a mark on
// the instructions covers both.
func markCached(params *anthropic.MessageNewParams) {
	mark := anthropic.NewCacheControlEphemeralParam()
	if n := len(params.System); n > 0 {
		params.System[n-1].CacheControl = mark
	} else if n := len(params.Tools); n > 0 {
		params.Tools[n-1].OfTool.CacheControl = mark
	}
	n := len(params.Messages)
	if n == 0 {
		return
	}
	blocks := params.Messages[n-1].Content
	switch last := blocks[len(blocks)-1]; {
	case last.OfText != nil:
		last.OfText.CacheControl = mark
	case last.OfToolResult != nil:
		last.OfToolResult.CacheControl = mark
	}
}
