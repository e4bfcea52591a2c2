package modeltest

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/errand-dev/errand/shared/model"
)

// Live asks a real vendor: a streamed answer, then a tool call with its result. It costs a
// few hundred tokens.
func Live(t *testing.T, m model.Model) {
	var heard strings.Builder
	res, err := m.Generate(t.Context(), "live-1", question(), func(s string) { heard.WriteString(s) })
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(res.Text, "Paris") || heard.String() != res.Text || res.Stop != model.StopEnd || res.Usage.Output == 0 {
		t.Errorf("got %+v, heard %q", res, &heard)
	}
	req := model.Request{
		System: "Use the tool. Do not answer from memory.",
		Tools: []model.Tool{{Name: "population", Description: "The population of a city.",
			Schema: json.RawMessage(`{"type":"object","properties":{"city":{"type":"string"}},"required":["city"],"additionalProperties":false}`)}},
		Schema:   json.RawMessage(`{"type":"object","properties":{"population":{"type":"integer"}},"required":["population"],"additionalProperties":false}`),
		Messages: []model.Message{{Role: model.User, Text: "How many people live in Atlantis City?"}},
	}
	res, err = m.Generate(t.Context(), "live-2", req, nil)
	if err != nil || res.Stop != model.StopTools || len(res.Calls) == 0 {
		t.Fatalf("got %+v, %v", res, err)
	}
	results := model.Message{Role: model.User}
	for _, c := range res.Calls {
		results.Results = append(results.Results, model.Result{CallID: c.ID, Text: "73112"})
	}
	req.Messages = append(req.Messages, model.Message{Role: model.Assistant, Text: res.Text, Calls: res.Calls, Opaque: res.Opaque}, results)
	res, err = m.Generate(t.Context(), "live-3", req, nil)
	if err != nil {
		t.Fatal(err)
	}
	var got struct{ Population int }
	if err := json.Unmarshal([]byte(res.Text), &got); err != nil || got.Population != 73112 {
		t.Errorf("got %q, %v", res.Text, err)
	}
}
