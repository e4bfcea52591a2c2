package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/api"
	"github.com/errand-dev/errand/shared/ingress"
	"github.com/errand-dev/errand/shared/lab"
	"github.com/errand-dev/errand/shared/serve"
	"github.com/errand-dev/errand/shared/subagent"
)

// server runs a whole stack with the lab for the test and returns its URL.
func server(t *testing.T) string {
	t.Helper()
	agents := agent.NewRegistry()
	if err := lab.Register(agents); err != nil {
		t.Fatal(err)
	}
	hub := &ingress.Hub{}
	stack, err := serve.Open(t.Context(), serve.Options{Dir: t.TempDir(), Agents: agents, Show: hub.Publish, Cadence: subagent.Cadence{50 * time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); stack.Run(ctx) }()
	gate := bearer(map[string]credential{"a-secret-of-mine-1": {tenant: "default", operator: true}, "another-of-mine-2": {tenant: "default"}})
	s := httptest.NewServer(ingress.NewHandler(stack.Service, ingress.HandlerOptions{Hub: hub, Version: "test", Authenticate: gate.authenticate, Operator: gate.operator}))
	t.Cleanup(func() {
		s.Close()
		cancel()
		<-done
		if err := stack.Close(); err != nil {
			t.Error(err)
		}
	})
	return s.URL
}

// errand runs a command line against the server.
func errand(t *testing.T, url string, args ...string) (code int, out, errOut string) {
	t.Helper()
	t.Setenv(envEndpoint, url)
	t.Setenv(envToken, "a-secret-of-mine-1")
	var o, e bytes.Buffer
	code = Run(t.Context(), "test", args, &o, &e)
	return code, o.String(), e.String()
}

func TestARunIsSentShownWatchedAndCancelled(t *testing.T) {
	url := server(t)
	code, out, errOut := errand(t, url, "send", `dispatch lab-sleep {"ms":60000,"progress_every_ms":10}`)
	id, ok := strings.CutPrefix(strings.TrimSpace(out), "dispatched ")
	if code != exitOK || !ok {
		t.Fatalf("send: %d %q %q", code, out, errOut)
	}
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"runs", "--active"}, id},
		{[]string{"show", id}, "agent         lab-sleep"},
		{[]string{"tail", "--once"}, "turn.completed"},
		{[]string{"tail", "--once", id}, "run.dispatched"},
		{[]string{"why", id}, "lease held until"},
		{[]string{"audit"}, "nothing to mend; looked at runs: 1, turns: 1, messages: 2\n"},
		{[]string{"cancel", id, "--reason", "enough"}, "run " + id + " is aborted"},
		{[]string{"runs"}, "enough"},
		{[]string{"replay", id}, "repeats run " + id},
	} {
		code, out, errOut := errand(t, url, test.args...)
		if code != exitOK || !strings.Contains(out, test.want) || errOut != "" {
			t.Errorf("%v: %d %q %q; want %q", test.args, code, out, errOut, test.want)
		}
	}
}

func TestEveryCommandPrintsJSON(t *testing.T) {
	url := server(t)
	var turn api.Turn
	code, out, _ := errand(t, url, "send", "--json", `say <b>hi</b>`)
	if err := json.Unmarshal([]byte(out), &turn); code != exitOK || err != nil || turn.Reply != "<b>hi</b>" || !strings.Contains(out, "<b>") {
		t.Errorf("send: %d %q %v", code, out, err)
	}
	_, out, _ = errand(t, url, "send", `dispatch lab-sleep {"ms":60000}`)
	id := strings.TrimSpace(strings.TrimPrefix(out, "dispatched "))
	for _, args := range [][]string{
		{"runs"}, {"show", id}, {"why", id}, {"audit"}, {"tail", "--once"}, {"cancel", id}, {"runs", "--active"}, {"send", "--no-wait", "say x"},
	} {
		code, out, errOut := errand(t, url, append(args, "--json")...)
		for decoder := json.NewDecoder(strings.NewReader(out)); decoder.More(); {
			var value any
			if err := decoder.Decode(&value); err != nil {
				t.Fatalf("%v: %v in %q", args, err, out)
			}
		}
		if code != exitOK || out == "" || errOut != "" {
			t.Errorf("%v: %d %q %q", args, code, out, errOut)
		}
	}
}

