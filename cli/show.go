package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/errand-dev/errand/shared/api"
)

func newShow() *cobra.Command {
	f := clientFlags{}
	cmd := &cobra.Command{
		Use:   "show RUN|TURN",
		Short: "Show one background run, or one turn",
		Long: `Shows one background run: its state, what it reports, its milestones, its output, how far its end was
delivered, and what its model calls and those of all below it have cost. While it waits: for what,
and how to answer what it asks people. Shows a turn if no run has the id.`,
		Example: `  errand show r-abc --json`,
		Args:    oneArg("RUN|TURN"),
		RunE: f.client(func(ctx context.Context, s session, args []string) error {
			run, err := s.Run(ctx, s.conversation, args[0])
			if notFound(err) {
				if turn, turnErr := s.Turn(ctx, s.conversation, args[0]); turnErr == nil {
					return s.print(turn, func() error { return s.printRows(s.turnRows(turn)) })
				}
			}
			if err != nil {
				return err
			}
			cost, err := s.RunCost(ctx, s.conversation, run.ID)
			if err != nil {
				return err
			}
			return s.print(costed{run, cost}, func() error { return s.printRun(run, cost) })
		}),
	}
	f.add(cmd)
	return cmd
}

// costed is a run with what it and all below it have cost.
type costed struct {
	api.Run
	Costs api.RunCost `json:"costs"`
}

func newCancel() *cobra.Command {
	f := clientFlags{}
	reason := ""
	cmd := &cobra.Command{
		Use:   "cancel RUN",
		Short: "Cancel a background run and its descendants",
		Long: `Cancels a run and whatever it has dispatched. When the command returns, no step of
any of them starts any more. A run that has ended stays as it is.`,
		Example: `  errand cancel r-abc --reason 'not needed any more'`,
		Args:    oneArg("RUN"),
		RunE: f.client(func(ctx context.Context, s session, args []string) error {
			run, err := s.Cancel(ctx, s.conversation, args[0], reason)
			if err != nil {
				return err
			}
			return s.print(run, func() error { return s.printf("run %s is %s\n", run.ID, run.Status) })
		}),
	}
	f.add(cmd)
	cmd.Flags().StringVar(&reason, "reason", "", "why, shown with the run")
	return cmd
}

func newRedrive() *cobra.Command {
	f := clientFlags{}
	slot := ""
	cmd := &cobra.Command{
		Use:   "redrive RUN",
		Short: "Deliver the dead-lettered end of a run again",
		Long: `A delivery that failed eight times is dead-lettered: it stands still until it is
redriven, after its cause was repaired. Its handler gets a new delivery id.`,
		Example: `  errand redrive r-abc
  errand redrive r-abc --slot give_up`,
		Args: oneArg("RUN"),
		RunE: f.client(func(ctx context.Context, s session, args []string) error {
			if slot != "" && slot != "finish" && slot != "give_up" {
				return usageError{fmt.Errorf("there is no slot %q; it is finish or give_up", slot)}
			}
			run, err := s.Redrive(ctx, s.conversation, args[0], slot)
			if err != nil {
				return err
			}
			return s.print(run, func() error { return s.printf("run %s is being delivered again\n", run.ID) })
		}),
	}
	f.add(cmd)
	cmd.Flags().StringVar(&slot, "slot", "", "finish or give_up (default whichever is dead-lettered)")
	return cmd
}

func newReplay() *cobra.Command {
	f := clientFlags{}
	cmd := &cobra.Command{
		Use:   "replay RUN",
		Short: "Run a background run that has ended once more",
		Long: `Dispatches a run that repeats one that has ended: with its agent, input, budget and
notice, an agent of instructions with those that it had then. What the first did is not
undone. The new run tells which one it repeats.`,
		Example: `  errand replay r-abc`,
		Args:    oneArg("RUN"),
		RunE: f.client(func(ctx context.Context, s session, args []string) error {
			run, err := s.Replay(ctx, s.conversation, args[0], "")
			if err != nil {
				return err
			}
			return s.print(run, func() error { return s.printf("run %s repeats run %s\n", run.ID, run.ReplayOf) })
		}),
	}
	f.add(cmd)
	return cmd
}

func newWhy() *cobra.Command {
	f := clientFlags{}
	cmd := &cobra.Command{
		Use:     "why RUN",
		Short:   "Tell how a run came to where it is, and what happens next",
		Long:    `Tells every claim, attempt and decision about a run as a timeline, and in one sentence what it waits for and what happens next.`,
		Example: `  errand why r-abc`,
		Args:    oneArg("RUN"),
		RunE: f.client(func(ctx context.Context, s session, args []string) error {
			why, err := s.Why(ctx, s.conversation, args[0])
			if err != nil {
				return err
			}
			return s.print(why, func() error {
				for _, m := range why.Timeline {
					if err := s.printf("%s  %-22s %s\n", m.At.Format(clockFormat), oneLine(m.What, 40), oneLine(m.Detail, 120)); err != nil {
						return err
					}
				}
				return s.printf("\n%s\n", plain(why.Now))
			})
		}),
	}
	f.add(cmd)
	return cmd
}

const clockFormat = "2006-01-02 15:04:05.000"

func (s session) printRun(r api.Run, cost api.RunCost) error {
	const width = 400
	rows := [][2]string{
		{"run", r.ID}, {"conversation", r.Conversation}, {"agent", r.Agent}, {"parent", r.ParentRunID}, {"replay of", r.ReplayOf},
		{"status", r.Status}, {"reason", r.Reason}, {"error", oneLine(r.Error, width)}, {"progress", oneLine(progress(r.Progress), width)},
		{"summary", oneLine(r.Summary, width)}, {"output", oneLine(string(r.Output), width)},
		{"dispatched", when(r.DispatchedAt)}, {"started", when(r.StartedAt)}, {"completed", when(r.CompletedAt)}, {"deadline", when(r.DeadlineAt)},
		{"finish", slotText(r.Finish)}, {"give_up", slotText(r.GiveUp)},
	}
	rows = append(rows, s.waitRows(r.ID, r.WaitingFor, r.Approvals)...)
	rows = append(rows, costRows(cost)...)
	for _, m := range r.Milestones {
		rows = append(rows, [2]string{"milestone", m.Name + " at " + when(m.At)})
	}
	return s.printRows(rows)
}

func (s session) turnRows(t api.Turn) [][2]string {
	const width = 400
	rows := [][2]string{
		{"turn", t.ID}, {"conversation", t.Conversation}, {"kind", t.Kind}, {"about run", t.RunID},
		{"status", t.Status}, {"error", oneLine(t.Error, width)}, {"reply", oneLine(t.Reply, width)},
		{"accepted", when(t.AcceptedAt)}, {"started", when(t.StartedAt)}, {"completed", when(t.CompletedAt)},
	}
	return append(rows, s.waitRows(t.ID, t.WaitingFor, t.Approvals)...)
}

// printRows prints names and what they are, but those that are nothing.
func (s session) printRows(rows [][2]string) error {
	for _, row := range rows {
		if row[1] == "" {
			continue
		}
		if err := s.printf("%-13s %s\n", row[0], row[1]); err != nil {
			return err
		}
	}
	return nil
}

func when(t api.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Format(clockFormat)
}

func slotText(slot api.Slot) string {
	if slot.DeliveredAt.IsZero() {
		return slot.State
	}
	return slot.State + " at " + slot.DeliveredAt.Format(time.TimeOnly+".000")
}
