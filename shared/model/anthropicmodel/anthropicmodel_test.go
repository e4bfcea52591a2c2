package anthropicmodel_test

import (
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/anthropics/anthropic-sdk-go/option"
	"github.com/google/go-cmp/cmp"

	"github.com/errand-dev/errand/shared/model"
	"github.com/errand-dev/errand/shared/model/anthropicmodel"
	"github.com/errand-dev/errand/shared/model/modeltest"
)

// sent is the body of what is sent for req.
func sent(t *testing.T, o anthropicmodel.Options, req model.Request) j {
	t.Helper()
	server := modeltest.Serve(t, func(w http.ResponseWriter, r modeltest.Request) {
		answer(w, r, modeltest.Answer{Text: []string{"Paris"}, Stop: model.StopEnd, Model: "m-1"})
	})
	o.APIKey, o.BaseURL = "sk-test", server.URL
	if _, err := adapter(t, o).Generate(t.Context(), "key-1", req, nil); err != nil {
		t.Fatal(err)
	}
	asked := server.Asked()[0]
	if asked.Path != "POST /v1/messages" || asked.Header.Get("X-Api-Key") != "sk-test" || asked.Header.Get("Anthropic-Version") == "" {
		t.Errorf("asked %s with %v", asked.Path, asked.Header)
	}
	return parse(t, string(asked.Body))
}

func parse(t *testing.T, raw string) j {
	t.Helper()
	var body j
	if err := json.Unmarshal([]byte(raw), &body); err != nil {
		t.Fatal(err)
	}
	return body
}

const closed = `{"type":"object","properties":{"capital":{"type":"string"}},"required":["capital"],"additionalProperties":false}`

