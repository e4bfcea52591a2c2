package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/model"
)

// converse is the loop: it asks the model and makes the calls that it wants, until it
// answers.
func (x *session) converse(ctx context.Context) (string, error) {
	for n := 1; ; n++ {
		if x.spent >= x.limits.Iterations || x.free > x.limits.Iterations {
			return "", terminalf("stopped after %d model calls without an answer", n-1)
		}
		r, err := x.ask(ctx, n)
		if err != nil {
			return "", err
		}
		if x.onlyReports(r) {
			x.free++
		} else {
			x.spent++
		}
		answer, done, err := x.take(ctx, n, r)
		if err != nil {
			return "", err
		}
		heard, err := x.listen(ctx)
		if err != nil || done && !heard {
			return answer, err
		}
	}
}

// take does what the answer asks for; done means that it is the last one.
func (x *session) take(ctx context.Context, n int, r reply) (answer string, done bool, err error) {
	x.remember(n, r)
	switch {
	case r.Stop == model.StopRefusal:
		return "", false, Terminal(&refusedError{r.Text})
	case r.Stop == model.StopMaxTokens:
		return "", false, x.cut(r)
	case len(r.Calls) > 0:
		x.flawed = 0
		return "", false, x.makeCalls(ctx, n, r.Calls)
	}
	return x.finish(r.Text)
}

// remember adds the answer to the context. Calls without an id of their own get one.
func (x *session) remember(n int, r reply) {
	m := model.Message{Role: model.Assistant, Text: r.Text, Opaque: r.Opaque}
	for i := range r.Calls {
		c := &r.Calls[i]
		name := fmt.Sprintf("%d-%d", n, i)
		if _, taken := x.ids[c.ID]; taken || c.ID == "" {
			c.ID = "call-" + name
		}
		x.ids[c.ID] = name
		m.Calls = append(m.Calls, model.Call{ID: c.ID, Name: c.Name, Arguments: presentable(c.Arguments)})
	}
	if m.Text == "" && m.Calls == nil {
		m.Text = "(no words)"
	}
	x.messages = append(x.messages, m)
}

// presentable returns arguments as an object that any vendor's API takes back, also when
// the model wrote something else.
func presentable(arguments string) json.RawMessage {
	if arguments == "" {
		return json.RawMessage("{}")
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal([]byte(arguments), &fields) == nil && fields != nil {
		return json.RawMessage(arguments)
	}
	raw, _ := json.Marshal(map[string]string{"malformed": arguments}) // a string always encodes
	return raw
}

// finish checks the answer against the schema; a bad one is sent back so many times.
func (x *session) finish(text string) (answer string, done bool, err error) {
	if x.output == nil {
		return text, true, nil
	}
	text = unfenced(text)
	problem := x.output.check(json.RawMessage(text))
	if problem == nil {
		return text, true, nil
	}
	if x.flawed++; x.flawed > x.limits.OutputRetries {
		return "", false, terminalf("the answer did not follow its schema after %d tries: %w", x.flawed, problem)
	}
	x.tell(fmt.Sprintf("Your answer does not follow the schema: %v. Answer again, with JSON that does and nothing else.", problem))
	return "", false, nil
}

// cut tells the model that its answer was too long. Nothing in it is acted upon: the
// last call may lack its end.
func (x *session) cut(r reply) error {
	if x.flawed++; x.flawed > x.limits.OutputRetries {
		return terminalf("the answer was cut at its token limit %d times", x.flawed)
	}
	const told = "Your answer was cut at its token limit. Nothing of it was used. Answer again, in fewer words or in smaller pieces."
	if len(r.Calls) == 0 {
		x.tell(told)
		return nil
	}
	outcomes := make([]outcome, len(r.Calls))
	for i := range outcomes {
		outcomes[i] = outcome{Text: told, Failed: true}
	}
	x.addResults(r.Calls, outcomes)
	return nil
}

// listen adds what came into the run's inbox, between steps.
func (x *session) listen(ctx context.Context) (heard bool, err error) {
	if x.run == nil {
		return false, nil
	}
	messages, err := x.run.Inbox(ctx)
	if err != nil {
		return false, durable(err)
	}
	for _, m := range messages {
		x.tell(inboxText(m))
	}
	return len(messages) > 0, nil
}

func inboxText(m agent.Message) string {
	switch {
	case m.From != "":
		return "[Told by run " + m.From + "] " + m.Text
	case m.Source == "agent":
		return "[A message from the agent that sent you off] " + m.Text
	}
	return "[A message to you while you work] " + m.Text
}

// refusedError: the model declines.
type refusedError struct{ words string }

func (e *refusedError) Error() string {
	if e.words == "" {
		return "the model declined to answer"
	}
	return "the model declined to answer: " + e.words
}

// refusal returns the words of a model that declined, if it had any.
func refusal(err error) (string, bool) {
	refused, ok := errors.AsType[*refusedError](err)
	if !ok || refused.words == "" {
		return "", false
	}
	return refused.words, true
}
