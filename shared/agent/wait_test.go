package agent_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/subagent"
)

func TestAQuestionThatIsTooLargeIsNotAsked(t *testing.T) {
	t.Parallel()
	// Without a backend: a question that got through would be a panic.
	run := agent.NewRun(subagent.Run{ID: "r"}, nil, nil)
	for want, q := range map[string]agent.Question{
		"the title of question q has 1025 bytes":   {Name: "q", Title: strings.Repeat("?", 1025)},
		"the detail of question q has 16385 bytes": {Name: "q", Detail: json.RawMessage(strings.Repeat("1", 16385))},
	} {
		if err := run.Ask(t.Context(), q, 0); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
