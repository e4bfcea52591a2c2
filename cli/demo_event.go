package cli

import (
	"fmt"

	"github.com/errand-dev/errand/shared/subagent"
)

// demoEvent is what the demo tells of: to the screen, as a line of --json, and from
// the killed worker to its watcher.
type demoEvent struct {
	Type string `json:"type"`
	// Data is the data folder, File the file that was given; of started and stopped.
	Data     string        `json:"data,omitempty"`
	File     string        `json:"file,omitempty"`
	Message  *demoMessage  `json:"message,omitempty"`
	Progress *demoProgress `json:"progress,omitempty"`
	Report   *demoReport   `json:"report,omitempty"`
}

// Types of events.
const (
	eventStarted  = "started"
	eventMessage  = "message"
	eventProgress = "progress"
	eventKilled   = "killed"
	eventStopped  = "stopped"
	eventReport   = "report"
)

// demoMessage is an entry of the conversation's transcript.
type demoMessage struct {
	Seq int64 `json:"seq"`
	// AtMS counts from the first message of the conversation.
	AtMS   int64  `json:"at_ms"`
	Role   string `json:"role"`
	Source string `json:"source"`
	Text   string `json:"text"`
	// Run is the background run that an injected message tells of.
	Run string `json:"run_id,omitempty"`
	// AnswerMS is how long the user waited for this reply.
	AnswerMS *int64 `json:"answer_ms,omitempty"`
}

// demoProgress is the latest report of a run.
type demoProgress struct {
	AtMS     int64   `json:"at_ms"`
	Run      string  `json:"run_id"`
	Fraction float64 `json:"fraction"`
	Phase    string  `json:"phase"`
	Message  string  `json:"message"`
}

// demoReport sums the conversation up.
type demoReport struct {
	Data string `json:"data"`
	// DispatchMS is how long the first turn took, which sent the importer off and waited for the
	// columns; WaitedMS of that no process held it.
	DispatchMS int64 `json:"dispatch_ms"`
	WaitedMS   int64 `json:"waited_ms"`
	// Meanwhile are the user's turns that were answered while an import ran.
	Meanwhile []demoAnswer `json:"answered_meanwhile"`
	Imports   []demoImport `json:"imports"`
}

type demoAnswer struct {
	Question string `json:"question"`
	MS       int64  `json:"ms"`
}

// demoImport is one import as its run tells it.
type demoImport struct {
	Run      string          `json:"run_id"`
	Source   string          `json:"source"`
	Status   subagent.Status `json:"status"`
	Problem  string          `json:"problem,omitempty"`
	Database string          `json:"database,omitempty"`
	Table    string          `json:"table,omitempty"`
	Rows     int64           `json:"rows"`
	// Executions is more than one if a worker died.
	Executions int64 `json:"executions"`
	// RunMS is from the first execution to the end, NoticeMS from the end to the message.
	RunMS    int64 `json:"run_ms"`
	NoticeMS int64 `json:"notice_ms"`
	// Told is how often the conversation heard of the end.
	Told int `json:"told"`
	// Sample is the header and the first rows of the table.
	Sample [][]string `json:"sample,omitempty"`
}

// failure is the error of a demo in which an import did not complete.
func (r *demoReport) failure() error {
	for _, i := range r.Imports {
		if i.Status != subagent.Completed {
			return fmt.Errorf("the %s ended as %s", i.Source, i.Status)
		}
	}
	return nil
}
