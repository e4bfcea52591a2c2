package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/errand-dev/errand/shared/api"
)

func newAudit() *cobra.Command {
	f, repair, patience := clientFlags{}, false, 30*time.Second
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Look for what should not be in a conversation, and repair it",
		Long: `Has the server look at every row of a conversation for what should not be: places
without runs and runs without places, ends that nobody was told of or that could not be
delivered, executors that died long ago, a tick that does not come, turns that stand still,
anything told twice. What should take seconds is called late after ten minutes.

It changes nothing. With --repair the tick and the wake are sent that may be lost, which is
harmless if they are not, and what they mend is waited for. The exit code is 1 if anything
is left.`,
		Example: `  errand audit -c c1 --json
  errand audit -c c1 --repair`,
		Args: noArgs,
		RunE: f.client(func(ctx context.Context, s session, _ []string) error {
			result, err := s.audit(ctx, repair, patience)
			if err != nil {
				return err
			}
			if err := s.print(result, func() error { return s.printAudit(result) }); err != nil {
				return err
			}
			if n := len(result.Findings); n > 0 {
				return fmt.Errorf("findings: %d", n)
			}
			return nil
		}),
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&repair, "repair", false, "send the tick and the wake that may be lost")
	cmd.Flags().DurationVar(&patience, "timeout", patience, "how long to wait for what a repair mends")
	return cmd
}

// audited is an audit and, if one was asked for, the repair before it.
type audited struct {
	api.Audit
	Repair *repaired `json:"repair,omitempty"`
}

// repaired says what was sent, and what is gone since.
type repaired struct {
	api.Repair
	Mended []api.Finding `json:"mended"`
}

// audit reports what is wrong; with repair, what is still wrong after it.
func (s session) audit(ctx context.Context, repair bool, patience time.Duration) (audited, error) {
	before, err := s.Audit(ctx, s.conversation)
	if err != nil || !repair || !slices.ContainsFunc(before.Findings, repairable) {
		return audited{Audit: before}, err
	}
	sent, err := s.Repair(ctx, s.conversation)
	if err != nil {
		return audited{}, err
	}
	after, err := s.mended(ctx, patience)
	if err != nil {
		return audited{}, err
	}
	done := repaired{Repair: sent, Mended: slices.DeleteFunc(before.Findings, func(f api.Finding) bool {
		return slices.ContainsFunc(after.Findings, func(g api.Finding) bool { f.Problem, g.Problem = "", ""; return f == g })
	})}
	return audited{Audit: after, Repair: &done}, nil
}

func repairable(f api.Finding) bool { return f.Remedy == "repair" }

// mendPoll is the pause between two looks at what a repair has mended.
const mendPoll = 500 * time.Millisecond

// mended audits until nothing is left that a repair mends, or patience is over.
func (s session) mended(ctx context.Context, patience time.Duration) (api.Audit, error) {
	waiting, stop := context.WithTimeout(ctx, patience)
	defer stop()
	tick := time.NewTicker(mendPoll)
	defer tick.Stop()
	for {
		a, err := s.Audit(ctx, s.conversation)
		if err != nil || !slices.ContainsFunc(a.Findings, repairable) {
			return a, err
		}
		select {
		case <-tick.C:
		case <-waiting.Done():
			if errors.Is(waiting.Err(), context.DeadlineExceeded) {
				return a, nil
			}
			return a, context.Cause(ctx)
		}
	}
}

func (s session) printAudit(a audited) error {
	if r := a.Repair; r != nil {
		for _, line := range []struct {
			sent   bool
			format string
			what   any
		}{{r.Tick > 0, "sent tick %d\n", r.Tick}, {r.TurnID != "", "woke turn %s\n", r.TurnID}, {r.Timers > 0, "sent timers: %d\n", r.Timers}} {
			if !line.sent {
				continue
			}
			if err := s.printf(line.format, line.what); err != nil {
				return err
			}
		}
		for _, f := range r.Mended {
			if err := s.printf("mended: %s\n", told(f)); err != nil {
				return err
			}
		}
	}
	if len(a.Findings) == 0 {
		return s.printf("nothing to mend; looked at runs: %d, turns: %d, messages: %d\n", a.Runs, a.Turns, a.Messages)
	}
	for _, f := range a.Findings {
		if err := s.printf("%s\n  %s\n", told(f), s.remedy(f)); err != nil {
			return err
		}
	}
	return nil
}

// told is a finding in one line.
func told(f api.Finding) string {
	words := []string{f.Kind}
	for _, about := range []struct{ what, id string }{{"run", f.RunID}, {"turn", f.TurnID}} {
		if about.id != "" {
			words = append(words, about.what, plain(about.id))
		}
	}
	return strings.Join(words, " ") + ": " + plain(f.Problem)
}

// remedy is what to do about a finding next.
func (s session) remedy(f api.Finding) string {
	switch {
	case f.Remedy == "repair":
		return "errand audit --repair -c " + s.conversation
	case f.Remedy == "redrive" && f.Slot == "give_up":
		return fmt.Sprintf("errand redrive --slot give_up -c %s %s", s.conversation, f.RunID)
	case f.Remedy == "redrive", f.Remedy == "cancel":
		return fmt.Sprintf("errand %s -c %s %s", f.Remedy, s.conversation, f.RunID)
	case f.RunID != "":
		return fmt.Sprintf("errand why -c %s %s", s.conversation, f.RunID)
	}
	return "errand tail --once -c " + s.conversation
}
