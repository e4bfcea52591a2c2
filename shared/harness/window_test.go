package harness_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/harness"
	"github.com/errand-dev/errand/shared/model"
)

// bulk returns so many bytes.
func bulk() harness.Tool {
	return harness.NewTool("bulk", "", func(_ context.Context, in numbers) (string, error) {
		return strings.Repeat("x", in.A), nil
	})
}

func TestALargeResultIsShownInPartAndReadPageByPage(t *testing.T) {
	text := strings.Repeat("ä", 1000) // 2,000 bytes
	tool := harness.NewTool("text", "", func(context.Context, struct{}) (string, error) { return text, nil })
	m := script(t, `when
> call text
---
> call read_result {"result":"1-0","offset":701}
> call read_result {"result":"1-0","offset":700}
> call read_result {"result":"1-0","offset":1400}
> call read_result {"result":"9-9"}
---
done`)
	b := newMemory()
	if _, err := b.run(t, harness.Agent{Name: "a", Model: m, Tools: []harness.Tool{tool}, Limits: harness.Limits{ResultBytes: 701}}, `"go"`); err != nil {
		t.Fatal(err)
	}
	shown, note, _ := strings.Cut(m.requests[1].Messages[2].Results[0].Text, "\n")
	if shown != text[:700] || note != `[These are the first 700 of 2000 bytes. read_result {"result":"1-0","offset":700} shows what follows.]` {
		t.Errorf("shown %d bytes and %q", len(shown), note)
	}
	pages := m.lastResults()
	if want := text[700:1400] + "\n[These are bytes 700 to 1400 of 2000. Read on at offset 1400.]"; pages[1].Text != want {
		t.Errorf("second page: %q", pages[1].Text)
	}
	if pages[2].Text != text[1400:] || !pages[3].Failed {
		t.Errorf("last page: %q; unknown result: %+v", pages[2].Text, pages[3])
	}
	var kept struct{ Text string }
	if err := json.Unmarshal(b.journal["tool:1:0"], &kept); err != nil || kept.Text != text {
		t.Errorf("the journal has %d bytes, %v", len(kept.Text), err)
	}
}

func TestTheOldestResultsMakeRoomFirst(t *testing.T) {
	m := script(t, `when fetch
> call bulk {"a":4000,"b":1}
---
> call bulk {"a":4000,"b":2}
---
> call bulk {"a":4000,"b":3}
---
> call read_result {"result":"1-0"}
---
done`)
	a := harness.Agent{Name: "a", Instructions: "Be brief.", Model: m, Tools: []harness.Tool{bulk()},
		Limits: harness.Limits{ContextTokens: 3100, KeepMessages: 2}}
	if _, err := newMemory().run(t, a, `"fetch it all"`); err != nil {
		t.Fatal(err)
	}
	fourth := m.requests[3].Messages
	if got := fourth[2].Results[0].Text; got != `[Taken out to save room: the result of bulk, 4000 bytes. read_result {"result":"1-0"} shows it.]` {
		t.Errorf("the oldest result: %.100q", got)
	}
	if next := fourth[4].Results[0].Text; len(next) != 4000 {
		t.Errorf("the next one was taken out too, though there was room: %.100q", next)
	}
	if newest := fourth[6].Results[0].Text; len(newest) != 4000 {
		t.Errorf("the newest result: %.100q", newest)
	}
	if fourth[0].Text != "fetch it all" || m.requests[3].System != "Be brief." || len(fourth) != 7 {
		t.Errorf("task %q, instructions %q, %d messages", fourth[0].Text, m.requests[3].System, len(fourth))
	}
	if again := m.lastResults()[0].Text; len(again) != 4000 {
		t.Errorf("read again: %.100q", again)
	}
}

func TestOldMessagesOfAConversationMakeRoomAndAreCounted(t *testing.T) {
	b := newMemory()
	for i := range 10 {
		b.lines = append(b.lines, agent.Line{Role: "user", Text: fmt.Sprintf("question %d %s", i, strings.Repeat("x", 400))},
			agent.Line{Role: "assistant", Text: fmt.Sprintf("answer %d", i)})
	}
	b.lines = append(b.lines, agent.Line{Role: "user", Text: "and now?"})
	m := script(t, "when and now\nNow.")
	a := harness.Agent{Name: "a", Model: m, Limits: harness.Limits{ContextTokens: 800, KeepMessages: 3}}
	if got, err := b.turn(t, a); err != nil || got != "Now." {
		t.Fatalf("%q, %v", got, err)
	}
	messages := m.last().Messages
	contains(t, "first message", messages[0].Text, fmt.Sprintf("[%d earlier messages of this conversation are left out to save room.]", 21-len(messages)))
	if len(messages) > 13 || len(messages) < 9 || messages[0].Role != "user" || messages[len(messages)-1].Text != "and now?" {
		t.Errorf("%d messages, the last %q", len(messages), messages[len(messages)-1].Text)
	}
}

func TestATranscriptThatBeginsInTheMiddleSaysSo(t *testing.T) {
	b := newMemory()
	b.lines = []agent.Line{{Role: "user", Text: "one"}, {Role: "assistant", Text: "two"}, {Role: "user", Text: "three", Source: "detached-agent-tool"}}
	m := script(t, "when\nfine")
	if _, err := b.turn(t, harness.Agent{Name: "a", Model: m, Limits: harness.Limits{TranscriptMessages: 2}}); err != nil {
		t.Fatal(err)
	}
	want := "user: [What was said before this is left out.]\nassistant: two\nuser: [Not from the user, but from detached-agent-tool] three\n"
	if got := words(m.last()); got != want {
		t.Errorf("the model read\n%s", got)
	}
}

// narrow is a model whose window has so many bytes.
type narrow struct {
	model.Model
	window int
}

func (n narrow) Generate(ctx context.Context, key string, req model.Request, stream func(string)) (model.Response, error) {
	size := 0
	for _, m := range req.Messages {
		for _, r := range m.Results {
			size += len(r.Text)
		}
	}
	if size > n.window {
		return model.Response{}, &model.Error{Kind: model.TooLong, Err: errors.New("too long")}
	}
	return n.Model.Generate(ctx, key, req, stream)
}

func TestAVendorThatFindsTheContextTooLongGetsAShorterOne(t *testing.T) {
	m := script(t, `when fetch
> call bulk {"a":4000,"b":1}
---
> call bulk {"a":4000,"b":2}
---
done`)
	m.Model = narrow{m.Model, 6000}
	a := harness.Agent{Name: "a", Model: m, Tools: []harness.Tool{bulk()}}
	_, err := newMemory().run(t, a, `"fetch"`)
	if err != nil {
		t.Fatal(err)
	}
	long, short := m.requests[2], m.requests[3]
	if len(long.Messages[2].Results[0].Text) != 4000 || len(short.Messages[2].Results[0].Text) > 200 || len(short.Messages[4].Results[0].Text) != 4000 {
		t.Errorf("the second try: %d and %d bytes", len(short.Messages[2].Results[0].Text), len(short.Messages[4].Results[0].Text))
	}
	if m.keys[2] == m.keys[3] {
		t.Error("another request went out under the same key")
	}
}
