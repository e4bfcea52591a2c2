package cli

import (
	"regexp"
	"strings"
	"testing"
)

func TestWhatARunCostsIsListedAndShown(t *testing.T) {
	url := server(t)
	_, out, _ := errand(t, url, "send", `dispatch lab-spend {"calls":9,"input_tokens":2000,"output_tokens":500} {"max_usd":0.02,"max_tokens":90000}`)
	id, ok := strings.CutPrefix(strings.TrimSpace(out), "dispatched ")
	if !ok {
		t.Fatalf("send: %q", out)
	}
	_, free, _ := errand(t, url, "send", `dispatch lab-echo {"text":"x"}`)
	free = strings.TrimPrefix(strings.TrimSpace(free), "dispatched ")
	shown := shows(t, url, "spend-exceeded", "show", id)
	if _, out, _ := errand(t, url, "runs"); !regexp.MustCompile(id + ` .* \$0\.018 `).MatchString(out) {
		t.Errorf("runs shows no cost:\n%s", out)
	}
	for _, want := range []string{
		"reason        spend-exceeded\n",
		"cost          $0.018, 6 model calls, 12000 tokens in, 3000 out\n",
		"tree cost     $0.018, 6 model calls, 12000 tokens in, 3000 out; the limit is $0.02 and 90000 tokens\n",
	} {
		if !strings.Contains(shown, want) {
			t.Errorf("show lacks %q:\n%s", want, shown)
		}
	}
	_, out, _ = errand(t, url, "show", id, "--json")
	for _, want := range []string{`"reason":"spend-exceeded"`, `"costs":{"run_id":"` + id + `"`, `"max_usd":0.02`} {
		if !strings.Contains(out, want) {
			t.Errorf("show --json lacks %s:\n%s", want, out)
		}
	}
	if out := shows(t, url, "completed", "show", free); strings.Contains(out, "cost") {
		t.Errorf("a run that asked no model shows a cost:\n%s", out)
	}
}
