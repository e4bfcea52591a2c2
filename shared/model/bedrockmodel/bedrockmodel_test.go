package bedrockmodel_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime"
	"github.com/google/go-cmp/cmp"

	"github.com/errand-dev/errand/shared/model"
	"github.com/errand-dev/errand/shared/model/bedrockmodel"
	"github.com/errand-dev/errand/shared/model/modeltest"
)

const closed = `{"type":"object","properties":{"capital":{"type":"string"}},"required":["capital"],"additionalProperties":false}`

func parse(t *testing.T, raw string) j {
	t.Helper()
	var body j
	if err := json.Unmarshal([]byte(raw), &body); err != nil {
		t.Fatal(err)
	}
	return body
}

func ask(text string) model.Request {
	return model.Request{Messages: []model.Message{{Role: model.User, Text: text}}}
}

func TestARequestSaysAllInBedrocksTerms(t *testing.T) {
	server := modeltest.Serve(t, func(w http.ResponseWriter, r modeltest.Request) {
		answer(w, r, modeltest.Answer{Text: []string{"{}"}, Stop: model.StopEnd})
	})
	m := adapter(t, bedrockmodel.Options{
		Client: client(server.URL), Model: "eu.anthropic.claude-v1:0", EnforcesSchema: true, Fields: map[string]any{"top_k": 5},
	})
	req := model.Request{
		System: "Be brief.", MaxTokens: 99, Schema: json.RawMessage(closed),
		Tools: []model.Tool{{Name: "lookup", Description: "Looks up.", Schema: json.RawMessage(closed)}},
		Messages: []model.Message{
			{Role: model.User, Text: "Capital of France?"},
			{Role: model.Assistant, Text: " ", Calls: []model.Call{{ID: "c1", Name: "lookup", Arguments: json.RawMessage(`{"capital":"?"}`)}}},
			{Role: model.User, Results: []model.Result{{CallID: "c1", Failed: true}}},
		},
	}
	want := parse(t, `{
		"system": [{"text": "Be brief."}], "inferenceConfig": {"maxTokens": 99}, "additionalModelRequestFields": {"top_k": 5},
		"toolConfig": {"tools": [{"toolSpec": {"name": "lookup", "description": "Looks up.", "inputSchema": {"json": `+closed+`}}}]},
		"messages": [
			{"role": "user", "content": [{"text": "Capital of France?"}]},
			{"role": "assistant", "content": [{"toolUse": {"toolUseId": "c1", "name": "lookup", "input": {"capital": "?"}}}]},
			{"role": "user", "content": [{"toolResult": {"toolUseId": "c1", "status": "error", "content": [{"text": "(no output)"}]}}]}
		]}`)
	want["outputConfig"] = j{"textFormat": j{"type": "json_schema", "structure": j{"jsonSchema": j{"name": "answer", "schema": closed}}}}
	for path, stream := range map[string]func(string){"converse": nil, "converse-stream": func(string) {}} {
		if _, err := m.Generate(t.Context(), "key-1", req, stream); err != nil {
			t.Fatal(err)
		}
		asked := server.Asked()
		last := asked[len(asked)-1]
		if last.Path != "POST /model/eu.anthropic.claude-v1:0/"+path {
			t.Errorf("asked %s", last.Path)
		}
		if diff := cmp.Diff(want, parse(t, string(last.Body))); diff != "" {
			t.Errorf("%s (-want +got)\n%s", path, diff)
		}
	}
}

func TestASchemaIsInTheInstructionsOfModelsThatCannotBeHeldToIt(t *testing.T) {
	server := modeltest.Serve(t, func(w http.ResponseWriter, r modeltest.Request) {
		answer(w, r, modeltest.Answer{Text: []string{"{}"}, Stop: model.StopEnd})
	})
	req := ask("?")
	req.Schema = json.RawMessage(closed)
	if _, err := adapter(t, bedrockmodel.Options{Client: client(server.URL), Model: "m-1"}).Generate(t.Context(), "k", req, nil); err != nil {
		t.Fatal(err)
	}
	got := string(server.Asked()[0].Body)
	if strings.Contains(got, "outputConfig") || !strings.Contains(got, "follows this JSON schema") {
		t.Errorf("sent %s", got)
	}
}

