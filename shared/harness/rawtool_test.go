package harness_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/harness"
)

const portSchema = `{"type":"object","properties":{"port":{"type":"integer","maximum":65535}},"required":["port"]}`

func TestARawToolGetsTheArgumentsAsTheModelGaveThem(t *testing.T) {
	var got string
	tool := harness.NewRawTool("probe", "Probes a port.", json.RawMessage(portSchema), func(_ context.Context, args json.RawMessage) (string, error) {
		got = string(args)
		return "open", nil
	})
	m := script(t, "when go\n> call probe {\"port\": 22, \"more\": 12345678901234567890}\n---\n{{result}}")
	answer, err := newMemory().run(t, harness.Agent{Name: "a", Model: m, Tools: []harness.Tool{tool}}, `"go"`)
	if err != nil || answer != "open" || got != `{"port": 22, "more": 12345678901234567890}` {
		t.Errorf("answer %v, %v; arguments %s", answer, err, got)
	}
	for _, offered := range m.last().Tools {
		if offered.Name == "probe" && (string(offered.Schema) != portSchema || offered.Description != "Probes a port.") {
			t.Errorf("offered as %+v", offered)
		}
	}
}

func TestArgumentsThatDoNotFollowTheSchemaNeverReachARawTool(t *testing.T) {
	tool := harness.NewRawTool("probe", "", json.RawMessage(portSchema), func(context.Context, json.RawMessage) (string, error) {
		t.Error("called")
		return "", nil
	})
	for arguments, want := range map[string]string{`{"port":70000}`: "65535", `{}`: "port", `[]`: "object"} {
		text, failed, err := called(t, tool, arguments, harness.Limits{})
		if err != nil || !failed {
			t.Errorf("%s: failed %v, %v", arguments, failed, err)
		}
		contains(t, arguments, text, want)
	}
}

func TestErrorsOfARawToolAreThoseOfAnyTool(t *testing.T) {
	broken := errors.New("broken")
	fails := func(err error) harness.Tool {
		return harness.NewRawTool("fail", "", json.RawMessage(`{"type":"object"}`), func(context.Context, json.RawMessage) (string, error) { return "", err })
	}
	if text, failed, err := called(t, fails(broken), "", harness.Limits{}); err != nil || !failed || text != "broken" {
		t.Errorf("plain: %q, %v, %v", text, failed, err)
	}
	if _, _, err := called(t, fails(agent.Retryable(broken)), "", harness.Limits{}); !agent.IsRetryable(err) {
		t.Errorf("retryable: %v", err)
	}
}

func TestRegisterRefusesARawToolWithoutAnObjectsSchema(t *testing.T) {
	for schema, want := range map[string]string{
		``:                  "reading a JSON schema",
		`{"type":["object"`: "reading a JSON schema",
		`{"type":"array"}`:  `must be an object, not "array"`,
		`{}`:                "must be an object",
	} {
		tool := harness.NewRawTool("odd", "", json.RawMessage(schema), func(context.Context, json.RawMessage) (string, error) { return "", nil })
		err := harness.Register(agent.NewRegistry(), harness.Agent{Name: "a", Model: script(t, "when go\nhi"), Tools: []harness.Tool{tool}})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), `tool "odd"`) {
			t.Errorf("%s: got %v, want %s", schema, err, want)
		}
	}
}
