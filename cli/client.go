package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/errand-dev/errand/shared/api"
	"github.com/errand-dev/errand/shared/apiclient"
	"github.com/errand-dev/errand/shared/awssign"
)

const (
	envEndpoint     = "ERRAND_ENDPOINT"
	envToken        = "ERRAND_TOKEN"
	envIAM          = "ERRAND_IAM"
	envConversation = "ERRAND_CONVERSATION"

	defaultEndpoint     = "http://127.0.0.1:8080"
	defaultConversation = "c1"
)

// newClients returns the commands that talk to a running server.
func newClients() []*cobra.Command {
	clients := []*cobra.Command{newSend(), newRuns(), newShow(), newTail(), newCancel(), newWhy(), newRedrive(), newReplay(), newApprove(), newAudit(), newSchedules()}
	for _, cmd := range clients {
		if strings.Contains(cmd.Use, "RUN") {
			cmd.Long += "\n\nRUN is an id, as 'errand runs' lists them for the same conversation."
		}
	}
	return clients
}

// clientFlags are what the commands that talk to a server take.
type clientFlags struct {
	endpoint, token, conversation string
	iam, json                     bool
}

func (f *clientFlags) add(cmd *cobra.Command) {
	f.addServer(cmd)
	cmd.Flags().StringVarP(&f.conversation, "conversation", "c", "", fmt.Sprintf("the conversation (default $%s, else %s)", envConversation, defaultConversation))
}

// addServer adds those of a command that is about no conversation.
func (f *clientFlags) addServer(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.endpoint, "endpoint", "", fmt.Sprintf("URL of the server (default $%s, else %s)", envEndpoint, defaultEndpoint))
	flags.StringVar(&f.token, "token", "", fmt.Sprintf("bearer token (default $%s)", envToken))
	flags.BoolVar(&f.iam, "iam", false, fmt.Sprintf("sign requests with your AWS credentials, for an API whose authorizer is IAM (default $%s)", envIAM))
	flags.BoolVar(&f.json, "json", false, "print what the server says as JSON")
}

// session is one command at work with a server.
type session struct {
	*apiclient.Client
	conversation string
	json         bool
	out          io.Writer
	// notes is for people: what happens meanwhile.
	notes io.Writer
}

// client returns a RunE that calls work with a session, and tells what to do next when
// that fails.
func (f *clientFlags) client(work func(ctx context.Context, s session, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		client, err := f.connect(cmd.Context())
		if err != nil {
			return err
		}
		s := session{
			Client: client, json: f.json, out: cmd.OutOrStdout(), notes: cmd.ErrOrStderr(),
			conversation: cmp.Or(f.conversation, os.Getenv(envConversation), defaultConversation),
		}
		return s.advise(work(cmd.Context(), s, args))
	}
}

// connect returns a client that presents a token, or signs each request.
func (f *clientFlags) connect(ctx context.Context) (*apiclient.Client, error) {
	endpoint, token := cmp.Or(f.endpoint, os.Getenv(envEndpoint), defaultEndpoint), cmp.Or(f.token, os.Getenv(envToken))
	iam, err := f.signs()
	if err != nil {
		return nil, usageError{err}
	}
	if iam && f.token != "" {
		return nil, usageError{errors.New("--token and --iam are two ways to say who you are; give one")}
	}
	transport := http.DefaultTransport
	if iam {
		token = ""
		if transport, err = awssign.New(ctx, endpoint, transport, time.Now); err != nil {
			return nil, advice{err, "--iam takes what the AWS command line takes: AWS_PROFILE, AWS_ACCESS_KEY_ID, aws sso login, …"}
		}
	}
	client, err := apiclient.New(endpoint, token, &http.Client{Transport: transport})
	if err != nil {
		return nil, usageError{err}
	}
	return client, nil
}