func TestReasoningGoesBackInItsPlace(t *testing.T) {
	server := modeltest.Serve(t, func(w http.ResponseWriter, r modeltest.Request) {
		if !strings.HasSuffix(r.Path, "-stream") {
			modeltest.SendJSON(w, http.StatusOK, j{"stopReason": "tool_use", "output": j{"message": j{"role": "assistant", "content": []any{
				j{"reasoningContent": j{"reasoningText": j{"text": "France, hm.", "signature": "c2ln"}}},
				j{"reasoningContent": j{"redactedContent": "eHh4"}},
				j{"text": "Let me look."},
				j{"toolUse": j{"toolUseId": "c1", "name": "lookup", "input": j{}}},
			}}}})
			return
		}
		f := sendFrames(w)
		delta := func(index int, d j) { f.event("contentBlockDelta", j{"contentBlockIndex": index, "delta": d}) }
		delta(0, j{"reasoningContent": j{"text": "France, "}})
		delta(0, j{"reasoningContent": j{"text": "hm."}})
		delta(0, j{"reasoningContent": j{"signature": "c2ln"}})
		delta(1, j{"reasoningContent": j{"redactedContent": "eHh4"}})
		delta(2, j{"text": "Let me look."})
		f.event("contentBlockStart", j{"contentBlockIndex": 3, "start": j{"toolUse": j{"toolUseId": "c1", "name": "lookup"}}})
		f.event("messageStop", j{"stopReason": "tool_use"})
	})
	m := adapter(t, bedrockmodel.Options{Client: client(server.URL), Model: "m-1"})
	for _, stream := range []func(string){nil, func(string) {}} {
		req := ask("Capital of France?")
		res, err := m.Generate(t.Context(), "k", req, stream)
		if err != nil {
			t.Fatal(err)
		}
		req.Messages = append(req.Messages, model.Message{Role: model.Assistant, Text: res.Text, Calls: res.Calls, Opaque: res.Opaque},
			model.Message{Role: model.User, Results: []model.Result{{CallID: "c1", Text: "Paris"}}})
		if _, err := m.Generate(t.Context(), "k", req, stream); err != nil {
			t.Fatal(err)
		}
		asked := server.Asked()
		got := parse(t, string(asked[len(asked)-1].Body))["messages"].([]any)[1].(j)["content"]
		want := any([]any{
			j{"reasoningContent": j{"reasoningText": j{"text": "France, hm.", "signature": "c2ln"}}},
			j{"reasoningContent": j{"redactedContent": "eHh4"}},
			j{"text": "Let me look."},
			j{"toolUse": j{"toolUseId": "c1", "name": "lookup", "input": j{}}},
		})
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	}
}

func TestMoreWaysToFail(t *testing.T) {
	for name, c := range map[string]struct {
		status        int
		code, message string
		want          model.Kind
	}{
		"the model failed":        {424, "ModelErrorException", "The model failed", model.Overloaded},
		"it is being loaded":      {429, "ModelNotReadyException", "The model is not ready", model.Overloaded},
		"their fault":             {500, "InternalServerException", "sorry", model.Overloaded},
		"no such profile":         {404, "ResourceNotFoundException", "not found", model.NotFound},
		"the quota is used up":    {400, "ServiceQuotaExceededException", "Your request exceeds the quota", model.Invalid},
		"a token that is too old": {403, "ExpiredTokenException", "The security token is expired", model.Unauthorized},
		"tokens of Claude":        {400, "ValidationException", "The model returned the following errors: prompt is too long: 208310 tokens > 200000 maximum", model.TooLong},
		"tokens of Nova":          {400, "ValidationException", "Input Tokens Exceeded: Number of input tokens exceeds maximum length.", model.TooLong},
		"a proxy's page":          {502, "", "", model.Overloaded},
	} {
		t.Run(name, func(t *testing.T) {
			server := modeltest.Serve(t, func(w http.ResponseWriter, _ modeltest.Request) { complain(w, c.status, c.code, c.message) })
			m := adapter(t, bedrockmodel.Options{Client: client(server.URL), Model: "m-1"})
			for _, stream := range []func(string){nil, func(string) {}} {
				_, err := m.Generate(t.Context(), "k", ask("?"), stream)
				if failed, ok := errors.AsType[*model.Error](err); !ok || failed.Kind != c.want {
					t.Errorf("got %v, want %s", err, c.want)
				}
			}
		})
	}
}

