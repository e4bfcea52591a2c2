package openaimodel_test

import (
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/openai/openai-go/v3/option"

	"github.com/errand-dev/errand/shared/model"
	"github.com/errand-dev/errand/shared/model/modeltest"
	"github.com/errand-dev/errand/shared/model/openaimodel"
)

const closed = `{"type":"object","properties":{"capital":{"type":"string"}},"required":["capital"],"additionalProperties":false}`

func parse(t *testing.T, raw string) j {
	t.Helper()
	var body j
	if err := json.Unmarshal([]byte(raw), &body); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	return body
}

// newest is the body that was sent last.
func newest(t *testing.T, s *modeltest.Server) j {
	t.Helper()
	asked := s.Asked()
	return parse(t, string(asked[len(asked)-1].Body))
}

func ask(text string) model.Request {
	return model.Request{Messages: []model.Message{{Role: model.User, Text: text}}}
}

// full is a request that says all there is to say.
func full() model.Request {
	return model.Request{
		System: "Be brief.", MaxTokens: 99,
		Tools:  []model.Tool{{Name: "lookup", Description: "Looks up.", Schema: json.RawMessage(closed)}},
		Schema: json.RawMessage(closed),
		Messages: []model.Message{
			{Role: model.User, Text: "Capital of France?"},
			{Role: model.Assistant, Calls: []model.Call{{ID: "c1", Name: "lookup", Arguments: json.RawMessage(`{"capital":`)}}},
			{Role: model.User, Text: "Hurry.", Results: []model.Result{{CallID: "c1", Text: "no", Failed: true}}},
		},
	}
}

