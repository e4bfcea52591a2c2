package scriptmodel_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/errand-dev/errand/shared/model"
	"github.com/errand-dev/errand/shared/model/scriptmodel"
)

const capitals = `
# Look it up, then say it.
when capital of (\w+)
> call lookup {"country": "{{1}}"}
---
The capital is {{result}}.

when thank
You are welcome.
\when in doubt, ask.
`

func parse(t *testing.T, script string) *scriptmodel.Model {
	t.Helper()
	m, err := scriptmodel.Parse("test", script)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func user(text string) model.Message { return model.Message{Role: model.User, Text: text} }

func TestTheAnswerThatIsDueIsReadFromTheRequest(t *testing.T) {
	ask := func(messages ...model.Message) model.Response {
		// A new model each time, as after a restart.
		res, err := parse(t, capitals).Generate(t.Context(), "k", model.Request{Messages: messages}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	question := user("What is the capital of France?")
	first := ask(question)
	if first.Stop != model.StopTools || len(first.Calls) != 1 || string(first.Calls[0].Arguments) != `{"country": "France"}` {
		t.Fatalf("first answer: %+v", first)
	}
	called := model.Message{Role: model.Assistant, Calls: first.Calls}
	result := model.Message{Role: model.User, Results: []model.Result{{CallID: first.Calls[0].ID, Text: "Paris"}}}
	if got := ask(question, called, result); got.Text != "The capital is Paris." || got.Stop != model.StopEnd {
		t.Errorf("second answer: %+v", got)
	}
	if got := ask(question, model.Message{Role: model.Assistant, Text: "Paris."}, user("Thanks!")); got.Text != "You are welcome.\nwhen in doubt, ask." {
		t.Errorf("the newest words do not decide: %q", got.Text)
	}
}

func TestWordsThatNoSceneMatchesGoOnWithTheSceneBefore(t *testing.T) {
	said := []model.Message{user("count"), {Role: model.Assistant, Text: "one"}, user("and?")}
	for script, want := range map[string]string{
		"when count\none\n---\ntwo":                "two",
		"when count\none\n---\ntwo\nwhen\nPardon?": "Pardon?",
	} {
		res, err := parse(t, script).Generate(t.Context(), "k", model.Request{Messages: said}, nil)
		if err != nil || res.Text != want {
			t.Errorf("%q answers %q, %v; want %q", script, res.Text, err, want)
		}
	}
}

func TestWhatTheScriptDoesNotForeseeIsInvalid(t *testing.T) {
	m := parse(t, capitals)
	for _, messages := range [][]model.Message{
		{user("hello")},
		{user("thanks"), {Role: model.Assistant, Text: "x"}, user("and?")},
	} {
		_, err := m.Generate(t.Context(), "k", model.Request{Messages: messages}, nil)
		if failed, ok := errors.AsType[*model.Error](err); !ok || failed.Kind != model.Invalid {
			t.Errorf("got %v", err)
		}
	}
}

func TestAFaultIsMetSoManyTimesThenTheAnswerComes(t *testing.T) {
	m := parse(t, "when\n> fail overloaded times 2 after 3s\nfine")
	req := model.Request{Messages: []model.Message{user("x")}}
	for range 2 {
		_, err := m.Generate(t.Context(), "k", req, nil)
		if after, ok := model.Retryable(err); !ok || after != 3*time.Second {
			t.Fatalf("got %v", err)
		}
	}
	if res, err := m.Generate(t.Context(), "k", req, nil); err != nil || res.Text != "fine" {
		t.Errorf("got %+v, %v", res, err)
	}
}

func TestACutStreamsHalfOfTheText(t *testing.T) {
	m := parse(t, "when\n> cut\n0123456789")
	var got strings.Builder
	_, err := m.Generate(t.Context(), "k", model.Request{Messages: []model.Message{user("x")}}, func(s string) { got.WriteString(s) })
	if failed, ok := errors.AsType[*model.Error](err); !ok || failed.Kind != model.Broken || got.String() != "01234" {
		t.Errorf("got %v after %q", err, &got)
	}
}

func TestAWaitEndsWithItsContext(t *testing.T) {
	m := parse(t, "when\n> wait 1h\nlate")
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("enough")
	cancel(cause)
	_, err := m.Generate(ctx, "k", model.Request{Messages: []model.Message{user("x")}}, nil)
	if failed, ok := errors.AsType[*model.Error](err); !ok || failed.Kind != model.Ended || !errors.Is(err, cause) {
		t.Errorf("got %v", err)
	}
}

func TestAScenePlaysForItsModelOnly(t *testing.T) {
	m := parse(t, "when\n> model small\nI am small.\nwhen\nI am any.\n> repeat")
	for name, want := range map[string]string{"small": "I am small.", "large": "I am any."} {
		res, err := m.Generate(t.Context(), "k", model.Request{Model: name, Messages: []model.Message{user("x")}}, nil)
		if err != nil || res.Text != want {
			t.Errorf("%s: %q, %v", name, res.Text, err)
		}
	}
}

func TestABadScriptIsRefusedWithItsLine(t *testing.T) {
	for script, want := range map[string]string{
		"":                          "at least one line",
		"hello":                     "s:1: this line belongs to no scene",
		"when (":                    "s:1: the pattern",
		"when a\n> jump":            `s:2: "jump" is no directive`,
		"when a\n> fail":            "s:2: fail needs a kind",
		"when a\n> fail badly":      `s:2: "badly" is no kind`,
		"when a\n> fail timeout 3":  "s:2: \"3\" is not understood",
		"when a\n> stop now":        "s:2: stop",
		"when a\n> tokens x":        "s:2: tokens needs two numbers",
		"when a\n> wait long":       "s:2: wait needs a duration",
		"when a\n> call":            "s:2: call needs the name",
		"when a\n> cut times often": "s:2: ",
	} {
		if _, err := scriptmodel.Parse("s", script); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", script, err, want)
		}
	}
}

func Example() {
	m, err := scriptmodel.Parse("capitals", capitals)
	if err != nil {
		fmt.Println(err)
		return
	}
	res, err := m.Generate(context.Background(), "key", model.Request{Messages: []model.Message{user("the capital of France")}}, nil)
	fmt.Println(res.Calls[0].Name, string(res.Calls[0].Arguments), err)
	// Output: lookup {"country": "France"} <nil>
}
