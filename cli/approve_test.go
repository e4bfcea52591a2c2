package cli

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/errand-dev/errand/shared/api"
)

// shows repeats a command until its output has what is wanted.
func shows(t *testing.T, url, want string, args ...string) string {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; {
		code, out, errOut := errand(t, url, args...)
		if strings.Contains(out, want) {
			return out
		}
		if time.Now().After(deadline) {
			t.Fatalf("%v: %d %q %q; want %q", args, code, out, errOut, want)
		}
	}
}

func TestWhatARunAsksIsShownAndAnswered(t *testing.T) {
	url := server(t)
	_, out, _ := errand(t, url, "send", `dispatch lab-approve {"title":"Delete 7 files?"}`)
	id := strings.TrimSpace(strings.TrimPrefix(out, "dispatched "))
	shown := shows(t, url, "waiting", "show", id)
	for _, want := range []string{"waits         for the answer to go-on", "asks          go-on: Delete 7 files?", "answer with   errand approve -c c1 " + id + " go-on"} {
		if !strings.Contains(shown, want) {
			t.Errorf("show lacks %q:\n%s", want, shown)
		}
	}
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"runs"}, "waits for the answer to go-on"},
		{[]string{"tail", "--once"}, "Delete 7 files? (errand approve -c c1 " + id + " go-on)"},
		{[]string{"tail", "--once", id}, "for the answer to go-on"},
		{[]string{"approve", id, "go-on", "--deny", "--note", "not those"}, "denied go-on of " + id},
	} {
		if code, out, errOut := errand(t, url, test.args...); code != exitOK || !strings.Contains(out, test.want) {
			t.Errorf("%v: %d %q %q; want %q", test.args, code, out, errOut, test.want)
		}
	}
	shown = shows(t, url, "completed", "show", id)
	if !strings.Contains(shown, "not those") || strings.Contains(shown, "waits") || strings.Contains(shown, "asks") {
		t.Errorf("afterwards show prints\n%s", shown)
	}
}

func TestAnAnswerIsPrintedAsJSON(t *testing.T) {
	url := server(t)
	_, out, _ := errand(t, url, "send", `dispatch lab-approve {}`)
	id := strings.TrimSpace(strings.TrimPrefix(out, "dispatched "))
	shows(t, url, "waiting", "show", id)
	_, out, _ = errand(t, url, "approve", id, "go-on", "--json")
	var d decision
	if err := json.Unmarshal([]byte(out), &d); err != nil || d != (decision{RunID: id, Approval: "go-on", Approved: true}) {
		t.Errorf("approve: %q %v", out, err)
	}
}

// A turn that waits is found by its id, too. It waits for a run, and asks nothing.
func TestATurnThatWaitsIsShown(t *testing.T) {
	url := server(t)
	_, out, _ := errand(t, url, "send", `dispatch lab-stall {}`)
	run := strings.TrimSpace(strings.TrimPrefix(out, "dispatched "))
	_, out, _ = errand(t, url, "send", "--no-wait", "--json", "join "+run)
	var turn api.Turn
	if err := json.Unmarshal([]byte(out), &turn); err != nil {
		t.Fatal(err)
	}
	shown := shows(t, url, "waiting", "show", turn.ID)
	if !strings.Contains(shown, "waits         for run "+run+" until ") {
		t.Errorf("show prints\n%s", shown)
	}
	shows(t, url, "for run "+run+" until ", "tail", "--once")
	if code, _, errOut := errand(t, url, "approve", turn.ID, "x"); code != exitFailed || !strings.Contains(errOut, "has asked x") {
		t.Errorf("approve: %d %q", code, errOut)
	}
}

func TestAnAnswerThatIsNotRightSaysWhatToDo(t *testing.T) {
	url := server(t)
	_, out, _ := errand(t, url, "send", `dispatch lab-approve {}`)
	id := strings.TrimSpace(strings.TrimPrefix(out, "dispatched "))
	shows(t, url, "waiting", "show", id)
	for name, test := range map[string]struct {
		args []string
		code int
		want string
	}{
		"nothing that was asked": {[]string{id, "other"}, exitFailed, "see what it asks with: errand show -c c1 " + id},
		"nobody who asks":        {[]string{"none", "go-on"}, exitFailed, "no run or turn none of conversation c1 has asked go-on"},
		"no id":                  {[]string{id}, exitUsage, "takes one RUN|TURN and one ID"},
		"an empty id":            {[]string{id, ""}, exitUsage, "takes one RUN|TURN and one ID"},
		"an id that is none":     {[]string{id, "a b"}, exitUsage, "invalid id"},
		"a note without end":     {[]string{id, "go-on", "--note", strings.Repeat("x", 17<<10)}, exitFailed, "at most 16384 are allowed"},
	} {
		if code, _, errOut := errand(t, url, append([]string{"approve"}, test.args...)...); code != test.code || !strings.Contains(errOut, test.want) {
			t.Errorf("%s: %d %q; want %d %q", name, code, errOut, test.code, test.want)
		}
	}
}

// While send waits for a turn that asks people, it says what is asked and how to answer, once.
func TestSendTellsWhatItsTurnAsks(t *testing.T) {
	looks := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		turn := api.Turn{ID: "t-1", Conversation: "c1", Status: "waiting", Approvals: []api.Approval{{ID: "approve:1:0", Title: "May the agent call pay?"}}}
		if looks++; looks > 3 {
			turn.Status, turn.Approvals, turn.Reply = "completed", nil, "Paid."
		}
		w.Header().Set("Content-Type", "application/json")
		if r.Method == http.MethodPost {
			w.WriteHeader(http.StatusAccepted)
		}
		if err := json.NewEncoder(w).Encode(turn); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(s.Close)
	code, out, errOut := errand(t, s.URL, "send", "pay")
	want := "It asks: May the agent call pay?"
	if code != exitOK || out != "Paid.\n" || strings.Count(errOut, want) != 1 || !strings.Contains(errOut, "errand approve -c c1 t-1 approve:1:0 ") {
		t.Errorf("send: %d %q %q", code, out, errOut)
	}
}
