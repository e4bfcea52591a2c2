package harness_test

import (
	"context"
	"encoding/json"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/harness"
)

func TestAllAgentsAreRegisteredAsTaskAndAsChat(t *testing.T) {
	m := script(t, "when\nhi")
	r := agent.NewRegistry()
	if err := r.AddTask("importer", func(context.Context, *agent.Run) (any, error) { return nil, nil }); err != nil {
		t.Fatal(err)
	}
	err := harness.Register(r,
		harness.Agent{Name: "assistant", Model: m, Subagents: []harness.Subagent{{Name: "reader"}, {Name: "importer"}}},
		harness.Agent{Name: "reader", Model: m})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"assistant", "importer", "reader"}, r.Tasks()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"assistant", "reader"}, r.Chats()); diff != "" || r.DefaultChat != "assistant" {
		t.Error(diff, r.DefaultChat)
	}
}

func TestABadDeclarationIsRefusedAndNothingIsRegistered(t *testing.T) {
	m := script(t, "when\nhi")
	var calls int
	add := adder(&calls)
	type agents = []harness.Agent
	sub := func(names ...string) (subs []harness.Subagent) {
		for _, name := range names {
			subs = append(subs, harness.Subagent{Name: name})
		}
		return subs
	}
	unknown := harness.NewTool("call", "", func(context.Context, struct{ F func() }) (string, error) { return "", nil })
	scalar := harness.NewTool("count", "", func(context.Context, int) (string, error) { return "", nil })
	for want, bad := range map[string]agents{
		`agent "a": there is one of this name`:                                     {{Name: "a", Model: m}, {Name: "a", Model: m}},
		`agent "taken": there is one of this name`:                                 {{Name: "taken", Model: m}},
		`agent "a b": a name has 1 to 64 letters`:                                  {{Name: "a b", Model: m}},
		`agent "a": it has no model`:                                               {{Name: "a"}},
		`agent "a": its subagent "b" is neither an agent nor a registered task`:    {{Name: "a", Model: m, Subagents: sub("b")}},
		`agent "a": tool "add": there is one of this name`:                         {{Name: "a", Model: m, Tools: []harness.Tool{add, add}}},
		`agent "a": tool "ask_b": there is one of this name`:                       {{Name: "a", Model: m, Subagents: sub("b", "b")}, {Name: "b", Model: m}},
		`agent "a": tool "call": deriving a JSON schema`:                           {{Name: "a", Model: m, Tools: []harness.Tool{unknown}}},
		`agent "a": tool "count": arguments must be an object, not "integer"`:      {{Name: "a", Model: m, Tools: []harness.Tool{scalar}}},
		`agent "a": tool "": a name has`:                                           {{Name: "a", Model: m, Tools: []harness.Tool{{}}}},
		`tool "add" has the policy "maybe"`:                                        {{Name: "a", Model: m, Tools: []harness.Tool{add}, Policies: map[string]harness.Policy{"add": "maybe"}}},
		`agent "a": its policy names the tool "ad", which no agent has`:            {{Name: "a", Model: m, Tools: []harness.Tool{add}, Policies: map[string]harness.Policy{"ad": harness.Disabled}}},
		`agent "a": its output schema`:                                             {{Name: "a", Model: m, OutputSchema: json.RawMessage(`{"type":7}`)}},
		`agent "a": its limit Iterations is -1`:                                    {{Name: "a", Model: m, Limits: harness.Limits{Iterations: -1}}},
		`agents send each other off in a cycle, a -> b -> a; set Limits.Depth`:     {{Name: "a", Model: m, Subagents: sub("b")}, {Name: "b", Model: m, Subagents: sub("a")}},
		`agents send each other off in a cycle, c -> c`:                            {{Name: "a", Model: m, Subagents: sub("c")}, {Name: "c", Model: m, Subagents: sub("c")}},
		`the input of subagent "taken": arguments must be an object, not "string"`: {{Name: "a", Model: m, Subagents: []harness.Subagent{{Name: "taken", Input: json.RawMessage(`{"type":"string"}`)}}}},
	} {
		r := agent.NewRegistry()
		if err := r.AddTask("taken", func(context.Context, *agent.Run) (any, error) { return nil, nil }); err != nil {
			t.Fatal(err)
		}
		err := harness.Register(r, bad...)
		if err == nil {
			t.Errorf("accepted, want %q", want)
			continue
		}
		contains(t, "refusal", err.Error(), want)
		if len(r.Tasks()) != 1 || len(r.Chats()) != 0 {
			t.Errorf("%s: registered %v %v", want, r.Tasks(), r.Chats())
		}
	}
}

