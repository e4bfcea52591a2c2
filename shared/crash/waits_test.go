package crash

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"
)

// decide approves what the run of the order asks, with its id as a note, also while the
// server is killed: until the answer is acknowledged, or the run has ended with it.
func (s *server) decide(one order) {
	path := "/v1/conversations/" + one.conversation + "/runs/" + one.run + "/approvals/go-on"
	for {
		err := s.insist(s.t.Context(), "POST", path, "", map[string]any{"approved": true, "note": one.run}, nil)
		var refused *statusError
		switch {
		case err == nil:
			return
		case !errors.As(err, &refused):
			s.t.Errorf("approving %s: %v", one.run, err)
			return
		case refused.status == http.StatusNotFound:
			// It has not asked yet.
			pause(s.t.Context(), 20*time.Millisecond)
		case refused.status == http.StatusConflict && strings.Contains(refused.body, "/problems/run-ended"):
			// Only the acknowledgement was lost: checkWait sees the answer.
			return
		default:
			s.t.Errorf("approving %s: %v", one.run, err)
			return
		}
	}
}

// checkWait: what was waited for has come, and is what the run ended with.
func checkWait(t *testing.T, one order, r run) {
	t.Helper()
	switch one.agent {
	case "lab-nap":
		if string(r.Output) != `"napped 300 ms"` {
			t.Errorf("run %s: output %s", one.run, r.Output)
		}
	case "lab-approve":
		var d struct {
			Approved bool
			Note     string
		}
		if err := json.Unmarshal(r.Output, &d); err != nil || !d.Approved || d.Note != one.run {
			t.Errorf("run %s: output %s, %v", one.run, r.Output, err)
		}
	case "lab-join":
		var children []struct{ Status string }
		if err := json.Unmarshal(r.Output, &children); err != nil || len(children) != 3 {
			t.Fatalf("run %s: output %s, %v", one.run, r.Output, err)
		}
		completed := 0
		for _, c := range children {
			if c.Status == "completed" {
				completed++
			}
		}
		if completed < 2 {
			t.Errorf("run %s: %d of its children had completed: %s", one.run, completed, r.Output)
		}
	}
}
