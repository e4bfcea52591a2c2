package cli

import (
	"context"
	"fmt"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/errand-dev/errand/shared/api"
	"github.com/errand-dev/errand/shared/apiclient"
)

func newRuns() *cobra.Command {
	f := clientFlags{}
	active := false
	cmd := &cobra.Command{
		Use:   "runs",
		Short: "List the background runs of a conversation",
		Long:  `Lists the background runs of a conversation, by their ids, with their state, what their model calls have cost, and what they report.`,
		Example: `  errand runs
  errand runs --active -c other --json`,
		Args: noArgs,
		RunE: f.client(func(ctx context.Context, s session, _ []string) error {
			runs, err := s.collect(ctx, active)
			if err != nil {
				return err
			}
			return s.print(runs, func() error { return s.printRuns(runs, time.Now()) })
		}),
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&active, "active", false, "only those that have not ended, oldest first")
	return cmd
}

// collect reads every page.
func (s session) collect(ctx context.Context, active bool) ([]api.Run, error) {
	list := s.AllRuns
	if active {
		list = s.ActiveRuns
	}
	runs := []api.Run{}
	p := apiclient.Page{Limit: api.MaxLimit}
	for {
		page, err := list(ctx, s.conversation, p)
		if err != nil {
			return nil, err
		}
		runs = append(runs, page.Runs...)
		if page.Next == "" {
			return runs, nil
		}
		p.After = page.Next
	}
}

func (s session) printRuns(runs []api.Run, now time.Time) error {
	if len(runs) == 0 {
		return s.printf("no runs in conversation %s\n", s.conversation)
	}
	table := tabwriter.NewWriter(s.out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table, "RUN\tAGENT\tSTATUS\tAGE\tFINISH\tCOST\tSAYS")
	for _, r := range runs {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.ID, r.Agent, r.Status, age(r, now), r.Finish.State, cost(r.Cost), says(r))
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("printing: %w", err)
	}
	return nil
}

// age is how long the run has been, or was, on its way.
func age(r api.Run, now time.Time) string {
	if !r.CompletedAt.IsZero() {
		now = r.CompletedAt.Time
	}
	return now.Sub(r.DispatchedAt.Time).Round(time.Second).String()
}

// cost is what a run's own model calls have cost, in tokens if that is all that is known.
func cost(c *api.Cost) string {
	switch {
	case c == nil:
		return ""
	case c.USD == nil:
		return fmt.Sprintf("%d tokens", c.InputTokens+c.OutputTokens)
	}
	return c.USD.String()
}

// says is what a run has to tell, in one line.
func says(r api.Run) string {
	const width = 60
	switch {
	case r.Error != "":
		return oneLine(r.Error, width)
	case !r.Live() && r.Reason != "":
		return oneLine(r.Reason, width)
	case r.WaitingFor != nil:
		return oneLine("waits "+waitText(*r.WaitingFor), width)
	case r.Summary != "":
		return oneLine(r.Summary, width)
	}
	return oneLine(progress(r.Progress), width)
}

func progress(p *api.Progress) string {
	if p == nil {
		return ""
	}
	text := p.Message
	switch {
	case p.Phase != "" && text != "":
		text = p.Phase + ": " + text
	case p.Phase != "":
		text = p.Phase
	}
	if p.Fraction != nil {
		text = strconv.Itoa(int(*p.Fraction*100)) + "% " + text
	}
	return text
}
