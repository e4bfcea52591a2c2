package bedrockmodel_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime"

	"github.com/errand-dev/errand/shared/model"
	"github.com/errand-dev/errand/shared/model/bedrockmodel"
	"github.com/errand-dev/errand/shared/model/modeltest"
)

// Converse and ConverseStream as the Amazon Bedrock API reference documents them.

func TestAdapter(t *testing.T) {
	modeltest.Run(t, modeltest.Vendor{
		New: func(t *testing.T, url string, timeout time.Duration) model.Model {
			return adapter(t, bedrockmodel.Options{Client: client(url), Model: "m-1", Timeout: timeout})
		},
		Answer: answer, Refuse: refuse, Read: read, NeedsObjects: true,
	})
}

func client(url string) *bedrockruntime.Client {
	return bedrockruntime.NewFromConfig(aws.Config{
		Region: "eu-central-1", HTTPClient: &http.Client{Transport: buffered{}}, BaseEndpoint: aws.String(url), Credentials: credentials.NewStaticCredentialsProvider("AKID", "SECRET", ""),
	})
}

// buffered sends each body from a copy: the SDK closes its own as soon as the answer begins,
// and a server that answers within microseconds would see its connection cut by that.
type buffered struct{}

func (buffered) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	r.Body = io.NopCloser(bytes.NewReader(body))
	return http.DefaultTransport.RoundTrip(r)
}