func TestARequestSaysAllInTheTermsOfResponses(t *testing.T) {
	server := modeltest.Serve(t, func(w http.ResponseWriter, r modeltest.Request) {
		answer(w, r, modeltest.Answer{Text: []string{"{}"}, Stop: model.StopEnd})
	})
	m := responses(t, openaimodel.Options{APIKey: "sk-test", BaseURL: server.URL + "/v1/", Model: "gpt-5.2"})
	if _, err := m.Generate(t.Context(), "key-1", full(), nil); err != nil {
		t.Fatal(err)
	}
	asked := server.Asked()[0]
	if asked.Path != "POST /v1/responses" || asked.Header.Get("Authorization") != "Bearer sk-test" || asked.Header.Get("Idempotency-Key") != "key-1" {
		t.Errorf("asked %s with %v", asked.Path, asked.Header)
	}
	want := parse(t, `{
		"model": "gpt-5.2", "instructions": "Be brief.", "max_output_tokens": 99, "store": false,
		"include": ["reasoning.encrypted_content"],
		"text": {"format": {"type": "json_schema", "name": "answer", "strict": true, "schema": `+closed+`}},
		"tools": [{"type": "function", "name": "lookup", "description": "Looks up.", "strict": true, "parameters": `+closed+`}],
		"input": [
			{"type": "message", "role": "user", "content": "Capital of France?"},
			{"type": "function_call", "call_id": "c1", "name": "lookup", "arguments": "{\"capital\":"},
			{"type": "function_call_output", "call_id": "c1", "output": "Error: no"},
			{"type": "message", "role": "user", "content": "Hurry."}
		]}`)
	if diff := cmp.Diff(want, newest(t, server)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestARequestSaysAllInTheTermsOfChatCompletions(t *testing.T) {
	server := modeltest.Serve(t, func(w http.ResponseWriter, r modeltest.Request) {
		chatAnswer(w, r, modeltest.Answer{Text: []string{"{}"}, Stop: model.StopEnd})
	})
	m := chat(t, openaimodel.Options{BaseURL: server.URL + "/v1", Model: "llama3.2"})
	req := full()
	if _, err := m.Generate(t.Context(), "key-1", req, func(string) {}); err != nil {
		t.Fatal(err)
	}
	asked := server.Asked()[0]
	if asked.Path != "POST /v1/chat/completions" || asked.Header.Get("Authorization") != "" {
		t.Errorf("asked %s with %v", asked.Path, asked.Header)
	}
	got := newest(t, server)
	system := got["messages"].([]any)[0].(j)["content"].(string)
	if !strings.HasPrefix(system, "Be brief.\n\nGive your final answer as one JSON value") || !strings.HasSuffix(system, closed) {
		t.Errorf("the schema of the answer is not in the instructions: %q", system)
	}
	want := parse(t, `{
		"model": "llama3.2", "max_tokens": 99, "stream": true, "stream_options": {"include_usage": true},
		"tools": [{"type": "function", "function": {"name": "lookup", "description": "Looks up.", "parameters": `+closed+`}}],
		"messages": [
			{"role": "system", "content": "S"},
			{"role": "user", "content": "Capital of France?"},
			{"role": "assistant", "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "lookup", "arguments": "{\"capital\":"}}]},
			{"role": "tool", "tool_call_id": "c1", "content": "Error: no"},
			{"role": "user", "content": "Hurry."}
		]}`)
	want["messages"].([]any)[0].(j)["content"] = system
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}

	// Without tools the server holds the answer to its schema.
	req.Tools, req.Messages = nil, req.Messages[:1]
	if _, err := m.Generate(t.Context(), "key-1", req, nil); err != nil {
		t.Fatal(err)
	}
	format := parse(t, `{"type": "json_schema", "json_schema": {"name": "answer", "strict": true, "schema": `+closed+`}}`)
	if diff := cmp.Diff(any(format), newest(t, server)["response_format"]); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestASchemaThatOpenAICannotEnforceIsInTheInstructions(t *testing.T) {
	server := modeltest.Serve(t, func(w http.ResponseWriter, r modeltest.Request) {
		answer(w, r, modeltest.Answer{Text: []string{"{}"}, Stop: model.StopEnd})
	})
	m := responses(t, openaimodel.Options{BaseURL: server.URL, Model: "gpt-4.1"})
	req := ask("?")
	req.Schema = json.RawMessage(`{"type":"object","properties":{"capital":{"type":"string"}}}`)
	if _, err := m.Generate(t.Context(), "k", req, nil); err != nil {
		t.Fatal(err)
	}
	got := newest(t, server)
	if instructions, _ := got["instructions"].(string); got["text"] != nil || !strings.Contains(instructions, "follows this JSON schema") {
		t.Errorf("sent %v", got)
	}
	if got["include"] != nil {
		t.Errorf("a model that does not reason is asked for %v, which OpenAI refuses", got["include"])
	}
}

func TestReasoningGoesBackInItsPlace(t *testing.T) {
	reasoning := `{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"gAAA"}`
	server := modeltest.Serve(t, func(w http.ResponseWriter, r modeltest.Request) {
		modeltest.SendJSON(w, http.StatusOK, json.RawMessage(`{"id":"resp_1","status":"completed","model":"gpt-5.2-2025-12-11","output":[
			`+reasoning+`,
			{"type":"reasoning","id":"rs_2","summary":[]},
			{"type":"message","id":"msg_1","role":"assistant","phase":"commentary","content":[{"type":"output_text","text":"Let me look."}]},
			{"type":"function_call","id":"fc_1","call_id":"call_1","name":"lookup","arguments":"{}"}]}`))
	})
	m := responses(t, openaimodel.Options{BaseURL: server.URL, Model: "gpt-5.2"})
	req := ask("Capital of France?")
	res, err := m.Generate(t.Context(), "k", req, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Messages = append(req.Messages, model.Message{Role: model.Assistant, Text: res.Text, Calls: res.Calls, Opaque: res.Opaque},
		model.Message{Role: model.User, Results: []model.Result{{CallID: "call_1", Text: "Paris"}}})
	if _, err := m.Generate(t.Context(), "k", req, nil); err != nil {
		t.Fatal(err)
	}
	want := parse(t, `{"input": [
		{"type": "message", "role": "user", "content": "Capital of France?"},
		`+reasoning+`,
		{"type": "message", "role": "assistant", "content": "Let me look.", "phase": "commentary"},
		{"type": "function_call", "call_id": "call_1", "name": "lookup", "arguments": "{}"},
		{"type": "function_call_output", "call_id": "call_1", "output": "Paris"}]}`)
	if diff := cmp.Diff(want["input"], newest(t, server)["input"]); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestMoreWaysToFail(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		body   string
		want   model.Kind
	}{
		"no money":               {429, `{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}`, model.Invalid},
		"vLLM, context":          {400, `{"error":{"message":"This model's maximum context length is 4096 tokens. However, you requested 5000 tokens","type":"BadRequestError","param":null,"code":400}}`, model.TooLong},
		"vLLM before 0.10":       {400, `{"object":"error","message":"This model's maximum context length is 4096 tokens.","type":"BadRequestError","param":null,"code":400}`, model.TooLong},
		"llama.cpp, context":     {400, `{"error":{"code":400,"message":"the request exceeds the available context size, try increasing it","type":"exceed_context_size_error"}}`, model.TooLong},
		"llama.cpp is loading":   {503, `{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}`, model.Overloaded},
		"Ollama, no such model":  {404, `{"error":{"message":"model 'x' not found","type":"not_found_error","param":null,"code":null}}`, model.NotFound},
		"Ollama says it plainly": {400, `{"error":"the input length exceeds the context length"}`, model.TooLong},
		"a proxy's page":         {502, `<html>Bad Gateway</html>`, model.Overloaded},
		"nothing at all":         {500, ``, model.Overloaded},
		"no JSON":                {200, `<html>Welcome</html>`, model.Broken},
	} {
		t.Run(name, func(t *testing.T) {
			server := modeltest.Serve(t, func(w http.ResponseWriter, _ modeltest.Request) {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(c.status)
				_, _ = w.Write([]byte(c.body))
			})
			o := openaimodel.Options{BaseURL: server.URL, Model: "m-1"}
			for _, m := range []model.Model{responses(t, o), chat(t, o)} {
				for _, stream := range []func(string){nil, func(string) {}} {
					_, err := m.Generate(t.Context(), "k", ask("?"), stream)
					if failed, ok := err.(*model.Error); !ok || failed.Kind != c.want {
						t.Errorf("%T: got %v, want %s", m, err, c.want)
					}
				}
			}
		})
	}
}

func TestAPromptThatTheVendorWillNotTouchIsARefusal(t *testing.T) {
	for name, body := range map[string]string{
		"Azure's filter": `{"error":{"message":"The response was filtered","type":null,"param":"prompt","code":"content_filter","status":400}}`,
		"OpenAI's":       `{"error":{"message":"The response was filtered","type":"invalid_request_error","param":null,"code":"invalid_prompt"}}`,
	} {
		server := modeltest.Serve(t, func(w http.ResponseWriter, _ modeltest.Request) {
			modeltest.SendJSON(w, http.StatusBadRequest, json.RawMessage(body))
		})
		o := openaimodel.Options{BaseURL: server.URL, Model: "m-1"}
		for _, m := range []model.Model{responses(t, o), chat(t, o)} {
			res, err := m.Generate(t.Context(), "k", ask("?"), nil)
			if err != nil || res.Stop != model.StopRefusal || res.Text != "The response was filtered" {
				t.Errorf("%s, %T: got %+v, %v", name, m, res, err)
			}
		}
	}
}

func TestAnAnswerThatFailsAtTheVendorIsClassified(t *testing.T) {
	for code, want := range map[string]model.Kind{"server_error": model.Overloaded, "rate_limit_exceeded": model.RateLimited, "data_residency_mismatch": model.Invalid} {
		failed := j{"id": "resp_1", "status": "failed", "error": j{"code": code, "message": "sorry"}, "output": []any{}}
		server := modeltest.Serve(t, func(w http.ResponseWriter, r modeltest.Request) {
			if streamed(r) {
				modeltest.SendEvents(w).Send("response.failed", j{"type": "response.failed", "response": failed})
				return
			}
			modeltest.SendJSON(w, http.StatusOK, failed)
		})
		m := responses(t, openaimodel.Options{BaseURL: server.URL, Model: "m-1"})
		for _, stream := range []func(string){nil, func(string) {}} {
			_, err := m.Generate(t.Context(), "k", ask("?"), stream)
			if failed, ok := err.(*model.Error); !ok || failed.Kind != want {
				t.Errorf("%s: got %v, want %s", code, err, want)
			}
		}
	}
}

func TestServersThatImitateOpenAILooselyAreUnderstood(t *testing.T) {
	server := modeltest.Serve(t, func(w http.ResponseWriter, _ modeltest.Request) {
		events := modeltest.SendEvents(w)
		for _, chunk := range []string{
			// No role, another id each time, each call whole and numbered zero, "stop" in spite of calls, no usage.
			`{"id":"a","model":"m-1","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c1","function":{"name":"lookup","arguments":"{\"n\":1}"}}]},"finish_reason":null}]}`,
			`{"id":"b","model":"m-1","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c2","function":{"name":"lookup","arguments":"{\"n\":2}"}}]},"finish_reason":null}]}`,
			`{"id":"c","model":"m-1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`,
		} {
			events.Raw("", chunk)
		}
		events.Raw("", "[DONE]")
	})
	res, err := chat(t, openaimodel.Options{BaseURL: server.URL, Model: "m-1"}).Generate(t.Context(), "k", ask("?"), func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	want := model.Response{Stop: model.StopTools, Model: "m-1", Calls: []model.Call{
		{ID: "c1", Name: "lookup", Arguments: json.RawMessage(`{"n":1}`)}, {ID: "c2", Name: "lookup", Arguments: json.RawMessage(`{"n":2}`)},
	}}
	if diff := cmp.Diff(want, res); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestOpenAIsOwnServersGetTheNewNameOfTheTokenLimit(t *testing.T) {
	var sent j
	client := &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		sent = j{}
		_ = json.NewDecoder(r.Body).Decode(&sent)
		return nil, http.ErrServerClosed
	})}
	for base, want := range map[string]string{
		"": "max_completion_tokens", "https://me.openai.azure.com/openai/v1": "max_completion_tokens", "http://localhost:11434/v1": "max_tokens",
	} {
		m := chat(t, openaimodel.Options{APIKey: "k", BaseURL: base, Model: "m-1", MaxTokens: 5, HTTPClient: client, With: []option.RequestOption{option.WithJSONSet("seed", 7)}})
		_, _ = m.Generate(t.Context(), "k", ask("?"), nil)
		if sent[want] != 5.0 || sent["seed"] != 7.0 {
			t.Errorf("%q is sent %v", base, sent)
		}
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestAMissingKeySaysWhatToSet(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "")
	if _, err := openaimodel.New(openaimodel.Options{}); err == nil || !strings.Contains(err.Error(), "set OPENAI_API_KEY") {
		t.Errorf("got %v", err)
	}
	if _, err := openaimodel.NewChat(openaimodel.Options{BaseURL: "localhost:11434/v1"}); err == nil || !strings.Contains(err.Error(), "https://host/path") {
		t.Errorf("got %v", err)
	}
	for _, m := range []model.Model{responses(t, openaimodel.Options{APIKey: "k"}), chat(t, openaimodel.Options{APIKey: "k"})} {
		if _, err := m.Generate(t.Context(), "k", ask("?"), nil); err == nil || !strings.Contains(err.Error(), "Options.Model") {
			t.Errorf("got %v", err)
		}
	}
}

func TestTheKeyOfTheEnvironmentGoesToNoOtherAddress(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "sk-real")
	server := modeltest.Serve(t, func(w http.ResponseWriter, _ modeltest.Request) { refuse(w, model.Overloaded) })
	authorization := func(o openaimodel.Options) string {
		_, _ = chat(t, o).Generate(t.Context(), "k", ask("?"), nil)
		asked := server.Asked()
		return asked[len(asked)-1].Header.Get("Authorization")
	}
	if got := authorization(openaimodel.Options{BaseURL: server.URL, Model: "m-1"}); got != "" {
		t.Errorf("another server is sent %q", got)
	}
	t.Setenv("OPENAI_BASE_URL", server.URL)
	if got := authorization(openaimodel.Options{Model: "m-1"}); got != "Bearer sk-real" {
		t.Errorf("the environment's own address is sent %q", got)
	}
}

func TestLive(t *testing.T) {
	if os.Getenv("ERRAND_LIVE") != "1" || os.Getenv("OPENAI_API_KEY") == "" {
		t.Skip("NOT RUN: asking OpenAI needs ERRAND_LIVE=1 and OPENAI_API_KEY (OPENAI_MODEL is gpt-5-mini if not set; OPENAI_BASE_URL may point elsewhere)")
	}
	o := openaimodel.Options{Model: os.Getenv("OPENAI_MODEL"), Timeout: 2 * time.Minute}
	if o.Model == "" {
		o.Model = "gpt-5-mini"
	}
	t.Run("responses", func(t *testing.T) { modeltest.Live(t, responses(t, o)) })
	t.Run("chat completions", func(t *testing.T) { modeltest.Live(t, chat(t, o)) })
}
