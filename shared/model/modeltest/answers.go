package modeltest

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/errand-dev/errand/shared/model"
)

func (v Vendor) testAnswers(t *testing.T) {
	usage := model.Usage{Input: 11, Output: 7, CacheRead: 100, CacheWrite: 20}
	bothWays(t, func(t *testing.T, stream func(string), heard *strings.Builder) {
		m, _ := v.playing(t, Answer{Text: []string{"The capital ", "is ", "Paris — «oui»."}, Stop: model.StopEnd, Usage: usage})
		got, err := v.ask(t, m, stream)
		if err != nil {
			t.Fatal(err)
		}
		want := model.Response{Text: "The capital is Paris — «oui».", Stop: model.StopEnd, Usage: usage, Model: "m-1-2026"}
		if diff := cmp.Diff(want, got, orVendorsName); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
		if stream != nil && heard.String() != want.Text {
			t.Errorf("heard %q", heard)
		}
	})
}

// orVendorsName accepts the name that was asked for, where the vendor does not say which
// model answered.
var orVendorsName = cmp.FilterPath(func(p cmp.Path) bool { return p.String() == "Model" },
	cmp.Comparer(func(a, b string) bool { return strings.HasPrefix(a, "m-1") && strings.HasPrefix(b, "m-1") }))

func (v Vendor) testCalls(t *testing.T) {
	calls := []model.Call{
		{ID: "call_1", Name: "lookup", Arguments: json.RawMessage(`{"country": "France", "big": 12345678901234567890}`)},
		{ID: "call_2", Name: "now", Arguments: json.RawMessage(`{}`)},
		{ID: "call_3", Name: "lookup", Arguments: json.RawMessage(`{"country": "Ita`)},
	}
	bothWays(t, func(t *testing.T, stream func(string), _ *strings.Builder) {
		said := calls
		if stream == nil && v.NeedsObjects && !v.AlwaysStreams {
			said = calls[:2] // a whole answer cannot carry what is no JSON
		}
		m, _ := v.playing(t, Answer{Text: []string{"Let me see."}, Calls: said, Stop: model.StopTools})
		got, err := v.ask(t, m, stream)
		if err != nil {
			t.Fatal(err)
		}
		if got.Stop != model.StopTools || got.Text != "Let me see." {
			t.Errorf("stopped with %q after %q", got.Stop, got.Text)
		}
		if diff := cmp.Diff(said, got.Calls, sameJSON); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	})
}

// sameJSON compares arguments without their white space, if they are JSON.
var sameJSON = cmp.Comparer(func(a, b json.RawMessage) bool { return compact(a) == compact(b) })

func compact(raw json.RawMessage) string {
	if !json.Valid(raw) {
		return string(raw)
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) != nil {
		return string(raw)
	}
	sorted, _ := json.Marshal(fields)
	return string(sorted)
}

func (v Vendor) testStops(t *testing.T) {
	for _, stop := range []model.Stop{model.StopEnd, model.StopMaxTokens, model.StopRefusal} {
		t.Run(string(stop), func(t *testing.T) {
			bothWays(t, func(t *testing.T, stream func(string), _ *strings.Builder) {
				m, _ := v.playing(t, Answer{Text: []string{"I would rather not"}, Stop: stop})
				got, err := v.ask(t, m, stream)
				if err != nil || got.Stop != stop || got.Text != "I would rather not" {
					t.Errorf("got %+v, %v", got, err)
				}
			})
		})
	}
}

func (v Vendor) testConversation(t *testing.T) {
	lookup := model.Tool{Name: "lookup", Description: "Looks a country up.", Schema: json.RawMessage(`{"type":"object","properties":{"country":{"type":"string"}},"required":["country"],"additionalProperties":false}`)}
	req := model.Request{
		Model: "m-1-large", System: "Be brief.", MaxTokens: 500, Tools: []model.Tool{lookup},
		Messages: []model.Message{
			{Role: model.User, Text: "The capitals of France and Italy?"},
			{Role: model.Assistant, Text: "I look both up.", Calls: []model.Call{
				{ID: "call_1", Name: "lookup", Arguments: json.RawMessage(`{"country":"France","big":12345678901234567890}`)},
				{ID: "call_2", Name: "lookup", Arguments: json.RawMessage(`{"country":`)},
				{ID: "call_3", Name: "lookup"},
			}},
			{Role: model.User, Text: "And hurry.", Results: []model.Result{
				{CallID: "call_1", Text: "Paris"},
				{CallID: "call_2", Text: "no such country", Failed: true},
				{CallID: "call_3", Text: "which?"},
			}},
		},
	}
	m, server := v.playing(t, Answer{Text: []string{"Paris."}, Stop: model.StopEnd})
	if _, err := m.Generate(t.Context(), "key-1", req, nil); err != nil {
		t.Fatal(err)
	}
	got, err := v.Read(server.Asked()[0])
	if err != nil {
		t.Fatal(err)
	}
	want := req
	calls := want.Messages[1].Calls
	calls[2].Arguments = json.RawMessage(`{}`)
	if v.NeedsObjects {
		calls[1].Arguments = json.RawMessage(`{"malformed":"{\"country\":"}`)
	}
	if v.ForgetsFailed {
		want.Messages[2].Results[1] = model.Result{CallID: "call_2", Text: "Error: no such country"}
	}
	if diff := cmp.Diff(want, got, sameJSON); diff != "" {
		t.Errorf("the vendor was told something else (-want +got)\n%s", diff)
	}
}

func (v Vendor) testNoModel(t *testing.T) {
	m, server := v.playing(t, Answer{Text: []string{"hello"}, Stop: model.StopEnd})
	if _, err := v.ask(t, m, nil); err != nil {
		t.Fatal(err)
	}
	got, err := v.Read(server.Asked()[0])
	if err != nil || got.Model != "m-1" {
		t.Errorf("asked %q, %v; want the default model", got.Model, err)
	}
	req := question()
	req.Tools = []model.Tool{{Name: "lookup", Schema: json.RawMessage(`{"type":`)}}
	if _, err := m.Generate(t.Context(), "key-1", req, nil); kindOf(err) != model.Invalid {
		t.Errorf("a schema that is no JSON: got %v", err)
	}
	if n := len(server.Asked()); n != 1 {
		t.Errorf("%d requests were sent, want 1", n)
	}
}

// within is longer than any call of the suite takes.
const within = 30 * time.Second
