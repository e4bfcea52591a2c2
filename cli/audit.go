package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/errand-dev/errand/shared/api"
)

// lateness is how long something may take that should take seconds.
const lateness = 5 * time.Minute

// finding is something that is not as it should be.
type finding struct {
	RunID   string `json:"run_id"`
	Problem string `json:"problem"`
	Next    string `json:"next"`
}

func newAudit() *cobra.Command {
	f := clientFlags{}
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Look for runs whose end was not delivered, or that stand still",
		Long: `Looks at every run of a conversation for what should not be: ends that are dead-lettered
or late, runs beyond their deadline, runs that wait too long for an executor. It
changes nothing. The exit code is 1 if there is a finding.`,
		Example: `  errand audit -c c1 --json`,
		Args:    noArgs,
		RunE: f.client(func(ctx context.Context, s session, _ []string) error {
			runs, err := s.collect(ctx, false)
			if err != nil {
				return err
			}
			findings := audit(s.conversation, runs, time.Now())
			if err := s.print(findings, func() error { return s.printFindings(findings, len(runs)) }); err != nil {
				return err
			}
			if len(findings) > 0 {
				return fmt.Errorf("%d of %d runs need a look", len(findings), len(runs))
			}
			return nil
		}),
	}
	f.add(cmd)
	return cmd
}

// audit judges each run as the server shows it. Clocks may differ a little; what is
// called late is late by minutes.
func audit(conversation string, runs []api.Run, now time.Time) []finding {
	findings := []finding{}
	for _, r := range runs {
		if problem, command := judge(r, now); problem != "" {
			findings = append(findings, finding{r.ID, problem, fmt.Sprintf("errand %s -c %s %s", command, conversation, r.ID)})
		}
	}
	return findings
}

func judge(r api.Run, now time.Time) (problem, command string) {
	late := func(t api.Time) bool { return !t.IsZero() && now.Sub(t.Time) > lateness }
	undelivered := r.Finish.State == "open" || r.Finish.State == "claimed"
	switch {
	case r.Finish.State == "dead_lettered":
		return "its end could not be delivered", "redrive"
	case r.GiveUp.State == "dead_lettered" && r.Status == "interrupted":
		return "its give-up could not be delivered", "redrive --slot give_up"
	case undelivered && late(r.CompletedAt):
		return "its end is not delivered after " + now.Sub(r.CompletedAt.Time).Round(time.Second).String(), "why"
	case r.Live() && late(r.DeadlineAt):
		return "it is beyond its deadline and nobody has given it up", "why"
	case r.Status == "queued" && late(r.DispatchedAt):
		return "no executor has taken it", "why"
	}
	return "", ""
}

func (s session) printFindings(findings []finding, runs int) error {
	if len(findings) == 0 {
		return s.printf("nothing to mend; runs looked at: %d\n", runs)
	}
	for _, f := range findings {
		if err := s.printf("%s: %s\n  %s\n", f.RunID, f.Problem, f.Next); err != nil {
			return err
		}
	}
	return nil
}
