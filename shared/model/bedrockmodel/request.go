package bedrockmodel

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime/document"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime/types"
	smithydocument "github.com/aws/smithy-go/document"

	"github.com/errand-dev/errand/shared/model"
	"github.com/errand-dev/errand/shared/model/internal/adapt"
)

// input is the request in Bedrock's terms.
func (m *Model) input(req model.Request) (*bedrockruntime.ConverseInput, error) {
	name, err := adapt.ModelName(req, m.options.Model)
	if err != nil {
		return nil, err
	}
	in := &bedrockruntime.ConverseInput{ModelId: aws.String(name)}
	if n := cmp.Or(req.MaxTokens, m.options.MaxTokens); n > 0 {
		in.InferenceConfig = &types.InferenceConfiguration{MaxTokens: aws.Int32(int32(n))}
	}
	if m.options.Fields != nil {
		in.AdditionalModelRequestFields = document.NewLazyDocument(m.options.Fields)
	}
	system := req.System
	if m.options.EnforcesSchema && adapt.Strict(req.Schema) {
		in.OutputConfig = &types.OutputConfig{TextFormat: &types.OutputFormat{
			Type: types.OutputFormatTypeJsonSchema,
			Structure: &types.OutputFormatStructureMemberJsonSchema{Value: types.JsonSchemaDefinition{
				Name: aws.String("answer"), Schema: aws.String(string(req.Schema)),
			}},
		}}
	} else {
		system = adapt.Instruct(system, req.Schema)
	}
	if system != "" {
		in.System = []types.SystemContentBlock{&types.SystemContentBlockMemberText{Value: system}}
	}
	if in.ToolConfig, err = tools(req.Tools); err != nil {
		return nil, err
	}
	for _, message := range req.Messages {
		blocks, err := content(name, message)
		if err != nil {
			return nil, err
		}
		in.Messages = append(in.Messages, types.Message{Role: types.ConversationRole(message.Role), Content: blocks})
	}
	return in, nil
}

// tools is nil without any: Bedrock refuses an empty list.
func tools(offered []model.Tool) (*types.ToolConfiguration, error) {
	if len(offered) == 0 {
		return nil, nil
	}
	config := &types.ToolConfiguration{}
	for _, t := range offered {
		schema, err := doc(t.Schema)
		if err != nil {
			return nil, adapt.Invalid("the schema of tool " + t.Name + ": " + err.Error())
		}
		spec := types.ToolSpecification{Name: aws.String(t.Name), InputSchema: &types.ToolInputSchemaMemberJson{Value: schema}}
		if t.Description != "" {
			spec.Description = aws.String(t.Description)
		}
		config.Tools = append(config.Tools, &types.ToolMemberToolSpec{Value: spec})
	}
	return config, nil
}

// content is what a message says. Results stand first, as the API wants them.
func content(name string, m model.Message) ([]types.ContentBlock, error) {
	var blocks []types.ContentBlock
	for _, r := range m.Results {
		status := types.ToolResultStatusSuccess
		if r.Failed {
			status = types.ToolResultStatusError
		}
		blocks = append(blocks, &types.ContentBlockMemberToolResult{Value: types.ToolResultBlock{
			ToolUseId: aws.String(r.CallID), Status: status,
			Content: []types.ToolResultContentBlock{&types.ToolResultContentBlockMemberText{Value: adapt.Output(r.Text)}},
		}})
	}
	for _, p := range adapt.Pieces(vendor, name, m) {
		switch {
		case p.Call != nil:
			arguments, err := doc(adapt.Object(p.Call.Arguments))
			if err != nil {
				return nil, adapt.Invalid(err.Error())
			}
			blocks = append(blocks, &types.ContentBlockMemberToolUse{Value: types.ToolUseBlock{
				ToolUseId: aws.String(p.Call.ID), Name: aws.String(p.Call.Name), Input: arguments,
			}})
		case p.Own != nil:
			var r reasoning
			if err := json.Unmarshal(p.Own, &r); err != nil {
				return nil, adapt.Invalid("the opaque part of an earlier answer cannot be read: " + err.Error())
			}
			blocks = append(blocks, r.content())
		case !adapt.Blank(p.Text):
			blocks = append(blocks, &types.ContentBlockMemberText{Value: p.Text})
		}
	}
	if blocks == nil {
		blocks = append(blocks, &types.ContentBlockMemberText{Value: "(no words)"})
	}
	return blocks, nil
}

// doc makes the SDK's document of JSON. Numbers stay as they are written.
func doc(raw json.RawMessage) (document.Interface, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var value any
	if err := d.Decode(&value); err != nil {
		return nil, fmt.Errorf("it is no JSON: %w", err)
	}
	return document.NewLazyDocument(numbered(value)), nil
}

// numbered turns JSON's numbers into the SDK's, in place.
func numbered(value any) any {
	switch value := value.(type) {
	case json.Number:
		return smithydocument.Number(value)
	case []any:
		for i := range value {
			value[i] = numbered(value[i])
		}
	case map[string]any:
		for name := range value {
			value[name] = numbered(value[name])
		}
	}
	return value
}

// written is a document as JSON.
func written(d document.Interface) (json.RawMessage, error) {
	if d == nil {
		return nil, nil
	}
	raw, err := d.MarshalSmithyDocument()
	if err != nil {
		return nil, fmt.Errorf("reading the arguments of a call: %w", err)
	}
	return raw, nil
}