func TestADepthLimitAnywhereInACycleEndsIt(t *testing.T) {
	m := script(t, "when\nhi")
	err := harness.Register(agent.NewRegistry(),
		harness.Agent{Name: "a", Model: m, Subagents: []harness.Subagent{{Name: "b"}}},
		harness.Agent{Name: "b", Model: m, Subagents: []harness.Subagent{{Name: "a"}}, Limits: harness.Limits{Depth: 2}})
	if err != nil {
		t.Error(err)
	}
}

func TestAgentsAreLoadedFromMarkdown(t *testing.T) {
	m := script(t, "when\nhi")
	var calls int
	add := adder(&calls)
	agents, err := harness.Load(fstest.MapFS{
		"2-writer.md": {Data: []byte("---\nname: writer\n---\n")},
		"1-reader.md": {Data: []byte("---\r\nname: reader\ndescription: \"Reads: everything.\"\nmodel: small\n# a comment\ntools: [add]\ndisabled:\n  - manage_work\nsubagents: writer, reader\n---\n\nYou read.\n---\nAll of it.\n")},
		"notes.txt":   {Data: []byte("not an agent")},
	}, harness.Parts{Model: m, Tools: []harness.Tool{add}})
	if err != nil || len(agents) != 2 {
		t.Fatal(err, len(agents))
	}
	a := agents[0]
	if a.Name != "reader" || a.Description != "Reads: everything." || a.ModelName != "small" || a.Instructions != "You read.\n---\nAll of it." ||
		len(a.Tools) != 1 || len(a.Subagents) != 2 || a.Subagents[1].Name != "reader" || a.Policies["manage_work"] != harness.Disabled {
		t.Errorf("reader: %+v", a)
	}
	if agents[1].Name != "writer" || agents[1].Model == nil {
		t.Errorf("writer: %+v", agents[1])
	}
}

func TestABadAgentFileIsRefusedWithItsLine(t *testing.T) {
	for text, want := range map[string]string{
		"You read.":                           `a.md:1: an agent's file begins with a line "---"`,
		"---\nname: a":                        "a.md:1: the fields are not closed",
		"---\nmodel: x\n---\n":                `a.md:1: there is no name; for this file it could be "a"`,
		"---\nname: a\nnam: b\n---\n":         `a.md:3: there is no field "nam"`,
		"---\nname: a\nname: b\n---\n":        `a.md:3: the field "name" stands here twice`,
		"---\nname: a\nhello\n---\n":          `a.md:3: "hello" is neither`,
		"---\n- a\n---\n":                     "a.md:2: this entry belongs to no list",
		"---\nname: a\n- b\n---\n":            "a.md:3: this entry belongs to no list",
		"---\nname: a\ntools: x\n---\n":       `a.md:3: there is no tool "x"`,
		"---\nname: a\ntools:\n\n - x\n---\n": `a.md:5: there is no tool "x"`,
		"---\nname: b\n---\n":                 `b.md:2: agent "b" is in a.md already`,
	} {
		_, err := harness.Load(fstest.MapFS{"a.md": {Data: []byte(text)}, "b.md": {Data: []byte("---\nname: b\n---\n")}}, harness.Parts{})
		if err == nil {
			t.Errorf("%q: accepted", text)
			continue
		}
		contains(t, text, err.Error(), want)
	}
}
