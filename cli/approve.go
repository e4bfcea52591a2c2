package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/errand-dev/errand/shared/api"
)

func newApprove() *cobra.Command {
	f := clientFlags{}
	deny, note := false, ""
	cmd := &cobra.Command{
		Use:   "approve RUN|TURN ID",
		Short: "Answer what a run or turn asks people",
		Long: `Approves, or with --deny refuses, what a run or a turn asks and waits for. It goes on
with the answer at once. The first answer stands: the same one again changes nothing
while the run or turn goes on, another one is refused.

'errand show RUN|TURN' prints the open questions with their IDs, 'errand tail' each one when
it is asked. A question that is asked with a bound is open until then.`,
		Example: `  errand approve r-abc go-on
  errand approve r-abc go-on --deny --note 'keep the files of March'`,
		Args: twoArgs("RUN|TURN", "ID"),
		RunE: f.client(func(ctx context.Context, s session, args []string) error {
			yes := !deny
			answer, err := s.decide(ctx, args[0], args[1], api.DecisionRequest{Approved: &yes, Note: note})
			if err != nil {
				return err
			}
			return s.print(answer, func() error {
				return s.printf("%s %s of %s\n", map[bool]string{true: "approved", false: "denied"}[yes], answer.Approval, args[0])
			})
		}),
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&deny, "deny", false, "refuse instead")
	cmd.Flags().StringVar(&note, "note", "", "what to say about it; the run or turn gets it with the decision")
	return cmd
}

// decision is what was answered, and to whom.
type decision struct {
	RunID    string `json:"run_id,omitempty"`
	TurnID   string `json:"turn_id,omitempty"`
	Approval string `json:"approval"`
	Approved bool   `json:"approved"`
	Note     string `json:"note,omitempty"`
}

// decide answers the question of a run of that id or, if no such run has asked it, of a turn.
func (s session) decide(ctx context.Context, asker, id string, d api.DecisionRequest) (decision, error) {
	answer := decision{Approval: id, Approved: *d.Approved, Note: d.Note}
	err := s.DecideRun(ctx, s.conversation, asker, id, d)
	if answer.RunID = asker; !notFound(err) {
		return answer, err
	}
	err = s.DecideTurn(ctx, s.conversation, asker, id, d)
	if answer.RunID, answer.TurnID = "", asker; !notFound(err) {
		return answer, err
	}
	return answer, advice{
		fmt.Errorf("no run or turn %s of conversation %s has asked %s", asker, s.conversation, id),
		fmt.Sprintf("see what it asks with: errand show -c %s %s (-c names another conversation)", s.conversation, asker),
	}
}

func notFound(err error) bool {
	var p *api.Problem
	return errors.As(err, &p) && p.Status == http.StatusNotFound && p.Code() == "not-found"
}

// twoArgs wants exactly two arguments, of those names.
func twoArgs(first, second string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 2 || args[0] == "" || args[1] == "" {
			return usageError{fmt.Errorf("%s takes one %s and one %s; see '%s --help'", cmd.CommandPath(), first, second, cmd.CommandPath())}
		}
		return nil
	}
}

// waitRows are what a run or turn waits for and asks, and how to answer.
func (s session) waitRows(asker string, w *api.Wait, open []api.Approval) [][2]string {
	const width = 400
	var rows [][2]string
	if w != nil {
		rows = append(rows, [2]string{"waits", waitText(*w)})
	}
	for _, a := range open {
		rows = append(rows, [2]string{"asks", oneLine(a.ID+": "+a.Title, width)}, [2]string{"detail", oneLine(string(a.Detail), width)},
			[2]string{"answer with", s.answerWith(asker, a.ID) + " (or with --deny)"})
	}
	return rows
}

func (s session) answerWith(asker, approval string) string {
	return fmt.Sprintf("errand approve -c %s %s %s", s.conversation, asker, approval)
}

// waitText says in a line what is waited for.
func waitText(w api.Wait) string {
	var text string
	switch {
	case w.Signal != "":
		text = "for the answer to " + w.Signal
	case w.Milestone != "":
		text = "for milestone " + w.Milestone + " of run " + strings.Join(w.Runs, ", ")
	case len(w.Runs) == 1:
		text = "for run " + w.Runs[0]
	case len(w.Runs) > 1:
		text = fmt.Sprintf("for %d of the runs %s", w.Need, strings.Join(w.Runs, ", "))
	}
	if !w.Until.IsZero() {
		text = strings.TrimSpace(text + " until " + when(w.Until))
	}
	return text
}

// eventText is what an event has to tell: its data, or, of what waits and asks, a sentence.
func (s session) eventText(e api.Event) string {
	switch e.Type {
	case "run.waiting", "turn.waiting":
		var w struct {
			api.Wait
			UntilMS int64 `json:"until_ms"`
		}
		if json.Unmarshal(e.Data, &w) == nil {
			if w.UntilMS != 0 {
				w.Until = api.Time{Time: time.UnixMilli(w.UntilMS).UTC()}
			}
			return waitText(w.Wait)
		}
	case "approval.requested":
		var q struct{ Name, Title string }
		if json.Unmarshal(e.Data, &q) == nil {
			// A turn may be about a run that asks nothing.
			return q.Title + " (" + s.answerWith(cmp.Or(e.TurnID, e.RunID), q.Name) + ")"
		}
	}
	return string(e.Data)
}
