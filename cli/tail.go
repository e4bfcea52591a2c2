package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/errand-dev/errand/shared/api"
	"github.com/errand-dev/errand/shared/apiclient"
)

func newTail() *cobra.Command {
	f := clientFlags{}
	after, once := int64(0), false
	cmd := &cobra.Command{
		Use:   "tail [RUN]",
		Short: "Watch what happens in a conversation, or to one of its runs",
		Long: `Prints the event log of a conversation, or of one run of it, and then what comes,
until it is interrupted. A broken connection is made anew from the last event.`,
		Example: `  errand tail
  errand tail r-abc --json | jq .type`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return oneArg("RUN")(cmd, args)
		},
		RunE: f.client(func(ctx context.Context, s session, args []string) error {
			q := apiclient.EventQuery{Conversation: s.conversation, After: after, Limit: api.MaxLimit}
			if len(args) == 1 {
				q.Run = args[0]
			}
			if once {
				return s.pastEvents(ctx, q)
			}
			return s.follow(ctx, q)
		}),
	}
	f.add(cmd)
	cmd.Flags().Int64Var(&after, "after", 0, "begin after the event of this number")
	cmd.Flags().BoolVar(&once, "once", false, "print what there is and return")
	return cmd
}

func (s session) pastEvents(ctx context.Context, q apiclient.EventQuery) error {
	for {
		page, err := s.Events(ctx, q)
		if err != nil {
			return err
		}
		for _, e := range page.Events {
			if err := s.printEvent(e); err != nil {
				return err
			}
		}
		if page.Next == q.After {
			return nil
		}
		q.After = page.Next
	}
}

func (s session) follow(ctx context.Context, q apiclient.EventQuery) error {
	err := s.Follow(ctx, q, s.printEvent)
	if errors.Is(err, context.Canceled) {
		// Interrupted: that is how it ends.
		return nil
	}
	return err
}

func (s session) printEvent(e api.Event) error {
	return s.print(e, func() error {
		about := e.RunID
		if about == "" {
			about = e.TurnID
		}
		return s.printf("%s  %-22s %-28s %s\n", e.At.Format(clockFormat), oneLine(e.Type, 40), about, oneLine(s.eventText(e), 160))
	})
}
