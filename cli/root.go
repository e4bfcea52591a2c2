// Package cli is the errand command: serve and demo run a stack in this process, the
// other commands are clients of one that runs somewhere.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// usageError marks a mistake in how the command was called.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// Run runs the command line and returns the exit code.
func Run(ctx context.Context, version string, args []string, out, errOut io.Writer) int {
	root := newRoot(version)
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(errOut)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	fmt.Fprintln(errOut, "errand:", err)
	if errors.As(err, new(usageError)) {
		return exitUsage
	}
	return exitFailed
}

func newRoot(version string) *cobra.Command {
	root := &cobra.Command{
		Use:   "errand",
		Short: "Durable background subagents",
		Long: `Errand sends subagents on errands: a conversation's agent dispatches a run and goes
on talking; the run outlives the process that started it, and its result always
comes back as one new turn in the right conversation.

Begin with:
  errand demo               watch a real import run in the background
  errand serve --lab        the whole stack in one process, with agents to try it`,
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			return usageError{fmt.Errorf("there is no command %q; see '%s --help'", args[0], cmd.CommandPath())}
		},
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError{fmt.Errorf("%w; see '%s --help'", err, cmd.CommandPath())}
	})
	root.AddCommand(newServe(version), newDemo(), newAgent())
	root.AddCommand(newClients()...)
	return root
}
