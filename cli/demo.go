package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"
)

type demoFlags struct {
	data              string
	rows              int
	kill, plain, json bool
}

const (
	demoRows    = 300_000
	demoMaxRows = 50_000_000
)

func newDemo() *cobra.Command { return newDemoOf(ownProgram) }

// newDemoOf returns the command; child makes the command line of --kill's worker.
func newDemoOf(child childFunc) *cobra.Command {
	f := demoFlags{}
	cmd := &cobra.Command{
		Use:   "demo [FILE.csv]",
		Short: "Watch a real import run in the background of a conversation",
		Long: `A conversation's agent is asked to import a CSV file. It sends the importer off as a
background run, keeps answering meanwhile, and says so when the import has ended.
Nothing is staged: the importer really loads the file into a SQLite database. Both
the importer and the agent are ordinary Go code, no key and no network is needed.

Without FILE the demo imports a generated file of customers, large enough to watch,
and meanwhile a small real one of airports.

A file that cannot be imported ends as a run in error, which is told like any other
result; the exit code is 1 then.`,
		Example: `  errand demo                    two imports in one conversation
  errand demo my.csv             your own file
  errand demo --kill             kill the worker half-way: the result still comes, once
  errand demo --data DIR         go on in the folder of a demo that was stopped`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usageError{fmt.Errorf("%s takes one file, got %d; see '%s --help'", cmd.CommandPath(), len(args), cmd.CommandPath())}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(cmd); err != nil {
				return usageError{err}
			}
			return runDemo(cmd.Context(), f, args, cmd.OutOrStdout(), child)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.data, "data", "", "data folder; by default a new one in the system's folder for temporary files, which is kept")
	flags.IntVar(&f.rows, "rows", demoRows, "rows of the generated file; a file that the data folder has already stays as it is")
	flags.BoolVar(&f.kill, "kill", false, "kill the worker process (SIGKILL) half-way, and start it again on the same folder")
	flags.BoolVar(&f.plain, "plain", false, "no progress bars; so it is anyway where the output is no terminal")
	flags.BoolVar(&f.json, "json", false, "one JSON event per line instead of text")
	return cmd
}

func (f demoFlags) check(cmd *cobra.Command) error {
	switch {
	case f.rows < 1 || f.rows > demoMaxRows:
		return fmt.Errorf("--rows is %d; it must lie between 1 and %d", f.rows, demoMaxRows)
	case f.plain && f.json:
		return errors.New("--plain and --json exclude each other")
	case f.data == "" && cmd.Flags().Changed("data"):
		return errors.New("--data names no folder")
	}
	return nil
}

// runDemo prepares the data folder, then shows the conversation.
func runDemo(ctx context.Context, f demoFlags, args []string, out io.Writer, child childFunc) error {
	file := ""
	if len(args) == 1 {
		var err error
		// The run may go on in a process that was started elsewhere.
		if file, err = filepath.Abs(args[0]); err != nil {
			return fmt.Errorf("resolving the path of the file: %w", err)
		}
	}
	dir, err := demoFolder(f.data)
	if err != nil {
		return err
	}
	screen := newScreen(f, out)
	defer screen.close()
	screen.show(demoEvent{Type: eventStarted, Data: dir})
	var report *demoReport
	if f.kill {
		k := killer{dir: dir, file: file, rows: f.rows, child: child, show: screen.show}
		report, err = k.run(ctx)
	} else {
		report, err = playDemo(ctx, dir, file, f.rows, screen.show)
	}
	if ctx.Err() != nil {
		screen.show(demoEvent{Type: eventStopped, Data: dir, File: file})
		return errors.New("stopped; nothing is lost")
	}
	if err != nil {
		return err
	}
	screen.show(demoEvent{Type: eventReport, Report: report})
	return report.failure()
}

// demoFolder makes the data folder and returns its absolute path.
func demoFolder(data string) (string, error) {
	if data == "" {
		dir, err := os.MkdirTemp("", "errand-demo-")
		if err != nil {
			return "", fmt.Errorf("making a data folder: %w", err)
		}
		return dir, nil
	}
	dir, err := filepath.Abs(data)
	if err != nil {
		return "", fmt.Errorf("resolving the data folder: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("making the data folder: %w", err)
	}
	return dir, nil
}

// childFunc makes the command that runs this program with args.
type childFunc func(ctx context.Context, args []string) (*exec.Cmd, error)

func ownProgram(ctx context.Context, args []string) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this program: %w", err)
	}
	return exec.CommandContext(ctx, self, args...), nil
}

// isTerminal reports whether out is a terminal, where bars can be drawn.
func isTerminal(out io.Writer) bool {
	file, ok := out.(*os.File)
	return ok && isatty.IsTerminal(file.Fd())
}