func TestARequestSaysAllInAnthropicsTerms(t *testing.T) {
	got := sent(t, anthropicmodel.Options{Model: "m-1"}, model.Request{
		System: "Be brief.",
		Tools:  []model.Tool{{Name: "lookup", Description: "Looks up.", Schema: json.RawMessage(closed)}},
		Schema: json.RawMessage(closed),
		Messages: []model.Message{
			{Role: model.User, Text: "Capital of France?"},
			{Role: model.Assistant, Text: " ", Calls: []model.Call{{ID: "c1", Name: "lookup", Arguments: json.RawMessage(`{"capital":"?"}`)}}},
			{Role: model.User, Results: []model.Result{{CallID: "c1", Failed: true}}},
		},
	})
	want := parse(t, `{
		"model": "m-1", "max_tokens": 16384, "stream": true,
		"system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
		"tools": [{"name": "lookup", "description": "Looks up.", "input_schema": `+closed+`}],
		"output_config": {"format": {"type": "json_schema", "schema": `+closed+`}},
		"messages": [
			{"role": "user", "content": [{"type": "text", "text": "Capital of France?"}]},
			{"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "lookup", "input": {"capital": "?"}}]},
			{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "is_error": true,
				"content": [{"type": "text", "text": "(no output)"}], "cache_control": {"type": "ephemeral"}}]}
		]}`)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestASchemaThatAnthropicCannotEnforceIsInTheInstructions(t *testing.T) {
	open := `{"type":"object","properties":{"capital":{"type":"string"}}}`
	got := sent(t, anthropicmodel.Options{Model: "m-1"}, model.Request{
		Schema: json.RawMessage(open), Messages: []model.Message{{Role: model.User, Text: "?"}},
	})
	system, _ := json.Marshal(got["system"])
	if got["output_config"] != nil || !strings.Contains(string(system), "follows this JSON schema") {
		t.Errorf("system %s, output_config %v", system, got["output_config"])
	}
}

func TestOptionsReachWhatErrandDoesNotKnow(t *testing.T) {
	o := anthropicmodel.Options{Model: "m-1", MaxTokens: 50, With: []option.RequestOption{option.WithJSONSet("thinking", j{"type": "adaptive"})}}
	got := sent(t, o, model.Request{Messages: []model.Message{{Role: model.User, Text: "?"}}})
	if diff := cmp.Diff(any(j{"type": "adaptive"}), got["thinking"]); diff != "" || got["max_tokens"] != 50.0 {
		t.Errorf("max_tokens %v, thinking %s", got["max_tokens"], diff)
	}
}

func TestSignedThinkingGoesBackInItsPlace(t *testing.T) {
	server := modeltest.Serve(t, func(w http.ResponseWriter, r modeltest.Request) { thinking(w) })
	m := adapter(t, anthropicmodel.Options{APIKey: "sk-test", BaseURL: server.URL, Model: "m-1"})
	question := model.Message{Role: model.User, Text: "Capital of France?"}
	res, err := m.Generate(t.Context(), "k", model.Request{Messages: []model.Message{question}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if res.Text != "Let me look." || len(res.Calls) != 1 || res.Opaque == nil {
		t.Fatalf("got %+v", res)
	}
	follow := func(name string, change func(*model.Message)) any {
		said := model.Message{Role: model.Assistant, Text: res.Text, Calls: []model.Call{res.Calls[0]}, Opaque: res.Opaque}
		said.Calls[0].ID = "renamed" // as the harness does if an id is taken
		change(&said)
		_, err := m.Generate(t.Context(), "k", model.Request{Model: name, Messages: []model.Message{question, said,
			{Role: model.User, Results: []model.Result{{CallID: "renamed", Text: "Paris"}}}}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		asked := server.Asked()
		return parse(t, string(asked[len(asked)-1].Body))["messages"].([]any)[1].(j)["content"]
	}
	call := j{"type": "tool_use", "id": "renamed", "name": "lookup", "input": j{"country": "France"}}
	text := j{"type": "text", "text": "Let me look."}
	want := any([]any{
		j{"type": "thinking", "thinking": "France, hm.", "signature": "c2ln"}, text,
		j{"type": "redacted_thinking", "data": "eHh4"}, call,
	})
	if diff := cmp.Diff(want, follow("", func(*model.Message) {})); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	without := any([]any{text, call})
	if diff := cmp.Diff(without, follow("m-2", func(*model.Message) {})); diff != "" {
		t.Errorf("another model is shown it (-want +got)\n%s", diff)
	}
	foreign := func(m *model.Message) {
		m.Opaque = json.RawMessage(`{"vendor":"openai","parts":[{"own":{"type":"reasoning"}}]}`)
	}
	if diff := cmp.Diff(without, follow("", foreign)); diff != "" {
		t.Errorf("another vendor's is sent (-want +got)\n%s", diff)
	}
	shorter := func(m *model.Message) { m.Text = "Let me look. Or not." }
	if got := follow("", shorter).([]any); len(got) != 2 {
		t.Errorf("it is sent with another text: %v", got)
	}
}

// thinking streams an answer of four blocks.
func thinking(w http.ResponseWriter) {
	events := modeltest.SendEvents(w)
	for _, event := range []string{
		`{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m-1","content":[],"usage":{"input_tokens":1,"output_tokens":1}}}`,
		`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"France, "}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm."}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"c2ln"}}`,
		`{"type":"content_block_stop","index":0}`,
		`{"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}`,
		`{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"Let me look."}}`,
		`{"type":"content_block_stop","index":1}`,
		`{"type":"content_block_start","index":2,"content_block":{"type":"redacted_thinking","data":"eHh4"}}`,
		`{"type":"content_block_stop","index":2}`,
		`{"type":"content_block_start","index":3,"content_block":{"type":"tool_use","id":"toolu_1","name":"lookup","input":{}}}`,
		`{"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":"{\"country\":\"France\"}"}}`,
		`{"type":"content_block_stop","index":3}`,
		`{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":9}}`,
		`{"type":"message_stop"}`,
	} {
		var named struct{ Type string }
		_ = json.Unmarshal([]byte(event), &named)
		events.Raw(named.Type, event)
	}
}

func TestMoreWaysToFail(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		body   string
		want   model.Kind
	}{
		"no credit":          {402, `{"type":"error","error":{"type":"billing_error","message":"Your credit balance is too low"}}`, model.Invalid},
		"no permission":      {403, `{"type":"error","error":{"type":"permission_error","message":"no"}}`, model.Unauthorized},
		"too many bytes":     {413, `{"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}`, model.TooLong},
		"answer and context": {400, "{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"input length and `max_tokens` exceed context limit: 190000 + 32000 > 200000\"}}", model.TooLong},
		"their fault":        {500, `{"type":"error","error":{"type":"api_error","message":"Internal server error"}}`, model.Overloaded},
		"a proxy's page":     {502, `<html>Bad Gateway</html>`, model.Overloaded},
		"no event stream":    {200, `<html>Welcome to the hotel's network</html>`, model.Broken},
	} {
		t.Run(name, func(t *testing.T) {
			server := modeltest.Serve(t, func(w http.ResponseWriter, _ modeltest.Request) {
				w.WriteHeader(c.status)
				_, _ = w.Write([]byte(c.body))
			})
			m := adapter(t, anthropicmodel.Options{APIKey: "sk-test", BaseURL: server.URL, Model: "m-1"})
			_, err := m.Generate(t.Context(), "k", model.Request{Messages: []model.Message{{Role: model.User, Text: "?"}}}, nil)
			if failed, ok := err.(*model.Error); !ok || failed.Kind != c.want {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}

func TestAnErrorNamesTheRequestForTheVendorsSupport(t *testing.T) {
	server := modeltest.Serve(t, func(w http.ResponseWriter, _ modeltest.Request) { refuse(w, model.RateLimited) })
	m := adapter(t, anthropicmodel.Options{APIKey: "sk-test", BaseURL: server.URL, Model: "m-1"})
	_, err := m.Generate(t.Context(), "k", model.Request{Messages: []model.Message{{Role: model.User, Text: "?"}}}, nil)
	want := "model: rate_limited: anthropic answered 429 rate_limit_error: This request would exceed your organization's rate limit (request req_1)"
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

func TestAMissingKeySaysWhatToSet(t *testing.T) {
	t.Setenv("ANTHROPIC_API_KEY", "")
	if _, err := anthropicmodel.New(anthropicmodel.Options{}); err == nil || !strings.Contains(err.Error(), "set ANTHROPIC_API_KEY") {
		t.Errorf("got %v", err)
	}
	if _, err := anthropicmodel.New(anthropicmodel.Options{APIKey: "k", BaseURL: "localhost:8080"}); err == nil || !strings.Contains(err.Error(), "https://host/path") {
		t.Errorf("got %v", err)
	}
	if _, err := adapter(t, anthropicmodel.Options{APIKey: "k"}).Generate(t.Context(), "k", model.Request{}, nil); err == nil || !strings.Contains(err.Error(), "Options.Model") {
		t.Errorf("got %v", err)
	}
}

func TestTheKeyOfTheEnvironmentGoesToNoOtherAddress(t *testing.T) {
	t.Setenv("ANTHROPIC_API_KEY", "sk-real")
	t.Setenv("ANTHROPIC_AUTH_TOKEN", "token-real")
	server := modeltest.Serve(t, func(w http.ResponseWriter, _ modeltest.Request) { refuse(w, model.Overloaded) })
	ask := func(o anthropicmodel.Options) http.Header {
		_, _ = adapter(t, o).Generate(t.Context(), "k", model.Request{Messages: []model.Message{{Role: model.User, Text: "?"}}}, nil)
		asked := server.Asked()
		return asked[len(asked)-1].Header
	}
	if h := ask(anthropicmodel.Options{BaseURL: server.URL, Model: "m-1"}); h.Get("X-Api-Key")+h.Get("Authorization") != "" {
		t.Errorf("sent %v", h)
	}
	t.Setenv("ANTHROPIC_BASE_URL", server.URL)
	if h := ask(anthropicmodel.Options{Model: "m-1"}); h.Get("X-Api-Key") != "sk-real" {
		t.Errorf("the environment's own address gets %v", h)
	}
}

func TestLive(t *testing.T) {
	if os.Getenv("ERRAND_LIVE") != "1" || os.Getenv("ANTHROPIC_API_KEY") == "" {
		t.Skip("NOT RUN: asking Anthropic needs ERRAND_LIVE=1 and ANTHROPIC_API_KEY (ANTHROPIC_MODEL is claude-haiku-4-5 if not set)")
	}
	name := os.Getenv("ANTHROPIC_MODEL")
	if name == "" {
		name = "claude-haiku-4-5"
	}
	modeltest.Live(t, adapter(t, anthropicmodel.Options{Model: name, Timeout: 2 * time.Minute}))
}
