// Package bedrockmodel asks the models of Amazon Bedrock through the Converse API, with the
// AWS SDK. New is where to start.
//
// A call that somebody listens to uses ConverseStream, which wants the permission
// bedrock:InvokeModelWithResponseStream next to bedrock:InvokeModel.
//
// Bedrock has no idempotency key for these calls: one that is made again, because its process
// died or its connection broke, is billed again. Prompt caching is left to the models
// that do it by themselves: a cache point is refused by those that do not know it.
package bedrockmodel

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime/types"

	"github.com/errand-dev/errand/shared/model"
	"github.com/errand-dev/errand/shared/model/internal/adapt"
)

const vendor = "bedrock"

// Options says whom to ask, and how. Zero values mean the defaults given.
type Options struct {
	// Client is bedrockruntime.NewFromConfig of the program's AWS configuration. Its retries are
	// switched off for these calls.
	Client *bedrockruntime.Client
	// Model is asked by requests that name none: the id or ARN of a model or an inference profile.
	Model string
	// MaxTokens bounds answers to requests that give no bound; zero leaves it to the model.
	MaxTokens int
	// Timeout bounds one call: ten minutes.
	Timeout time.Duration
	// EnforcesSchema: the models asked know Bedrock's structured output, which holds an answer to its
	// schema. Others refuse it and are given the schema in the instructions.
	EnforcesSchema bool
	// Fields are the models' own parameters (additionalModelRequestFields), like
	// {"thinking": {"type": "adaptive"}}.
	Fields map[string]any
}

// Model asks Bedrock. It implements model.Model.
type Model struct{ options Options }

// New fails without a client.
func New(o Options) (*Model, error) {
	if o.Client == nil {
		return nil, errors.New("bedrockmodel: no client: set Options.Client to bedrockruntime.NewFromConfig of an AWS configuration")
	}
	return &Model{o}, nil
}

// Generate implements model.Model. key is not used: see the package comment.
func (m *Model) Generate(ctx context.Context, key string, req model.Request, stream func(text string)) (model.Response, error) {
	in, err := m.input(req)
	if err != nil {
		return model.Response{}, err
	}
	call, cancel := adapt.Bound(ctx, m.options.Timeout)
	defer cancel()
	ask := m.converse
	if stream != nil {
		ask = m.listen
	}
	res, err := ask(call, in, stream)
	if err != nil {
		return model.Response{}, adapt.Failed(ctx, err, complaint)
	}
	return res, nil
}

func once(o *bedrockruntime.Options) { o.Retryer = aws.NopRetryer{} }

func (m *Model) converse(ctx context.Context, in *bedrockruntime.ConverseInput, _ func(string)) (model.Response, error) {
	out, err := m.options.Client.Converse(ctx, in, once)
	if err != nil {
		return model.Response{}, err
	}
	message, ok := out.Output.(*types.ConverseOutputMemberMessage)
	if !ok {
		return model.Response{}, adapt.Cut("bedrock sent an answer without a message")
	}
	d := draft{name: aws.ToString(in.ModelId), stop: out.StopReason, usage: out.Usage}
	for i, content := range message.Value.Content {
		b := d.block(int32(i))
		switch content := content.(type) {
		case *types.ContentBlockMemberText:
			b.text.WriteString(content.Value)
		case *types.ContentBlockMemberToolUse:
			raw, err := written(content.Value.Input)
			if err != nil {
				return model.Response{}, adapt.Cut(err.Error())
			}
			b.call = &model.Call{ID: aws.ToString(content.Value.ToolUseId), Name: aws.ToString(content.Value.Name)}
			b.arguments.Write(raw)
		case *types.ContentBlockMemberReasoningContent:
			b.reason(content.Value)
		}
	}
	return d.response()
}

// draft is an answer as far as it has come.
type draft struct {
	name   string
	blocks []*block
	stop   types.StopReason
	usage  *types.TokenUsage
}

// response is the whole, if it is one.
func (d *draft) response() (model.Response, error) {
	stop := model.StopEnd
	switch d.stop {
	case "":
		return model.Response{}, adapt.Cut("bedrock's stream ended in the middle of its answer")
	case types.StopReasonMalformedModelOutput, types.StopReasonMalformedToolUse:
		return model.Response{}, adapt.Cut("the model's answer was malformed: " + string(d.stop))
	case types.StopReasonToolUse:
		stop = model.StopTools
	case types.StopReasonMaxTokens, types.StopReasonModelContextWindowExceeded:
		stop = model.StopMaxTokens
	case types.StopReasonContentFiltered, types.StopReasonGuardrailIntervened, "refusal":
		stop = model.StopRefusal
	}
	a := adapt.NewAnswer(vendor, d.name)
	for _, b := range d.blocks {
		switch {
		case b.call != nil:
			b.call.Arguments = []byte(cmp.Or(b.arguments.String(), "{}"))
			a.AddCall(*b.call)
		case b.reasoning != nil:
			a.AddOwn(b.reasoning.raw())
		default:
			a.AddText(b.text.String())
		}
	}
	var usage model.Usage
	if u := d.usage; u != nil {
		usage = model.Usage{
			Input: count(u.InputTokens), Output: count(u.OutputTokens),
			CacheRead: count(u.CacheReadInputTokens), CacheWrite: count(u.CacheWriteInputTokens),
		}
	}
	return a.Response("", stop, usage), nil
}

func count(n *int32) int64 { return int64(aws.ToInt32(n)) }
