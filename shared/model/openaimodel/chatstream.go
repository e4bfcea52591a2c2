package openaimodel

import (
	"cmp"
	"context"
	"strings"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/errand-dev/errand/shared/model"
	"github.com/errand-dev/errand/shared/model/internal/adapt"
)

// draft is a completion as far as it has come.
type draft struct {
	name, model   string
	text, refusal strings.Builder
	calls         []*callDraft
	finish        string
	usage         openai.CompletionUsage
}

type callDraft struct {
	index     int64
	id, name  string
	arguments strings.Builder
}

// listen reads the stream to the end. The SDK's accumulator is not used: it refuses
// chunks whose id changes, as some servers' do.
func (c *Chat) listen(ctx context.Context, params openai.ChatCompletionNewParams, stream func(text string), opts ...option.RequestOption) (model.Response, error) {
	params.StreamOptions.IncludeUsage = openai.Bool(true)
	chunks := c.completions.NewStreaming(ctx, params, opts...)
	defer chunks.Close()
	d := draft{name: params.Model}
	for chunks.Next() {
		if text := d.add(chunks.Current()); text != "" {
			stream(text)
		}
	}
	if err := chunks.Err(); err != nil {
		return model.Response{}, err
	}
	if d.finish == "" {
		return model.Response{}, adapt.Cut("the server's stream ended in the middle of its answer")
	}
	return d.response(), nil
}

// add takes a chunk and returns its words. The chunk with the usage has no choice.
func (d *draft) add(chunk openai.ChatCompletionChunk) (words string) {
	d.model = cmp.Or(chunk.Model, d.model)
	if chunk.Usage.TotalTokens > 0 {
		d.usage = chunk.Usage
	}
	for _, choice := range chunk.Choices {
		d.finish = cmp.Or(choice.FinishReason, d.finish)
		d.text.WriteString(choice.Delta.Content)
		d.refusal.WriteString(choice.Delta.Refusal)
		words += choice.Delta.Content + choice.Delta.Refusal
		for _, delta := range choice.Delta.ToolCalls {
			call := d.call(delta.Index, delta.ID)
			call.name = cmp.Or(call.name, delta.Function.Name)
			call.arguments.WriteString(delta.Function.Arguments)
		}
	}
	return words
}

// call finds the call that a delta continues. Servers that number every call zero tell
// them apart by their ids.
func (d *draft) call(index int64, id string) *callDraft {
	for i := len(d.calls) - 1; i >= 0; i-- {
		if c := d.calls[i]; c.index == index && (id == "" || c.id == id) {
			return c
		}
	}
	c := &callDraft{index: index, id: id}
	d.calls = append(d.calls, c)
	return c
}

func (d *draft) response() model.Response {
	a := adapt.NewAnswer(vendor, d.name)
	a.AddText(d.text.String())
	a.AddText(d.refusal.String())
	for _, c := range d.calls {
		a.AddCall(model.Call{ID: c.id, Name: c.name, Arguments: []byte(cmp.Or(c.arguments.String(), "{}"))})
	}
	stop := model.StopEnd
	switch {
	case d.refusal.Len() > 0 || d.finish == "content_filter":
		stop = model.StopRefusal
	case d.finish == "length":
		stop = model.StopMaxTokens
	}
	cached, written := d.usage.PromptTokensDetails.CachedTokens, d.usage.PromptTokensDetails.CacheWriteTokens
	return a.Response(d.model, stop, model.Usage{
		Input:  max(d.usage.PromptTokens-cached-written, 0), // theirs counts all
		Output: d.usage.CompletionTokens, CacheRead: cached, CacheWrite: written,
	})
}
