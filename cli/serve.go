package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/ingress"
	"github.com/errand-dev/errand/shared/lab"
	"github.com/errand-dev/errand/shared/price"
	"github.com/errand-dev/errand/shared/serve"
	"github.com/errand-dev/errand/shared/subagent"
)

type serveFlags struct {
	listen, data, tokens string
	prices               string
	lab, verbose         bool
	noSchedules          bool
	lease                time.Duration
	cadence              []time.Duration
	maxRuns, workers     int
}

func newServe(version string) *cobra.Command {
	f := serveFlags{}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the whole stack in one process over one data folder",
		Long: `Runs ingress, executor and reconcile in one process over one SQLite file. No Docker,
no account, no keys. Kill it whenever you like: what was accepted goes on when it
starts again on the same folder.`,
		Example: `  errand serve --lab
  curl -d '{"message":"dispatch lab-sleep {\"ms\":2000}"}' -H 'Content-Type: application/json' \
    http://127.0.0.1:8080/v1/conversations/c1/turns
  curl http://127.0.0.1:8080/v1/conversations/c1/messages`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runServe(cmd.Context(), f, version, cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.listen, "listen", "127.0.0.1:8080", "address of the HTTP API; anything but loopback needs --tokens")
	flags.StringVar(&f.data, "data", ".errand", "data folder, made if it does not exist; one process at a time")
	flags.StringVar(&f.tokens, "tokens", "", "file of bearer tokens, one 'TOKEN TENANT' a line, 'TOKEN TENANT operator' for who may control agents; without it everything is tenant \"default\"")
	flags.StringVar(&f.prices, "prices", "", "file of model prices in US dollars per million tokens, over the default ones (shared/price/prices.json)")
	flags.BoolVar(&f.lab, "lab", false, "register the lab agents (lab-sleep, lab-steps, ...) and the chat \"lab\"")
	flags.BoolVar(&f.noSchedules, "no-dynamic-schedules", false, "refuse to create and change schedules; those that there are go on")
	flags.BoolVarP(&f.verbose, "verbose", "v", false, "log at debug level")
	flags.DurationVar(&f.lease, "lease", subagent.DefaultTerms.Lease, "how long an execution lease or delivery claim is valid without renewal")
	flags.DurationSliceVar(&f.cadence, "cadence", subagent.DefaultCadence, "pauses between reconcile ticks; the last one repeats")
	flags.IntVar(&f.maxRuns, "max-concurrent-runs", subagent.DefaultCap, fmt.Sprintf("live background runs per conversation, at most %d", subagent.MaxOpen))
	flags.IntVar(&f.workers, "workers", 1024, "runs executed at a time in this process")
	return cmd
}

func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError{fmt.Errorf("%s takes no arguments, got %q; see '%s --help'", cmd.CommandPath(), args[0], cmd.CommandPath())}
	}
	return nil
}

func runServe(ctx context.Context, f serveFlags, version string, errOut io.Writer) error {
	level := slog.LevelInfo
	if f.verbose {
		level = slog.LevelDebug
	}
	log := slog.New(slog.NewTextHandler(errOut, &slog.HandlerOptions{Level: level}))
	if err := f.check(); err != nil {
		return usageError{err}
	}
	gate, err := authentication(f)
	if err != nil {
		return usageError{err}
	}
	agents := agent.NewRegistry()
	if f.lab {
		if err := lab.Register(agents); err != nil {
			return err
		}
	}
	prices, err := price.Load(f.prices)
	if err != nil {
		return usageError{err}
	}
	hub := &ingress.Hub{}
	stack, err := serve.Open(ctx, serve.Options{
		Dir: f.data, Agents: agents, Lease: f.lease, Cadence: f.cadence,
		MaxConcurrentRuns: f.maxRuns, Workers: f.workers, NoDynamicSchedules: f.noSchedules, Prices: &prices, Show: hub.Publish, Log: log,
	})
	if err != nil {
		return err
	}
	defer func() {
		if err := stack.Close(); err != nil {
			log.Error("closing the data folder failed", "error", err)
		}
	}()
	handler := ingress.NewHandler(stack.Service, ingress.HandlerOptions{Authenticate: gate.authenticate, Operator: gate.operator, Hub: hub, Version: version})
	return stack.ListenAndServe(ctx, f.listen, handler)
}

// check refuses what serve.Open would take for "not given".
func (f serveFlags) check() error {
	switch {
	case f.data == "":
		return errors.New("--data names no folder")
	case f.lease <= 0:
		return fmt.Errorf("--lease is %v; it must be positive", f.lease)
	case f.maxRuns < 1:
		return fmt.Errorf("--max-concurrent-runs is %d; it must be at least 1", f.maxRuns)
	case f.workers < 1:
		return fmt.Errorf("--workers is %d; it must be at least 1", f.workers)
	}
	if _, _, err := net.SplitHostPort(f.listen); err != nil {
		return fmt.Errorf("--listen is %q; it takes HOST:PORT, such as 127.0.0.1:8080", f.listen)
	}
	return nil
}

// authentication returns how a request's tenant is found. Without tokens everybody who
// gets in is an operator.
func authentication(f serveFlags) (gate, error) {
	if f.tokens == "" {
		if !loopback(f.listen) {
			return gate{}, fmt.Errorf("refusing to listen on %s without tokens: everybody who reaches it could use it; give --tokens FILE or listen on 127.0.0.1", f.listen)
		}
		return gate{authenticate: localOnly}, nil
	}
	tokens, err := readTokens(f.tokens)
	if err != nil {
		return gate{}, err
	}
	return bearer(tokens), nil
}

var errNotLocal = errors.New("without --tokens only requests to a loopback address are answered")

// localOnly lets in whoever reaches the loopback address by its name. A web page does not
// get in: neither one whose host name was made to point there, nor one that has a browser
// send what changes something, like a cancel, which needs no body.
func localOnly(r *http.Request) (string, error) {
	host := r.Host
	if _, _, err := net.SplitHostPort(host); err != nil {
		host = net.JoinHostPort(strings.Trim(host, "[]"), "80")
	}
	if !loopback(host) {
		return "", errNotLocal
	}
	var pages http.CrossOriginProtection
	if err := pages.Check(r); err != nil {
		return "", err
	}
	return ingress.DefaultTenant, nil
}

func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