func TestExceptionsInTheMiddleOfAStreamAreToldApart(t *testing.T) {
	for name, want := range map[string]model.Kind{
		"throttlingException": model.RateLimited, "internalServerException": model.Overloaded,
		"modelStreamErrorException": model.Broken, "validationException": model.Invalid,
	} {
		server := modeltest.Serve(t, func(w http.ResponseWriter, _ modeltest.Request) {
			f := sendFrames(w)
			f.event("messageStart", j{"role": "assistant"})
			f.exception(name, j{"message": "sorry"})
		})
		_, err := adapter(t, bedrockmodel.Options{Client: client(server.URL), Model: "m-1"}).Generate(t.Context(), "k", ask("?"), func(string) {})
		if failed, ok := errors.AsType[*model.Error](err); !ok || failed.Kind != want {
			t.Errorf("%s: got %v, want %s", name, err, want)
		}
	}
}

func TestAnAnswerThatTheModelGarbledIsBroken(t *testing.T) {
	server := modeltest.Serve(t, func(w http.ResponseWriter, _ modeltest.Request) {
		modeltest.SendJSON(w, http.StatusOK, j{"stopReason": "malformed_tool_use", "output": j{"message": j{"role": "assistant", "content": []any{}}}})
	})
	_, err := adapter(t, bedrockmodel.Options{Client: client(server.URL), Model: "m-1"}).Generate(t.Context(), "k", ask("?"), nil)
	if failed, ok := errors.AsType[*model.Error](err); !ok || failed.Kind != model.Broken {
		t.Errorf("got %v", err)
	}
}

func TestWhatTheSDKLacksIsNotTriedAgain(t *testing.T) {
	if _, err := bedrockmodel.New(bedrockmodel.Options{}); err == nil || !strings.Contains(err.Error(), "set Options.Client") {
		t.Errorf("got %v", err)
	}
	none := aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		return aws.Credentials{}, errors.New("no credentials in the environment")
	})
	for want, c := range map[model.Kind]aws.Config{
		model.Unauthorized: {Region: "eu-central-1", Credentials: none},
		model.Invalid:      {Credentials: credentials.NewStaticCredentialsProvider("AKID", "SECRET", "")}, // no region
	} {
		m := adapter(t, bedrockmodel.Options{Client: bedrockruntime.NewFromConfig(c), Model: "m-1"})
		_, err := m.Generate(t.Context(), "k", ask("?"), nil)
		if failed, ok := errors.AsType[*model.Error](err); !ok || failed.Kind != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestLive(t *testing.T) {
	name := os.Getenv("BEDROCK_MODEL")
	if os.Getenv("ERRAND_LIVE") != "1" || name == "" {
		t.Skip("NOT RUN: asking Bedrock needs ERRAND_LIVE=1, credentials and a region of AWS, and BEDROCK_MODEL, the id of a model that they may use")
	}
	c, err := config.LoadDefaultConfig(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	modeltest.Live(t, adapter(t, bedrockmodel.Options{Client: bedrockruntime.NewFromConfig(c), Model: name, Timeout: 2 * time.Minute}))
}
