package adapt_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/errand-dev/errand/shared/model"
	"github.com/errand-dev/errand/shared/model/internal/adapt"
)

func TestOnlySchemasThatVendorsCanEnforceAreStrict(t *testing.T) {
	for schema, want := range map[string]bool{
		`{"type":"object","properties":{"a":{"type":["null","array"],"items":{"type":"string"}}},"required":["a"],"additionalProperties":false}`: true,
		`{"type":"object","additionalProperties":false}`:                                                                                                                        true,
		`{"type":"object","properties":{"a":{"type":"string"}},"additionalProperties":false}`:                                                                                   false, // optional
		`{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}`:                                                                                               false, // open
		`{"type":"object","properties":{"a":{"type":"object","additionalProperties":{"type":"string"}}},"required":["a"],"additionalProperties":false}`:                         false, // a map
		`{"type":"object","properties":{"a":{"type":"array","items":{"type":["null","object"]}}},"required":["a"],"additionalProperties":false}`:                                false, // open below
		`{"type":"object","properties":{"a":{"anyOf":[{"type":"string"},{"type":"object"}]}},"required":["a"],"additionalProperties":false}`:                                    false,
		`{"type":"object","properties":{"a":{"type":"string","minLength":1}},"required":["a"],"additionalProperties":false}`:                                                    false, // a term not all know
		`{"type":"object","properties":{"a":{"$ref":"#/$defs/b"}},"required":["a"],"additionalProperties":false,"$defs":{"b":{"type":"object","properties":{},"required":[]}}}`: false,
		`{"type":"object","properties":{"a":true},"required":["a"],"additionalProperties":false}`:                                                                               false,
		`{"type":"array","items":{"type":"string"}}`:                                                                                                                            false,
		`true`: false,
		`{`:    false,
		``:     false,
	} {
		if got := adapt.Strict(json.RawMessage(schema)); got != want {
			t.Errorf("%s: got %t", schema, got)
		}
	}
}

func TestArgumentsBecomeAnObject(t *testing.T) {
	for arguments, want := range map[string]string{
		"": `{}`, `{"a":1}`: `{"a":1}`, `null`: `{"malformed":"null"}`, `[1]`: `{"malformed":"[1]"}`, `{"a":`: `{"malformed":"{\"a\":"}`,
	} {
		if got := string(adapt.Object(json.RawMessage(arguments))); got != want {
			t.Errorf("%q: got %s, want %s", arguments, got, want)
		}
	}
}

// answered is an answer of four pieces.
func answered() (model.Message, []adapt.Piece) {
	a := adapt.NewAnswer("v", "m-1")
	a.AddOwn(json.RawMessage(`{"signed":1}`))
	a.AddText("one ")
	a.AddCall(model.Call{ID: "c1", Name: "f"})
	a.AddMarked("two", "final")
	res := a.Response("", model.StopEnd, model.Usage{})
	m := model.Message{Role: model.Assistant, Text: res.Text, Calls: res.Calls, Opaque: res.Opaque}
	return m, []adapt.Piece{{Own: json.RawMessage(`{"signed":1}`)}, {Text: "one "}, {Call: &m.Calls[0]}, {Text: "two", Mark: "final"}}
}

func TestAnAnswerIsTakenApartAsItWasPutTogether(t *testing.T) {
	m, want := answered()
	if diff := cmp.Diff(want, adapt.Pieces("v", "m-1", m)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestAnAnswerThatIsNoLongerTheSameHasNothingOpaque(t *testing.T) {
	for name, change := range map[string]func(*model.Message){
		"words":   func(m *model.Message) { m.Text = "one two." },
		"calls":   func(m *model.Message) { m.Calls = nil },
		"garbage": func(m *model.Message) { m.Opaque = json.RawMessage(`[`) },
		"a swindler": func(m *model.Message) {
			m.Opaque = json.RawMessage(`{"vendor":"v","model":"m-1","parts":[{"text":8},{"text":-1},{"call":true}]}`)
		},
	} {
		m, _ := answered()
		change(&m)
		for _, p := range adapt.Pieces("v", "m-1", m) {
			if p.Own != nil || p.Mark != "" {
				t.Errorf("%s: got %+v", name, p)
			}
		}
	}
	m, _ := answered()
	if got := adapt.Pieces("v", "m-2", m); len(got) != 2 {
		t.Errorf("another model is shown %+v", got)
	}
}

func TestADateToTryAgainNeedsTheVendorsClock(t *testing.T) {
	c := adapt.Complaint{Status: 429, Header: http.Header{"Retry-After": {"Mon, 30 Nov 2026 12:00:00 GMT"}}}
	err := adapt.Failed(t.Context(), errors.New("x"), func(error) (adapt.Complaint, bool) { return c, true })
	if after, ok := model.Retryable(err); !ok || after != 0 {
		t.Errorf("got %v", after)
	}
	c.Header.Set("Retry-After-Ms", "1500")
	err = adapt.Failed(t.Context(), errors.New("x"), func(error) (adapt.Complaint, bool) { return c, true })
	if after, _ := model.Retryable(err); after.Milliseconds() != 1500 {
		t.Errorf("got %v", after)
	}
}
