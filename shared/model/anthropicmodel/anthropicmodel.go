// Package anthropicmodel asks Anthropic's models through the Messages API, with the
// vendor's own SDK. New is where to start.
//
// Every call is streamed on the wire, also when nobody listens: Anthropic refuses long
// answers otherwise, and a connection that says nothing for minutes is cut by what stands
// between. The prefix of the prompt is cached: instructions and tools under one mark, the
// messages so far under another.
//
// Thinking is off unless Options.With switches it on. Signed thinking goes back with the
// next request in Response.Opaque.
//
// Anthropic documents no idempotency key, so none is sent: a call that is made again,
// because its process died or its connection broke, is billed again.
//
// Message batches are not offered as model.Background: a batch may take up to 24 hours, and
// a run that waits for an answer means minutes.
package anthropicmodel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"

	"github.com/errand-dev/errand/shared/model"
	"github.com/errand-dev/errand/shared/model/internal/adapt"
)

const vendor = "anthropic"

// Options says whom to ask, and how. Zero values mean the defaults given.
type Options struct {
	// APIKey is ANTHROPIC_API_KEY from the environment. That is not sent to a BaseURL set
	// here: a key for it must be given.
	APIKey string
	// BaseURL is ANTHROPIC_BASE_URL from the environment, or Anthropic's own.
	BaseURL string
	// Model is asked by requests that name none.
	Model string
	// MaxTokens bounds answers to requests that give no bound, thinking included: 16,384.
	MaxTokens int
	// Timeout bounds one call: ten minutes.
	Timeout    time.Duration
	HTTPClient *http.Client
	// With is applied to each request last. It reaches what the vendor has and Errand does not
	// know, like option.WithJSONSet("thinking", map[string]any{"type": "adaptive"}).
	With []option.RequestOption
}

const defaultMaxTokens = 16_384

// Model asks Anthropic. It implements model.Model.
type Model struct {
	messages anthropic.MessageService
	options  Options
}

// New fails if no key is set or the address is none.
func New(o Options) (*Model, error) {
	key := o.APIKey
	if key == "" && o.BaseURL == "" {
		if key = os.Getenv("ANTHROPIC_API_KEY"); key == "" {
			return nil, errors.New("anthropicmodel: no key: set ANTHROPIC_API_KEY in the environment, or Options.APIKey")
		}
	}
	opts := []option.RequestOption{option.WithEnvironmentProduction(), option.WithMaxRetries(0)}
	if base := cmp.Or(o.BaseURL, os.Getenv("ANTHROPIC_BASE_URL")); base != "" {
		if err := adapt.CheckURL(base); err != nil {
			return nil, fmt.Errorf("anthropicmodel: %w", err)
		}
		opts = append(opts, option.WithBaseURL(base))
	}
	if key != "" {
		opts = append(opts, option.WithAPIKey(key))
	}
	if o.HTTPClient != nil {
		opts = append(opts, option.WithHTTPClient(o.HTTPClient))
	}
	o.MaxTokens = cmp.Or(o.MaxTokens, defaultMaxTokens)
	return &Model{messages: anthropic.NewMessageService(append(opts, o.With...)...), options: o}, nil
}

// Generate implements model.Model. key is not used: see the package comment.
func (m *Model) Generate(ctx context.Context, key string, req model.Request, stream func(text string)) (model.Response, error) {
	params, err := m.params(req)
	if err != nil {
		return model.Response{}, err
	}
	call, cancel := adapt.Bound(ctx, m.options.Timeout)
	defer cancel()
	res, err := m.answer(call, params, stream)
	if err != nil {
		return model.Response{}, adapt.Failed(ctx, err, complaint)
	}
	return res, nil
}

// answer reads the stream to its last event.
func (m *Model) answer(ctx context.Context, params anthropic.MessageNewParams, stream func(text string)) (model.Response, error) {
	events := m.messages.NewStreaming(ctx, params)
	defer events.Close()
	var (
		message   anthropic.Message
		arguments = map[int64]string{} // by block; the SDK's copy drops malformed ones
		whole     bool
	)
	for events.Next() {
		event := events.Current()
		if err := message.Accumulate(event); err != nil {
			return model.Response{}, adapt.Cut(err.Error())
		}
		switch event.Type {
		case "content_block_delta":
			arguments[event.Index] += event.Delta.PartialJSON
			if text := event.Delta.Text; text != "" && stream != nil {
				stream(text)
			}
		case "message_stop":
			whole = true
		}
	}
	if err := events.Err(); err != nil {
		return model.Response{}, err
	}
	if !whole {
		return model.Response{}, adapt.Cut("anthropic's stream ended in the middle of its answer")
	}
	return response(string(params.Model), message, arguments), nil
}

func response(name string, message anthropic.Message, arguments map[int64]string) model.Response {
	a := adapt.NewAnswer(vendor, name)
	for i, block := range message.Content {
		switch block.Type {
		case "text":
			a.AddText(block.Text)
		case "tool_use":
			a.AddCall(model.Call{ID: block.ID, Name: block.Name, Arguments: []byte(cmp.Or(arguments[int64(i)], "{}"))})
		default:
			a.AddOwn([]byte(block.RawJSON()))
		}
	}
	stop := stopOf(message.StopReason)
	if why := message.StopDetails.Explanation; stop == model.StopRefusal && strings.TrimSpace(why) != "" && len(message.Content) == 0 {
		a.AddText(why)
	}
	return a.Response(message.Model, stop, model.Usage{
		Input: message.Usage.InputTokens, Output: message.Usage.OutputTokens,
		CacheRead: message.Usage.CacheReadInputTokens, CacheWrite: message.Usage.CacheCreationInputTokens,
	})
}

func stopOf(reason anthropic.StopReason) model.Stop {
	switch reason {
	case anthropic.StopReasonToolUse:
		return model.StopTools
	case anthropic.StopReasonMaxTokens, anthropic.StopReasonModelContextWindowExceeded:
		return model.StopMaxTokens
	case anthropic.StopReasonRefusal:
		return model.StopRefusal
	}
	return model.StopEnd
}
