// Package mcptools makes tools for agents of the tools of an MCP server: a command that it
// starts and speaks to over its standard input and output, or a URL.
//
// Connect reaches the server, Source.Tools lists what it has as harness.Tool, named
// SERVER_tool, under which names Policies apply to them. A server that died is started, or
// connected to, again by the next call.
//
// What becomes of a call:
//
//   - A result is shown to the model: texts as they are, structured content as JSON, and of
//     images, audio and resources a line that describes them.
//   - A result that is an error, an error that the server answers, and a call that takes
//     longer than CallTimeout are told to the model as failed.
//   - A server that cannot be reached, or dies in the middle, is agent.Retryable: the call is
//     made again, with the same key in its _meta (IdempotencyKey).
//   - A cancelled call is cancelled at the server as well.
package mcptools

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/errand-dev/errand/shared/harness"
)

// Options name a server, by one of Command, URL and Transport, and what is taken from it.
type Options struct {
	// Name leads the names of the server's tools: 1 to 32 letters, digits, _ and -.
	Name string
	// Command is a program to start and its arguments.
	Command []string
	// Env is added to the environment of Command, as "NAME=value". It sees nothing else of
	// this process's, where keys may stand, but what programs need to run, like PATH and HOME.
	Env []string
	// Stderr is given what Command writes there; nil drops it.
	Stderr io.Writer
	// URL is that of a server that speaks streamable HTTP. It may hold a key: errors and the
	// log have its host alone.
	URL string
	// HTTPClient makes the requests to URL; nil means http.DefaultClient. For a URL that a
	// user chose take one of safehttp, whose Timeout then bounds each call as well.
	HTTPClient *http.Client
	// Transport makes a connection of another kind, a fresh one each time.
	Transport func() (mcp.Transport, error)
	// Allow names, as the server does, the tools that are taken; empty means all.
	Allow []string
	// CallTimeout bounds each call, and each listing of the tools: one minute.
	CallTimeout time.Duration
	// Log is given when a server comes and goes; nil means silence.
	Log *slog.Logger
}

// Source is a server as a source of tools. It is safe for concurrent use.
type Source struct {
	options    Options
	client     *mcp.Client
	log        *slog.Logger
	connecting chan struct{} // held by whoever connects
	watchers   sync.WaitGroup

	mu       sync.Mutex
	session  *mcp.ClientSession // nil if there is none that lives
	closed   bool
	calls    int
	underway map[string]*underway // by progress token
}

// maxTools bounds a list of tools: a server may page for ever.
const maxTools = 1000

var serverName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,32}$`)

// Connect reaches the server, so that a wrong option is found at the start. Close the source
// when no run needs it any more.
func Connect(ctx context.Context, o Options) (*Source, error) {
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("mcptools: %w", err)
	}
	o.CallTimeout = cmp.Or(o.CallTimeout, time.Minute)
	s := &Source{
		options: o, log: cmp.Or(o.Log, slog.New(slog.DiscardHandler)),
		connecting: make(chan struct{}, 1), underway: map[string]*underway{},
	}
	s.client = mcp.NewClient(&mcp.Implementation{Name: "errand", Version: "0"}, &mcp.ClientOptions{
		Capabilities:                &mcp.ClientCapabilities{}, // no roots, no sampling, no questions to a user
		MultiRoundTrip:              &mcp.MultiRoundTripOptions{Disabled: true},
		ProgressNotificationHandler: s.progressed,
	})
	if _, err := s.live(ctx); err != nil {
		return nil, fmt.Errorf("mcptools: connecting to %s: %w", o.Name, o.withoutURL(err))
	}
	return s, nil
}

func (o Options) check() error {
	ways := 0
	for _, given := range []bool{len(o.Command) > 0, o.URL != "", o.Transport != nil} {
		if given {
			ways++
		}
	}
	switch {
	case !serverName.MatchString(o.Name):
		return fmt.Errorf("Options.Name is %q; give 1 to 32 letters, digits, _ and -", o.Name)
	case ways != 1:
		return errors.New("Options needs one of Command, URL and Transport")
	case o.URL != "" && !addressed(o.URL):
		return errors.New("Options.URL is not an address like https://example.com/mcp")
	case o.CallTimeout < 0:
		return fmt.Errorf("Options.CallTimeout is %s; give a bound, or zero for the default", o.CallTimeout)
	}
	return nil
}

// Tools lists the server's tools as they are now. An agent keeps those that it was declared
// with: of one that the server has no more, its model is told.
//
// Errors: a tool of Allow that the server lacks, and two tools of the same name once names
// are fitted to what vendors accept.
func (s *Source) Tools(ctx context.Context) ([]harness.Tool, error) {
	listed, err := s.list(ctx)
	if err != nil {
		return nil, fmt.Errorf("mcptools: listing the tools of %s: %w", s.options.Name, s.options.withoutURL(err))
	}
	if err := s.checkAllowed(listed); err != nil {
		return nil, err
	}
	var tools []harness.Tool
	names := map[string]string{}
	for _, t := range listed {
		if len(s.options.Allow) > 0 && !slices.Contains(s.options.Allow, t.Name) {
			continue
		}
		name := s.fitted(t.Name)
		if other, taken := names[name]; taken {
			return nil, fmt.Errorf("mcptools: the tools %q and %q of %s would both be called %s; leave one out with Options.Allow", other, t.Name, s.options.Name, name)
		}
		names[name] = t.Name
		schema, err := json.Marshal(t.InputSchema)
		if err != nil {
			return nil, fmt.Errorf("mcptools: the schema of %s's tool %q: %w", s.options.Name, t.Name, err)
		}
		tools = append(tools, harness.NewRawTool(name, cmp.Or(t.Description, t.Title), schema, func(ctx context.Context, args json.RawMessage) (string, error) {
			return s.call(ctx, t.Name, args)
		}))
	}
	return tools, nil
}

func (s *Source) list(ctx context.Context) ([]*mcp.Tool, error) {
	session, err := s.live(ctx)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithTimeout(ctx, s.options.CallTimeout)
	defer stop()
	var listed []*mcp.Tool
	for t, err := range session.Tools(ctx, nil) {
		if err != nil {
			return nil, err
		}
		if listed = append(listed, t); len(listed) > maxTools {
			return nil, fmt.Errorf("there are more than %d", maxTools)
		}
	}
	return listed, nil
}

func (s *Source) checkAllowed(listed []*mcp.Tool) error {
	have := make([]string, len(listed))
	for i, t := range listed {
		have[i] = t.Name
	}
	for _, name := range s.options.Allow {
		if !slices.Contains(have, name) {
			return fmt.Errorf("mcptools: Options.Allow names %q, and %s has no such tool; there are: %s", name, s.options.Name, strings.Join(have, ", "))
		}
	}
	return nil
}

// longestName is what vendors accept, in letters, digits, _ and -.
const longestName = 64

// fitted is the name that models know a tool by.
func (s *Source) fitted(tool string) string {
	name := s.options.Name + "_" + strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '_' || r == '-' {
			return r
		}
		return '_'
	}, tool)
	return name[:min(len(name), longestName)]
}