// signs reports whether requests are signed. A token that was given as a flag wins over
// the variable.
func (f *clientFlags) signs() (bool, error) {
	variable := os.Getenv(envIAM)
	if f.iam || variable == "" || f.token != "" {
		return f.iam, nil
	}
	iam, err := strconv.ParseBool(variable)
	if err != nil {
		return false, fmt.Errorf("$%s is %q; it must be true or false", envIAM, variable)
	}
	return iam, nil
}

// advice adds what to do next to an error, without hiding it.
type advice struct {
	error
	next string
}

func (a advice) Error() string { return a.error.Error() + "\n  " + a.next }
func (a advice) Unwrap() error { return a.error }

func (s session) advise(err error) error {
	var p *api.Problem
	switch {
	case errors.As(err, new(*apiclient.UnreachableError)):
		return advice{err, "start it with: errand serve --lab (or name another server with --endpoint)"}
	case !errors.As(err, &p):
		return err
	}
	switch next := s.next(p); {
	case next != "":
		return advice{err, next}
	case p.Code() == "invalid-id":
		return usageError{err}
	}
	return err
}

func (s session) next(p *api.Problem) string {
	if p.Code() == "operator-only" {
		return "use the token of an operator"
	}
	if p.Status == http.StatusUnauthorized || p.Status == http.StatusForbidden {
		// Said by the server, or by a gateway before it in its own words.
		return fmt.Sprintf("give a token with --token or $%s, or sign with --iam", envToken)
	}
	switch p.Code() {
	case "not-found":
		switch {
		case strings.Contains(p.Detail, ": agent "):
			return ""
		case strings.Contains(p.Detail, "no such schedule"):
			return fmt.Sprintf("see what there is with: errand schedules -c %s (-c names another conversation)", s.conversation)
		}
		if strings.Contains(p.Detail, "conversation "+s.conversation) {
			return fmt.Sprintf("name another with -c; this one begins with: errand send -c %s hello", s.conversation)
		}
		return fmt.Sprintf("see what there is with: errand runs -c %s (-c names another conversation)", s.conversation)
	case "nothing-to-redrive", "run-ended", "already-answered":
		return fmt.Sprintf("see where the run stands with: errand show -c %s RUN", s.conversation)
	case "concurrency-limit":
		return fmt.Sprintf("see what runs with: errand runs --active -c %s", s.conversation)
	case "agent-disabled", "in-maintenance":
		return "see what is set with: errand agent show NAME"
	case "too-many-schedules":
		return fmt.Sprintf("see what there is with: errand schedules -c %s", s.conversation)
	case "idempotency-key-reused":
		return "use another --key for another message"
	}
	return ""
}

// oneArg wants exactly one argument, of that name.
func oneArg(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 1 && args[0] == "" {
			return usageError{fmt.Errorf("the %s of %s is empty; see '%s --help'", name, cmd.CommandPath(), cmd.CommandPath())}
		}
		if len(args) != 1 {
			return usageError{fmt.Errorf("%s takes one %s, got %d arguments; see '%s --help'", cmd.CommandPath(), name, len(args), cmd.CommandPath())}
		}
		return nil
	}
}

// print writes value as JSON if that was asked for, else calls human.
func (s session) print(value any, human func() error) error {
	if !s.json {
		return human()
	}
	encoder := json.NewEncoder(s.out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return fmt.Errorf("printing: %w", err)
	}
	return nil
}

// printf writes for people.
func (s session) printf(format string, args ...any) error {
	if _, err := fmt.Fprintf(s.out, format, args...); err != nil {
		return fmt.Errorf("printing: %w", err)
	}
	return nil
}

// plain takes out what would steer a terminal: texts come from agents and users.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return -1
		}
		return r
	}, text)
}

// oneLine is plain text on one line of at most n characters.
func oneLine(text string, n int) string {
	runes := []rune(strings.Join(strings.Fields(plain(text)), " "))
	if len(runes) > n {
		return string(runes[:n-1]) + "…"
	}
	return string(runes)
}
