package anthropicmodel_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/errand-dev/errand/shared/model"
	"github.com/errand-dev/errand/shared/model/anthropicmodel"
	"github.com/errand-dev/errand/shared/model/modeltest"
)

// The Messages API as platform.claude.com documents it: streams in "Streaming messages",
// failures in "Errors".

func TestAdapter(t *testing.T) {
	modeltest.Run(t, modeltest.Vendor{
		New: func(t *testing.T, url string, timeout time.Duration) model.Model {
			return adapter(t, anthropicmodel.Options{APIKey: "sk-test", BaseURL: url, Model: "m-1", Timeout: timeout})
		},
		Answer: answer, Refuse: refuse, Read: read, AlwaysStreams: true, NeedsObjects: true,
	})
}

func adapter(t *testing.T, o anthropicmodel.Options) *anthropicmodel.Model {
	t.Helper()
	m, err := anthropicmodel.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

type j = modeltest.JSON

func answer(w http.ResponseWriter, r modeltest.Request, a modeltest.Answer) {
	events := modeltest.SendEvents(w)
	send := func(event j) { events.Send(event["type"].(string), event) }
	send(j{"type": "message_start", "message": j{
		"id": "msg_1", "type": "message", "role": "assistant", "model": a.Model, "content": []any{},
		"stop_reason": nil, "stop_sequence": nil,
		"usage": j{"input_tokens": a.Usage.Input, "output_tokens": 1, "cache_read_input_tokens": a.Usage.CacheRead, "cache_creation_input_tokens": a.Usage.CacheWrite},
	}})
	block := 0
	blockOf := func(start j, deltas ...j) {
		send(j{"type": "content_block_start", "index": block, "content_block": start})
		for _, d := range deltas {
			send(j{"type": "content_block_delta", "index": block, "delta": d})
		}
		if a.Cut == "" {
			send(j{"type": "content_block_stop", "index": block})
		}
		block++
	}
	var texts []j
	for _, piece := range a.Text {
		texts = append(texts, j{"type": "text_delta", "text": piece})
	}
	blockOf(j{"type": "text", "text": ""}, texts...)
	send(j{"type": "ping"})
	switch a.Cut {
	case modeltest.Torn:
		modeltest.Tear(w)
	case modeltest.Stalled:
		modeltest.Stall(w, r)
		return
	case modeltest.Short:
		return
	case modeltest.Overloaded:
		send(j{"type": "error", "error": j{"type": "overloaded_error", "message": "Overloaded"}})
		return
	}
	for _, c := range a.Calls {
		half := len(c.Arguments) / 2
		deltas := []j{{"type": "input_json_delta", "partial_json": ""}}
		if string(c.Arguments) != "{}" {
			deltas = append(deltas, j{"type": "input_json_delta", "partial_json": string(c.Arguments[:half])},
				j{"type": "input_json_delta", "partial_json": string(c.Arguments[half:])})
		}
		blockOf(j{"type": "tool_use", "id": c.ID, "name": c.Name, "input": j{}}, deltas...)
	}
	reason := map[model.Stop]string{model.StopEnd: "end_turn", model.StopTools: "tool_use", model.StopMaxTokens: "max_tokens", model.StopRefusal: "refusal"}[a.Stop]
	send(j{"type": "message_delta", "delta": j{"stop_reason": reason, "stop_sequence": nil}, "usage": j{"output_tokens": a.Usage.Output}})
	send(j{"type": "message_stop"})
}

func refuse(w http.ResponseWriter, kind model.Kind) {
	status, code, message := 400, "invalid_request_error", "max_tokens: Field required"
	switch kind {
	case model.Overloaded:
		status, code, message = 529, "overloaded_error", "Overloaded"
	case model.RateLimited:
		status, code, message = 429, "rate_limit_error", "This request would exceed your organization's rate limit"
	case model.Timeout:
		status, code, message = 504, "timeout_error", "The request timed out"
	case model.TooLong:
		message = "prompt is too long: 208310 tokens > 200000 maximum"
	case model.Unauthorized:
		status, code, message = 401, "authentication_error", "invalid x-api-key"
	case model.NotFound:
		status, code, message = 404, "not_found_error", "model: m-1"
	}
	w.Header().Set("request-id", "req_1")
	modeltest.SendJSON(w, status, j{"type": "error", "error": j{"type": code, "message": message}, "request_id": "req_1"})
}

// wire is a request to the Messages API.
type wire struct {
	Model     string
	MaxTokens int `json:"max_tokens"`
	System    []struct{ Text string }
	Messages  []struct {
		Role    model.Role
		Content []struct {
			Type, Text, ID, Name string
			Input                json.RawMessage
			ToolUseID            string `json:"tool_use_id"`
			Content              []struct{ Text string }
			IsError              bool `json:"is_error"`
		}
	}
	Tools []struct {
		Name, Description string
		InputSchema       json.RawMessage `json:"input_schema"`
	}
}

func read(r modeltest.Request) (model.Request, error) {
	var in wire
	if err := json.Unmarshal(r.Body, &in); err != nil {
		return model.Request{}, err
	}
	out := model.Request{Model: in.Model, MaxTokens: in.MaxTokens}
	for _, s := range in.System {
		out.System += s.Text
	}
	for _, t := range in.Tools {
		out.Tools = append(out.Tools, model.Tool{Name: t.Name, Description: t.Description, Schema: t.InputSchema})
	}
	for _, m := range in.Messages {
		message := model.Message{Role: m.Role}
		for _, b := range m.Content {
			switch b.Type {
			case "text":
				message.Text += b.Text
			case "tool_use":
				message.Calls = append(message.Calls, model.Call{ID: b.ID, Name: b.Name, Arguments: b.Input})
			case "tool_result":
				message.Results = append(message.Results, model.Result{CallID: b.ToolUseID, Text: b.Content[0].Text, Failed: b.IsError})
			}
		}
		out.Messages = append(out.Messages, message)
	}
	return out, nil
}
