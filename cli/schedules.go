package cli

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/errand-dev/errand/shared/api"
)

func newSchedules() *cobra.Command {
	f := clientFlags{}
	cmd := &cobra.Command{
		Use:   "schedules",
		Short: "List the schedules of a conversation, create, change and remove them",
		Long: `Lists the schedules of a conversation with what they do and when they fire next.
A firing is a turn of the conversation. One that the server was not there for comes
late, and once.`,
		Example: `  errand schedules
  errand schedules add 'cron(0 9 ? * MON-FRI *)' --timezone Europe/Berlin --prompt 'Report on the imports.'
  errand schedules set SCHEDULE --disable
  errand schedules remove SCHEDULE`,
		Args: noArgs,
		RunE: f.client(func(ctx context.Context, s session, _ []string) error {
			list, err := s.Schedules(ctx, s.conversation)
			if err != nil {
				return err
			}
			return s.print(list, func() error { return s.printSchedules(list) })
		}),
	}
	f.add(cmd)
	cmd.AddCommand(newAddSchedule(), newSetSchedule(), newRemoveSchedule())
	return cmd
}

// scheduleFlags say what a schedule does.
type scheduleFlags struct {
	clientFlags
	timezone, prompt, message, trigger, endsAt string
}

func (f *scheduleFlags) add(cmd *cobra.Command) {
	f.clientFlags.add(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.timezone, "timezone", "", "IANA name of the time zone (default UTC)")
	flags.StringVar(&f.prompt, "prompt", "", "what the agent is to do")
	flags.StringVar(&f.message, "message", "", "what the user is made to say, instead of a prompt")
	flags.StringVar(&f.trigger, "trigger", "", "name of what the agent is to handle")
	flags.StringVar(&f.endsAt, "ends-at", "", "the last moment at which it may fire, as in 2026-12-31T23:59:59Z")
}

func moment(text string) (api.Time, error) {
	if text == "" {
		return api.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return api.Time{}, usageError{fmt.Errorf("--ends-at is %q; it takes a time such as 2026-12-31T23:59:59Z", text)}
	}
	return api.Time{Time: t}, nil
}

func newAddSchedule() *cobra.Command {
	f, disabled, key := scheduleFlags{}, false, ""
	cmd := &cobra.Command{
		Use:   "add EXPRESSION",
		Short: "Create a schedule",
		Long: `Creates a schedule that fires as EXPRESSION says, which is written as EventBridge
Scheduler has it: cron(minutes hours day-of-month month day-of-week year),
rate(5 minutes) or at(2026-12-24T18:00:00). It needs --prompt, --message or --trigger.`,
		Example: `  errand schedules add 'rate(1 hour)' --prompt 'Look for new files.'
  errand schedules add 'at(2026-12-24T18:00:00)' --timezone Europe/Berlin --message 'say Merry Christmas'`,
		Args: oneArg("EXPRESSION"),
		RunE: f.client(func(ctx context.Context, s session, args []string) error {
			ends, err := moment(f.endsAt)
			if err != nil {
				return err
			}
			enabled := !disabled
			made, err := s.CreateSchedule(ctx, s.conversation, api.ScheduleRequest{
				Expression: args[0], Timezone: f.timezone, Prompt: f.prompt, Message: f.message, Trigger: f.trigger, Enabled: &enabled, EndsAt: ends,
			}, cmp.Or(key, rand.Text()))
			if err != nil {
				return scheduleMistake(err)
			}
			return s.print(made, func() error { return s.printSchedules([]api.Schedule{made}) })
		}),
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&disabled, "disabled", false, "create it switched off")
	cmd.Flags().StringVar(&key, "key", "", "Idempotency-Key: the same key is the same schedule (default a fresh one)")
	return cmd
}

func newSetSchedule() *cobra.Command {
	f := scheduleFlags{}
	expression, enable, disable := "", false, false
	cmd := &cobra.Command{
		Use:   "set SCHEDULE",
		Short: "Change a schedule",
		Long: `Changes what the flags name and leaves the rest as it is; an empty text removes what is
there. What was due already and has not fired still fires, unless --disable.`,
		Example: `  errand schedules set s-1 --expression 'rate(2 hours)'
  errand schedules set s-1 --trigger '' --prompt 'Look for new files.'`,
		Args: oneArg("SCHEDULE"),
	}
	f.add(cmd)
	flags := cmd.Flags()
	flags.StringVar(&expression, "expression", "", "when it fires")
	flags.BoolVar(&enable, "enable", false, "switch it on")
	flags.BoolVar(&disable, "disable", false, "switch it off")
	cmd.MarkFlagsMutuallyExclusive("enable", "disable")
	cmd.RunE = f.client(func(ctx context.Context, s session, args []string) error {
		to := api.ScheduleChange{}
		for name, into := range map[string]*api.Field[string]{
			"expression": &to.Expression, "timezone": &to.Timezone, "prompt": &to.Prompt, "message": &to.Message, "trigger": &to.Trigger,
		} {
			if flag := flags.Lookup(name); flag.Changed {
				*into = api.Of(flag.Value.String())
			}
		}
		if flags.Changed("ends-at") {
			ends, err := moment(f.endsAt)
			if err != nil {
				return err
			}
			to.EndsAt.Set = true
			if !ends.IsZero() {
				to.EndsAt = api.Of(ends)
			}
		}
		if enable || disable {
			to.Enabled = &enable
		}
		changed, err := s.ChangeSchedule(ctx, s.conversation, args[0], to)
		if err != nil {
			return scheduleMistake(err)
		}
		return s.print(changed, func() error { return s.printSchedules([]api.Schedule{changed}) })
	})
	return cmd
}

func newRemoveSchedule() *cobra.Command {
	f := clientFlags{}
	cmd := &cobra.Command{
		Use:     "remove SCHEDULE",
		Short:   "Delete a schedule",
		Long:    `Deletes a schedule. What it has fired already goes on.`,
		Example: `  errand schedules remove s-1`,
		Args:    oneArg("SCHEDULE"),
		RunE: f.client(func(ctx context.Context, s session, args []string) error {
			if err := s.DeleteSchedule(ctx, s.conversation, args[0]); err != nil {
				return err
			}
			return s.print(map[string]string{"removed": args[0]}, func() error { return s.printf("schedule %s is removed\n", args[0]) })
		}),
	}
	f.add(cmd)
	return cmd
}

// scheduleMistake marks what the caller can only mend by another call.
func scheduleMistake(err error) error {
	if p, ok := errors.AsType[*api.Problem](err); ok && (p.Code() == "invalid-schedule" || p.Code() == "invalid-body") {
		return usageError{err}
	}
	return err
}

func (s session) printSchedules(list []api.Schedule) error {
	if len(list) == 0 {
		return s.printf("no schedules in conversation %s\n", s.conversation)
	}
	const width = 50
	table := tabwriter.NewWriter(s.out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table, "SCHEDULE\tWHEN\tTIME ZONE\tSTATUS\tNEXT\tDOES")
	for _, one := range list {
		next := "-"
		if !one.NextAt.IsZero() {
			next = one.NextAt.UTC().Format(time.RFC3339)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", one.ID, one.Expression, one.Timezone, one.Status, next, oneLine(cmp.Or(one.Prompt, one.Message), width))
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("printing: %w", err)
	}
	return nil
}
