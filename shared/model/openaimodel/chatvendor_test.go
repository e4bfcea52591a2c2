package openaimodel_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/errand-dev/errand/shared/model"
	"github.com/errand-dev/errand/shared/model/modeltest"
	"github.com/errand-dev/errand/shared/model/openaimodel"
)

// Chat completions, as OpenAI documents them and others imitate them.

func TestChatCompletions(t *testing.T) {
	modeltest.Run(t, modeltest.Vendor{
		New: func(t *testing.T, url string, timeout time.Duration) model.Model {
			return chat(t, openaimodel.Options{APIKey: "sk-test", BaseURL: url + "/v1", Model: "m-1", Timeout: timeout})
		},
		Answer: chatAnswer, Refuse: refuse, Read: readChat, ForgetsFailed: true,
	})
}

func chat(t *testing.T, o openaimodel.Options) *openaimodel.Chat {
	t.Helper()
	m, err := openaimodel.NewChat(o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func chatFinish(stop model.Stop) string {
	return map[model.Stop]string{model.StopEnd: "stop", model.StopTools: "tool_calls", model.StopMaxTokens: "length", model.StopRefusal: "stop"}[stop]
}

func chatUsage(u model.Usage) j {
	prompt := u.Input + u.CacheRead + u.CacheWrite
	return j{"prompt_tokens": prompt, "completion_tokens": u.Output, "total_tokens": prompt + u.Output,
		"prompt_tokens_details": j{"cached_tokens": u.CacheRead, "cache_write_tokens": u.CacheWrite}}
}

// said is the field that carries the words.
func said(stop model.Stop) string {
	if stop == model.StopRefusal {
		return "refusal"
	}
	return "content"
}

func chatAnswer(w http.ResponseWriter, r modeltest.Request, a modeltest.Answer) {
	if streamed(r) {
		streamChat(w, r, a)
		return
	}
	message := j{"role": "assistant", "content": nil, "refusal": nil}
	var text string
	for _, piece := range a.Text {
		text += piece
	}
	message[said(a.Stop)] = text
	var calls []any
	for _, c := range a.Calls {
		calls = append(calls, j{"id": c.ID, "type": "function", "function": j{"name": c.Name, "arguments": string(c.Arguments)}})
	}
	if calls != nil {
		message["tool_calls"] = calls
	}
	modeltest.SendJSON(w, http.StatusOK, j{"id": "chatcmpl-1", "object": "chat.completion", "created": 1764500000, "model": a.Model,
		"choices": []any{j{"index": 0, "message": message, "logprobs": nil, "finish_reason": chatFinish(a.Stop)}}, "usage": chatUsage(a.Usage)})
}

func streamChat(w http.ResponseWriter, r modeltest.Request, a modeltest.Answer) {
	events := modeltest.SendEvents(w)
	chunk := func(delta j, finish any) {
		events.Send("", j{"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1764500000, "model": a.Model,
			"choices": []any{j{"index": 0, "delta": delta, "logprobs": nil, "finish_reason": finish}}, "usage": nil})
	}
	chunk(j{"role": "assistant", "content": ""}, nil)
	for _, piece := range a.Text {
		chunk(j{said(a.Stop): piece}, nil)
	}
	switch a.Cut {
	case modeltest.Torn:
		modeltest.Tear(w)
	case modeltest.Stalled:
		modeltest.Stall(w, r)
		return
	case modeltest.Short:
		return
	case modeltest.Overloaded:
		events.Send("", j{"error": j{"message": "Overloaded", "type": "server_error", "param": nil, "code": nil}})
		return
	}
	for i, c := range a.Calls {
		half := len(c.Arguments) / 2
		function := func(f j) j { return j{"tool_calls": []any{f}} }
		chunk(function(j{"index": i, "id": c.ID, "type": "function", "function": j{"name": c.Name, "arguments": ""}}), nil)
		chunk(function(j{"index": i, "function": j{"arguments": string(c.Arguments[:half])}}), nil)
		chunk(function(j{"index": i, "function": j{"arguments": string(c.Arguments[half:])}}), nil)
	}
	chunk(j{}, chatFinish(a.Stop))
	events.Send("", j{"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1764500000, "model": a.Model, "choices": []any{}, "usage": chatUsage(a.Usage)})
	events.Raw("", "[DONE]")
}

// chatWire is a request to chat completions.
type chatWire struct {
	Model     string
	MaxTokens int `json:"max_tokens"`
	Messages  []struct {
		Role, Content string
		ToolCallID    string `json:"tool_call_id"`
		ToolCalls     []struct {
			ID       string
			Function struct{ Name, Arguments string }
		} `json:"tool_calls"`
	}
	Tools []struct {
		Function struct {
			Name, Description string
			Parameters        json.RawMessage
		}
	}
}

func readChat(r modeltest.Request) (model.Request, error) {
	var in chatWire
	if err := json.Unmarshal(r.Body, &in); err != nil {
		return model.Request{}, err
	}
	out := model.Request{Model: in.Model, MaxTokens: in.MaxTokens}
	for _, t := range in.Tools {
		out.Tools = append(out.Tools, model.Tool{Name: t.Function.Name, Description: t.Function.Description, Schema: t.Function.Parameters})
	}
	after := false // results and words of the user make one message
	for _, m := range in.Messages {
		switch m.Role {
		case "system":
			out.System = m.Content
			continue
		case "tool":
			if !after {
				out.Messages = append(out.Messages, model.Message{Role: model.User})
			}
			last := &out.Messages[len(out.Messages)-1]
			last.Results = append(last.Results, model.Result{CallID: m.ToolCallID, Text: m.Content})
		case "user":
			if !after {
				out.Messages = append(out.Messages, model.Message{Role: model.User})
			}
			out.Messages[len(out.Messages)-1].Text = m.Content
		case "assistant":
			message := model.Message{Role: model.Assistant, Text: m.Content}
			for _, c := range m.ToolCalls {
				message.Calls = append(message.Calls, model.Call{ID: c.ID, Name: c.Function.Name, Arguments: json.RawMessage(c.Function.Arguments)})
			}
			out.Messages = append(out.Messages, message)
		}
		after = m.Role == "tool"
	}
	return out, nil
}