func adapter(t *testing.T, o bedrockmodel.Options) *bedrockmodel.Model {
	t.Helper()
	m, err := bedrockmodel.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

type j = modeltest.JSON

func usage(u model.Usage) j {
	return j{"inputTokens": u.Input, "outputTokens": u.Output, "totalTokens": u.Input + u.Output,
		"cacheReadInputTokens": u.CacheRead, "cacheWriteInputTokens": u.CacheWrite}
}

func reason(stop model.Stop) string {
	return map[model.Stop]string{model.StopEnd: "end_turn", model.StopTools: "tool_use", model.StopMaxTokens: "max_tokens", model.StopRefusal: "content_filtered"}[stop]
}

func answer(w http.ResponseWriter, r modeltest.Request, a modeltest.Answer) {
	if strings.HasSuffix(r.Path, "/converse-stream") {
		streamed(w, r, a)
		return
	}
	content := []any{j{"text": strings.Join(a.Text, "")}}
	for _, c := range a.Calls {
		content = append(content, j{"toolUse": j{"toolUseId": c.ID, "name": c.Name, "input": c.Arguments}})
	}
	modeltest.SendJSON(w, http.StatusOK, j{
		"output": j{"message": j{"role": "assistant", "content": content}}, "stopReason": reason(a.Stop),
		"usage": usage(a.Usage), "metrics": j{"latencyMs": 1},
	})
}

// frames writes Amazon's binary event stream.
type frames struct {
	w       http.ResponseWriter
	encoder *eventstream.Encoder
}

func sendFrames(w http.ResponseWriter) frames {
	w.Header().Set("Content-Type", "application/vnd.amazon.eventstream")
	w.WriteHeader(http.StatusOK)
	return frames{w, eventstream.NewEncoder()}
}

func (f frames) event(name string, payload j) { f.send("event", ":event-type", name, payload) }

func (f frames) exception(name string, payload j) {
	f.send("exception", ":exception-type", name, payload)
}

func (f frames) send(kind, header, name string, payload j) {
	raw, err := json.Marshal(payload)
	if err != nil {
		panic(err) // a test's own data
	}
	message := eventstream.Message{Payload: raw}
	message.Headers.Set(":message-type", eventstream.StringValue(kind))
	message.Headers.Set(header, eventstream.StringValue(name))
	message.Headers.Set(":content-type", eventstream.StringValue("application/json"))
	_ = f.encoder.Encode(f.w, message) // the caller may have hung up
	_ = http.NewResponseController(f.w).Flush()
}

func streamed(w http.ResponseWriter, r modeltest.Request, a modeltest.Answer) {
	f := sendFrames(w)
	f.event("messageStart", j{"role": "assistant"})
	for _, piece := range a.Text { // words have no start event
		f.event("contentBlockDelta", j{"contentBlockIndex": 0, "delta": j{"text": piece}})
	}
	switch a.Cut {
	case modeltest.Torn:
		_, _ = w.Write([]byte{0, 0, 0, 99, 0}) // the beginning of a frame
		modeltest.Tear(w)
	case modeltest.Stalled:
		modeltest.Stall(w, r)
		return
	case modeltest.Short:
		return
	case modeltest.Overloaded:
		f.exception("serviceUnavailableException", j{"message": "Bedrock is unable to process your request."})
		return
	}
	f.event("contentBlockStop", j{"contentBlockIndex": 0})
	for i, c := range a.Calls {
		half := len(c.Arguments) / 2
		f.event("contentBlockStart", j{"contentBlockIndex": i + 1, "start": j{"toolUse": j{"toolUseId": c.ID, "name": c.Name}}})
		if string(c.Arguments) != "{}" {
			for _, part := range []json.RawMessage{c.Arguments[:half], c.Arguments[half:]} {
				f.event("contentBlockDelta", j{"contentBlockIndex": i + 1, "delta": j{"toolUse": j{"input": string(part)}}})
			}
		}
		f.event("contentBlockStop", j{"contentBlockIndex": i + 1})
	}
	f.event("messageStop", j{"stopReason": reason(a.Stop)})
	f.event("metadata", j{"usage": usage(a.Usage), "metrics": j{"latencyMs": 1}})
}

func refuse(w http.ResponseWriter, kind model.Kind) {
	status, code, message := 400, "ValidationException", "The value at messages is not valid."
	switch kind {
	case model.Overloaded:
		status, code, message = 503, "ServiceUnavailableException", "Bedrock is unable to process your request."
	case model.RateLimited:
		status, code, message = 429, "ThrottlingException", "Too many tokens, please wait before trying again."
	case model.Timeout:
		status, code, message = 408, "ModelTimeoutException", "The request took too long to process."
	case model.TooLong:
		message = "Input is too long for requested model."
	case model.Unauthorized:
		status, code, message = 403, "AccessDeniedException", "You don't have access to the model with the specified model ID."
	case model.NotFound:
		message = "The provided model identifier is invalid."
	}
	complain(w, status, code, message)
}

func complain(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("X-Amzn-ErrorType", code)
	w.Header().Set("X-Amzn-RequestId", "req-1")
	modeltest.SendJSON(w, status, j{"message": message})
}

// wire is a request to Converse.
type wire struct {
	System          []struct{ Text string }
	InferenceConfig struct{ MaxTokens int }
	Messages        []struct {
		Role    model.Role
		Content []struct {
			Text    string
			ToolUse *struct {
				ToolUseID, Name string
				Input           json.RawMessage
			}
			ToolResult *struct {
				ToolUseID, Status string
				Content           []struct{ Text string }
			}
		}
	}
	ToolConfig struct {
		Tools []struct {
			ToolSpec struct {
				Name, Description string
				InputSchema       struct{ JSON json.RawMessage }
			}
		}
	}
}

func read(r modeltest.Request) (model.Request, error) {
	var in wire
	if err := json.NewDecoder(bytes.NewReader(r.Body)).Decode(&in); err != nil {
		return model.Request{}, err
	}
	name, err := url.PathUnescape(strings.Split(r.Path, "/")[2]) // POST /model/ID/converse
	if err != nil {
		return model.Request{}, err
	}
	out := model.Request{Model: name, MaxTokens: in.InferenceConfig.MaxTokens}
	for _, s := range in.System {
		out.System += s.Text
	}
	for _, t := range in.ToolConfig.Tools {
		out.Tools = append(out.Tools, model.Tool{Name: t.ToolSpec.Name, Description: t.ToolSpec.Description, Schema: t.ToolSpec.InputSchema.JSON})
	}
	for _, m := range in.Messages {
		message := model.Message{Role: m.Role}
		for _, c := range m.Content {
			message.Text += c.Text
			if use := c.ToolUse; use != nil {
				message.Calls = append(message.Calls, model.Call{ID: use.ToolUseID, Name: use.Name, Arguments: use.Input})
			}
			if result := c.ToolResult; result != nil {
				message.Results = append(message.Results, model.Result{CallID: result.ToolUseID, Text: result.Content[0].Text, Failed: result.Status == "error"})
			}
		}
		out.Messages = append(out.Messages, message)
	}
	return out, nil
}
