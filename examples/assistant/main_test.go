package main

import (
	"regexp"
	"strings"
	"testing"
)

func TestTheConversationGoesOnWhileTheResearcherWorks(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), t.TempDir(), &out); err != nil {
		t.Fatal(err)
	}
	want := `user (user): Which is larger, Bonn or Ulm?
assistant (agent): I have sent the researcher off. What else can I do?
user (user): Thank you.
assistant (agent): You are welcome. It is still at work.
user (detached-agent-tool): The background task "researcher" (run ID) has completed: Here is what I know.
Bonn has 340,000 inhabitants.
Ulm has 130,000 inhabitants.
assistant (agent): The researcher has found out: Here is what I know.
Bonn has 340,000 inhabitants.
Ulm has 130,000 inhabitants.
`
	if got := regexp.MustCompile(`run \w+`).ReplaceAllString(out.String(), "run ID"); got != want {
		t.Errorf("got\n%s", got)
	}
}
