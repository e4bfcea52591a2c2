package bedrockmodel

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime/types"

	"github.com/errand-dev/errand/shared/model"
)

// listen reads the stream to the end.
func (m *Model) listen(ctx context.Context, in *bedrockruntime.ConverseInput, stream func(text string)) (model.Response, error) {
	out, err := m.options.Client.ConverseStream(ctx, &bedrockruntime.ConverseStreamInput{
		ModelId: in.ModelId, Messages: in.Messages, System: in.System, ToolConfig: in.ToolConfig,
		InferenceConfig: in.InferenceConfig, OutputConfig: in.OutputConfig, AdditionalModelRequestFields: in.AdditionalModelRequestFields,
	}, once)
	if err != nil {
		return model.Response{}, err
	}
	events := out.GetStream()
	defer events.Close()
	d := draft{name: aws.ToString(in.ModelId)}
	for event := range events.Events() {
		if text := d.add(event); text != "" {
			stream(text)
		}
	}
	if ctx.Err() != nil { // the SDK may say instead that the connection is closed
		return model.Response{}, ctx.Err()
	}
	if err := events.Err(); err != nil {
		return model.Response{}, err
	}
	return d.response()
}

// add takes an event and returns its words.
func (d *draft) add(event types.ConverseStreamOutput) (words string) {
	switch event := event.(type) {
	case *types.ConverseStreamOutputMemberContentBlockStart:
		if use, ok := event.Value.Start.(*types.ContentBlockStartMemberToolUse); ok {
			d.block(aws.ToInt32(event.Value.ContentBlockIndex)).call = &model.Call{ID: aws.ToString(use.Value.ToolUseId), Name: aws.ToString(use.Value.Name)}
		}
	case *types.ConverseStreamOutputMemberContentBlockDelta:
		b := d.block(aws.ToInt32(event.Value.ContentBlockIndex))
		switch delta := event.Value.Delta.(type) {
		case *types.ContentBlockDeltaMemberText:
			b.text.WriteString(delta.Value)
			return delta.Value
		case *types.ContentBlockDeltaMemberToolUse:
			b.arguments.WriteString(aws.ToString(delta.Value.Input))
		case *types.ContentBlockDeltaMemberReasoningContent:
			b.reasonOn(delta.Value)
		}
	case *types.ConverseStreamOutputMemberMessageStop:
		d.stop = event.Value.StopReason
	case *types.ConverseStreamOutputMemberMetadata:
		d.usage = event.Value.Usage
	}
	return ""
}

// block is one piece of an answer: words, a call or reasoning.
type block struct {
	index     int32
	text      strings.Builder
	call      *model.Call
	arguments strings.Builder
	reasoning *reasoning
}

// block finds or begins a block. Only those of calls have a start event.
func (d *draft) block(index int32) *block {
	for _, b := range d.blocks {
		if b.index == index {
			return b
		}
	}
	b := &block{index: index}
	d.blocks = append(d.blocks, b)
	return b
}

// reasoning goes back to the model as it came.
type reasoning struct {
	Text      string `json:"text,omitempty"`
	Signature string `json:"signature,omitempty"`
	Redacted  []byte `json:"redacted,omitempty"`
}

func (r *reasoning) raw() json.RawMessage {
	raw, _ := json.Marshal(r) // strings and bytes always encode
	return raw
}

func (b *block) reason(content types.ReasoningContentBlock) {
	switch content := content.(type) {
	case *types.ReasoningContentBlockMemberReasoningText:
		b.reasoning = &reasoning{Text: aws.ToString(content.Value.Text), Signature: aws.ToString(content.Value.Signature)}
	case *types.ReasoningContentBlockMemberRedactedContent:
		b.reasoning = &reasoning{Redacted: content.Value}
	}
}

func (b *block) reasonOn(delta types.ReasoningContentBlockDelta) {
	if b.reasoning == nil {
		b.reasoning = &reasoning{}
	}
	switch delta := delta.(type) {
	case *types.ReasoningContentBlockDeltaMemberText:
		b.reasoning.Text += delta.Value
	case *types.ReasoningContentBlockDeltaMemberSignature:
		b.reasoning.Signature += delta.Value
	case *types.ReasoningContentBlockDeltaMemberRedactedContent:
		b.reasoning.Redacted = append(b.reasoning.Redacted, delta.Value...)
	}
}

// content is the block that goes back.
func (r *reasoning) content() types.ContentBlock {
	if r.Redacted != nil {
		return &types.ContentBlockMemberReasoningContent{Value: &types.ReasoningContentBlockMemberRedactedContent{Value: r.Redacted}}
	}
	text := types.ReasoningTextBlock{Text: aws.String(r.Text)}
	if r.Signature != "" {
		text.Signature = aws.String(r.Signature)
	}
	return &types.ContentBlockMemberReasoningContent{Value: &types.ReasoningContentBlockMemberReasoningText{Value: text}}
}
