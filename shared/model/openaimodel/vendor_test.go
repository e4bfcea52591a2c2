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

type j = modeltest.JSON

// The Responses API as developers.openai.com documents it.

func TestResponses(t *testing.T) {
	modeltest.Run(t, modeltest.Vendor{
		New: func(t *testing.T, url string, timeout time.Duration) model.Model {
			return responses(t, openaimodel.Options{APIKey: "sk-test", BaseURL: url + "/v1", Model: "m-1", Timeout: timeout})
		},
		Answer: answer, Refuse: refuse, Read: read, ForgetsFailed: true,
	})
}

func responses(t *testing.T, o openaimodel.Options) *openaimodel.Model {
	t.Helper()
	m, err := openaimodel.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// whole is the response object.
func whole(a modeltest.Answer) j {
	status, details := "completed", j(nil)
	part := func(text string) j { return j{"type": "output_text", "text": text, "annotations": []any{}} }
	var text string
	for _, piece := range a.Text {
		text += piece
	}
	switch a.Stop {
	case model.StopMaxTokens:
		status, details = "incomplete", j{"reason": "max_output_tokens"}
	case model.StopRefusal:
		part = func(text string) j { return j{"type": "refusal", "refusal": text} }
	}
	output := []any{j{"type": "message", "id": "msg_1", "status": "completed", "role": "assistant", "content": []any{part(text)}}}
	for _, c := range a.Calls {
		output = append(output, j{"type": "function_call", "id": "fc_" + c.ID, "call_id": c.ID, "name": c.Name, "arguments": string(c.Arguments), "status": "completed"})
	}
	return j{
		"id": "resp_1", "object": "response", "created_at": 1764500000, "status": status, "model": a.Model, "output": output,
		"error": nil, "incomplete_details": details, "parallel_tool_calls": true,
		"usage": j{
			"input_tokens": a.Usage.Input + a.Usage.CacheRead + a.Usage.CacheWrite, "output_tokens": a.Usage.Output,
			"input_tokens_details":  j{"cached_tokens": a.Usage.CacheRead, "cache_write_tokens": a.Usage.CacheWrite},
			"output_tokens_details": j{"reasoning_tokens": 0},
		},
	}
}

func answer(w http.ResponseWriter, r modeltest.Request, a modeltest.Answer) {
	if !streamed(r) {
		modeltest.SendJSON(w, http.StatusOK, whole(a))
		return
	}
	events, n := modeltest.SendEvents(w), 0
	send := func(name string, event j) {
		event["type"], event["sequence_number"] = name, n
		events.Send(name, event)
		n++
	}
	send("response.created", j{"response": j{"id": "resp_1", "object": "response", "status": "in_progress", "output": []any{}}})
	send("response.output_item.added", j{"output_index": 0, "item": j{"type": "message", "id": "msg_1", "status": "in_progress", "role": "assistant", "content": []any{}}})
	delta := "response.output_text.delta"
	if a.Stop == model.StopRefusal {
		delta = "response.refusal.delta"
	}
	for _, piece := range a.Text {
		send(delta, j{"item_id": "msg_1", "output_index": 0, "content_index": 0, "delta": piece})
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
		send("error", j{"code": "server_is_overloaded", "message": "Our servers are currently overloaded.", "param": nil})
		return
	}
	for i, c := range a.Calls {
		item := j{"type": "function_call", "id": "fc_" + c.ID, "call_id": c.ID, "name": c.Name, "arguments": ""}
		send("response.output_item.added", j{"output_index": i + 1, "item": item})
		send("response.function_call_arguments.delta", j{"item_id": "fc_" + c.ID, "output_index": i + 1, "delta": string(c.Arguments)})
		send("response.function_call_arguments.done", j{"item_id": "fc_" + c.ID, "output_index": i + 1, "arguments": string(c.Arguments)})
	}
	last := "response.completed"
	if a.Stop == model.StopMaxTokens {
		last = "response.incomplete"
	}
	send(last, j{"response": whole(a)})
}

func streamed(r modeltest.Request) bool {
	var in struct{ Stream bool }
	return json.Unmarshal(r.Body, &in) == nil && in.Stream
}

func refuse(w http.ResponseWriter, kind model.Kind) {
	status, code, kindOf, message := 400, any(nil), "invalid_request_error", "Unknown parameter: 'foo'."
	switch kind {
	case model.Overloaded:
		status, kindOf, message = 503, "server_error", "The engine is currently overloaded, please try again later"
	case model.RateLimited:
		status, code, kindOf, message = 429, "rate_limit_exceeded", "tokens", "Rate limit reached for m-1"
	case model.Timeout:
		status, kindOf, message = 408, "timeout", "Request timed out"
	case model.TooLong:
		code, message = "context_length_exceeded", "Your input exceeds the context window of this model."
	case model.Unauthorized:
		status, code, message = 401, "invalid_api_key", "Incorrect API key provided: sk-****test."
	case model.NotFound:
		status, code, message = 404, "model_not_found", "The model `m-1` does not exist or you do not have access to it."
	}
	w.Header().Set("x-request-id", "req_1")
	modeltest.SendJSON(w, status, j{"error": j{"message": message, "type": kindOf, "param": nil, "code": code}})
}

// wire is a request to the Responses API.
type wire struct {
	Model           string
	Instructions    string
	MaxOutputTokens int `json:"max_output_tokens"`
	Input           []struct {
		Type, Role, Content, Name, Arguments, Output string
		CallID                                       string `json:"call_id"`
	}
	Tools []struct {
		Type, Name, Description string
		Parameters              json.RawMessage
	}
}

func read(r modeltest.Request) (model.Request, error) {
	var in wire
	if err := json.Unmarshal(r.Body, &in); err != nil {
		return model.Request{}, err
	}
	out := model.Request{Model: in.Model, System: in.Instructions, MaxTokens: in.MaxOutputTokens}
	for _, t := range in.Tools {
		out.Tools = append(out.Tools, model.Tool{Name: t.Name, Description: t.Description, Schema: t.Parameters})
	}
	said := func(role model.Role) *model.Message {
		if n := len(out.Messages); n == 0 || out.Messages[n-1].Role != role {
			out.Messages = append(out.Messages, model.Message{Role: role})
		}
		return &out.Messages[len(out.Messages)-1]
	}
	for _, item := range in.Input {
		switch item.Type {
		case "message":
			said(model.Role(item.Role)).Text += item.Content
		case "function_call":
			m := said(model.Assistant)
			m.Calls = append(m.Calls, model.Call{ID: item.CallID, Name: item.Name, Arguments: json.RawMessage(item.Arguments)})
		case "function_call_output":
			m := said(model.User)
			m.Results = append(m.Results, model.Result{CallID: item.CallID, Text: item.Output})
		}
	}
	return out, nil
}