func TestWhatGoesWrongSaysWhatToDo(t *testing.T) {
	url := server(t)
	errand(t, url, "send", "say hello")
	for name, test := range map[string]struct {
		args []string
		code int
		want string
	}{
		"no server":                {[]string{"runs", "--endpoint", "http://127.0.0.1:1"}, exitFailed, "start it with: errand serve --lab"},
		"an endpoint that is none": {[]string{"runs", "--endpoint", "here"}, exitUsage, "no http or https URL"},
		"another token":            {[]string{"runs", "--token", "wrong"}, exitFailed, "give a token with --token"},
		"no such conversation":     {[]string{"runs", "-c", "none"}, exitFailed, "this one begins with: errand send -c none hello"},
		"no such run":              {[]string{"show", "none"}, exitFailed, "errand runs -c c1"},
		"nothing to replay":        {[]string{"replay", "none"}, exitFailed, "errand runs -c c1"},
		"nothing to redrive":       {[]string{"redrive", "none"}, exitFailed, "errand runs -c c1"},
		"an id that is none":       {[]string{"why", "a b"}, exitUsage, "invalid id"},
		"no run given":             {[]string{"cancel"}, exitUsage, "takes one RUN"},
		"two messages":             {[]string{"send", "a", "b"}, exitUsage, "takes one MESSAGE"},
		"an argument too much":     {[]string{"audit", "x"}, exitUsage, "takes no arguments"},
		"an unknown flag":          {[]string{"tail", "--nope"}, exitUsage, "see 'errand tail --help'"},
		"an unknown command":       {[]string{"nope"}, exitUsage, "no command \"nope\""},
		"no message at all":        {[]string{"send", ""}, exitUsage, "the MESSAGE of errand send is empty"},
		"a slot that is none":      {[]string{"redrive", "none", "--slot", "end"}, exitUsage, "it is finish or give_up"},
		"an empty message":         {[]string{"send", " "}, exitFailed, "the message is empty"},
		"no reply in time":         {[]string{"send", "--timeout", "50ms", "sleep 60000"}, exitFailed, "the turn goes on"},
	} {
		t.Run(name, func(t *testing.T) {
			code, _, errOut := errand(t, url, test.args...)
			if code != test.code || !strings.Contains(errOut, test.want) {
				t.Errorf("%v: %d %q; want %d %q", test.args, code, errOut, test.code, test.want)
			}
			if strings.Contains(errOut, "a-secret-of-mine-1") {
				t.Error("it shows the token")
			}
		})
	}
}

func TestTheHelpOfEveryClientHasAnExampleAndHidesTheToken(t *testing.T) {
	t.Setenv(envToken, "a-secret-of-mine-1")
	clients := append(newClients(), newAgent().Commands()...)
	for _, cmd := range clients {
		clients = append(clients, cmd.Commands()...)
	}
	for _, cmd := range clients {
		if cmd.Example == "" || cmd.Long == "" {
			t.Errorf("%s lacks an example or a text", cmd.CommandPath())
		}
		path := strings.Fields(cmd.CommandPath())
		var help, errOut bytes.Buffer
		if code := Run(t.Context(), "test", append(path, "--help"), &help, &errOut); code != exitOK {
			t.Errorf("%s --help: %d %s", cmd.CommandPath(), code, &errOut)
		}
		if strings.Contains(help.String(), "secret") || !strings.Contains(help.String(), "--json") {
			t.Errorf("the help of %s is %s", cmd.CommandPath(), &help)
		}
		if about := path[0] != "agent"; about != strings.Contains(help.String(), "--conversation") {
			t.Errorf("%s takes a conversation: %v, want %v", cmd.CommandPath(), !about, about)
		}
	}
}

func TestTextsOfOthersCannotSteerTheTerminal(t *testing.T) {
	if got := plain("a\x1b[31mb\x07\r\n\tc\u009b"); got != "a[31mb\n\tc" {
		t.Errorf("%q", got)
	}
	if got := oneLine("a\nb  \x1b c", 4); got != "a b…" {
		t.Errorf("%q", got)
	}
}
