// Command research answers a question from the files of a folder and from web pages. A researcher
// sends a reader off for each source, waits for them all, though not for ever, and writes a
// report. Both are agents: Markdown files in the folder agents.
//
//	go run ./examples/research "QUESTION" --sources DIR|URL,… --out report.md
//
// Nothing is invented: each quote is looked up in the text that was read (reading.go), and
// goes from there into the report past the model that writes (report.go). Pages are fetched
// from allowed hosts only. A report that is there is replaced after approval only.
//
// It is one process with a data folder of its own. Killed and started again by the same command
// it goes on; what was read is not paid for again. By default the model is a script that knows
// one question, over texts that were written for it: it needs no key and no network.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/errand-dev/errand/shared/model"
	"github.com/errand-dev/errand/shared/safehttp"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := newCommand().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "research:", err)
		stop()
		os.Exit(1)
	}
}

// options are what the command line says.
type options struct {
	question               string
	sources, allow         []string
	out, data              string
	modelName, baseURL     string
	wait                   time.Duration
	yes, plain, jsonEvents bool
	// model and web stand in for the real ones in tests.
	model model.Model
	web   safehttp.Options
}

func newCommand() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "research QUESTION --sources DIR|URL,… --out FILE",
		Short: "Answer a question from sources, with quotes",
		Example: `  research "Why is high water later every day, and where is the tide largest?" --sources examples/research/sources --out report.md
  research "What is new?" --sources https://go.dev/doc/devel/release --allow go.dev --model anthropic:claude-haiku-4-5 --out news.md`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || args[0] == "" {
				return errors.New("give one question, in quotation marks; see --help")
			}
			return nil
		},
		SilenceErrors: true, SilenceUsage: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.question = args[0]
			return research(cmd.Context(), o, cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&o.sources, "sources", nil, "a folder with .txt, .md or .html files, and https addresses, separated by commas")
	flags.StringSliceVar(&o.allow, "allow", nil, "hosts that pages may be fetched from, like example.com or *.example.com")
	flags.StringVar(&o.out, "out", "report.md", "the report")
	flags.StringVar(&o.data, "data", "", "data folder; by default one for this work in the user's cache folder")
	flags.StringVar(&o.modelName, "model", "script", "script, anthropic:NAME, openai:NAME or openai-compatible:NAME; keys are taken from ANTHROPIC_API_KEY, OPENAI_API_KEY and "+keyOfCompatible)
	flags.StringVar(&o.baseURL, "base-url", "", "address of an openai-compatible server")
	flags.DurationVar(&o.wait, "wait", 2*time.Minute, "how long the readers are waited for")
	flags.BoolVar(&o.yes, "yes", false, "approve that a report that is there is replaced")
	flags.BoolVar(&o.plain, "plain", false, "no progress bar; so it is anyway where the output is no terminal")
	flags.BoolVar(&o.jsonEvents, "json", false, "one JSON event per line instead of text")
	return cmd
}

// research does the whole work, or goes on with it.
func research(ctx context.Context, o options, out io.Writer) error {
	p, err := prepare(o)
	if err != nil {
		return err
	}
	defer p.texts.close()
	s := newScreen(o, out)
	defer s.close()
	if err := p.open(ctx, o); err != nil {
		return err
	}
	s.show(event{Type: eventStarted, Question: p.job.Question, Data: p.data, Sources: len(p.job.Sources)})
	working, stop := context.WithCancel(ctx)
	worked := make(chan struct{})
	go func() { defer close(worked); p.stack.Run(working) }()
	err = p.follow(ctx, o.yes, s.show)
	stop()
	<-worked
	if err != nil && ctx.Err() != nil {
		err = errors.New("stopped; what was read is kept, and the same command goes on")
	}
	return errors.Join(err, p.stack.Close())
}
