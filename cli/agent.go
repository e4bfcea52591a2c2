package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/errand-dev/errand/shared/api"
)

func newAgent() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Enable and disable agents, begin and end their maintenance",
		Long: `Controls an agent for the whole deployment: one of conversations, or one of background
runs. It wants the token of an operator. Every process obeys within five seconds.`,
		Example: `  errand agent disable importer
  errand agent maintenance importer accept
  errand agent show importer`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			return usageError{fmt.Errorf("there is no command %q; see '%s --help'", args[0], cmd.CommandPath())}
		},
	}
	cmd.AddCommand(
		newControl("show NAME", "Show what is set for an agent", `Shows what operators have set for an agent.`, nil),
		newControl("enable NAME", "Let an agent take new work", `Lets an agent take new work again.`, func(c *api.AgentControl) { c.Enabled = true }),
		newControl("disable NAME", "Refuse new work for an agent",
			`Refuses new turns and runs of an agent. What it has accepted goes on; firings of
schedules are missed.`, func(c *api.AgentControl) { c.Enabled = false }),
		newMaintenance(),
	)
	return cmd
}

// newControl returns a command that shows the control of an agent, after it has changed it.
func newControl(use, short, long string, change func(*api.AgentControl)) *cobra.Command {
	f := clientFlags{}
	cmd := &cobra.Command{
		Use: use, Short: short, Long: long, Example: "  errand agent " + strings.Replace(use, "NAME", "importer", 1), Args: oneArg("NAME"),
		RunE: f.client(func(ctx context.Context, s session, args []string) error { return s.control(ctx, args[0], change) }),
	}
	f.addServer(cmd)
	return cmd
}

func newMaintenance() *cobra.Command {
	f := clientFlags{}
	cmd := &cobra.Command{
		Use:   "maintenance NAME off|accept|reject",
		Short: "Begin or end the maintenance of an agent",
		Long: `Begins or ends the maintenance of an agent. With accept, new turns and runs are accepted
and wait until it ends, as do those that have not begun. With reject, new ones are
refused; what was accepted goes on.`,
		Example: `  errand agent maintenance importer accept
  errand agent maintenance importer off`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 {
				return usageError{fmt.Errorf("%s takes the NAME of an agent, and off, accept or reject; see '%s --help'", cmd.CommandPath(), cmd.CommandPath())}
			}
			switch args[1] {
			case "off", "accept", "reject":
				return nil
			}
			return usageError{fmt.Errorf("maintenance is off, accept or reject, not %q", args[1])}
		},
		RunE: f.client(func(ctx context.Context, s session, args []string) error {
			return s.control(ctx, args[0], func(c *api.AgentControl) { c.Maintenance = args[1] })
		}),
	}
	f.addServer(cmd)
	return cmd
}

// control reads what is set, changes it if there is a change, and prints it.
func (s session) control(ctx context.Context, name string, change func(*api.AgentControl)) error {
	set, err := s.AgentControl(ctx, name)
	if err == nil && change != nil {
		change(&set)
		set, err = s.SetAgentControl(ctx, name, api.AgentControlRequest{Enabled: &set.Enabled, Maintenance: set.Maintenance})
	}
	if err != nil {
		return err
	}
	return s.print(set, func() error {
		state := "enabled"
		if !set.Enabled {
			state = "disabled"
		}
		return s.printf("agent %s is %s, maintenance %s\n", set.Agent, state, set.Maintenance)
	})
}
