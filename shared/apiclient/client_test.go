package apiclient_test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/api"
	"github.com/errand-dev/errand/shared/apiclient"
	"github.com/errand-dev/errand/shared/ingress"
	"github.com/errand-dev/errand/shared/lab"
	"github.com/errand-dev/errand/shared/serve"
)

// site is a stack with the lab, its server, and a client of it.
type site struct {
	*apiclient.Client
	stack  *serve.Stack
	server *httptest.Server
}

func open(t *testing.T, stream bool) site {
	t.Helper()
	agents := agent.NewRegistry()
	if err := lab.Register(agents); err != nil {
		t.Fatal(err)
	}
	o := ingress.HandlerOptions{Version: "test"}
	if stream {
		o.Hub = &ingress.Hub{}
	}
	stack, err := serve.Open(t.Context(), serve.Options{Dir: t.TempDir(), Agents: agents})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); stack.Run(ctx) }()
	server := httptest.NewServer(ingress.NewHandler(stack.Service, o))
	t.Cleanup(func() {
		server.Close()
		cancel()
		<-done
		if err := stack.Close(); err != nil {
			t.Error(err)
		}
	})
	c, err := apiclient.New(server.URL+"/", "", server.Client())
	if err != nil {
		t.Fatal(err)
	}
	return site{c, stack, server}
}

// follow waits for an event of that type.
func (s site) follow(t *testing.T, q apiclient.EventQuery, typ string) api.Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var found api.Event
	err := s.Follow(ctx, q, func(e api.Event) error {
		if e.Type != typ {
			return nil
		}
		found = e
		return errFound
	})
	if !errors.Is(err, errFound) {
		t.Fatalf("following until %s: %v", typ, err)
	}
	return found
}

var errFound = errors.New("found")

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func TestTheClientSpeaksTheWholeAPI(t *testing.T) {
	s, ctx := open(t, true), t.Context()
	if h := must[api.Health](t)(s.Health(ctx)); h.Version != "test" {
		t.Errorf("health %+v", h)
	}
	key := `a "key" with \ in it`
	turn := must[api.Turn](t)(s.Send(ctx, "c", api.TurnRequest{Message: "say hello", Metadata: map[string]string{"a": "b"}}, key))
	if again := must[api.Turn](t)(s.Send(ctx, "c", api.TurnRequest{Message: "say hello", Metadata: map[string]string{"a": "b"}}, key)); again.ID != turn.ID {
		t.Error("one key made two turns")
	}
	s.follow(t, apiclient.EventQuery{Conversation: "c"}, "turn.completed")
	if got := must[api.Turn](t)(s.Turn(ctx, "c", turn.ID)); got.Reply != "hello" {
		t.Errorf("the turn is %+v", got)
	}
	budget := int64(60_000)
	run := must[api.Run](t)(s.Dispatch(ctx, "c", api.DispatchRequest{
		Agent: "lab-sleep", Input: json.RawMessage(`{"ms":60000,"milestones":[{"name":"m","at_ms":0}]}`), RunID: "r",
		Detached: &api.Detached{Notify: api.Notify{On: true, Source: "src"}, MaxBudgetMS: &budget, OnMilestones: &api.Milestones{Names: []string{"m"}, Mode: "react"}},
	}, ""))
	if got := run.DeadlineAt.Sub(run.DispatchedAt.Time); run.ID != "r" || got != time.Minute {
		t.Errorf("dispatched %+v with %v", run, got)
	}
	s.follow(t, apiclient.EventQuery{Conversation: "c", Run: "r"}, "run.milestone")
	if err := s.FollowUp(ctx, "c", "r", "more"); err != nil {
		t.Error(err)
	}
	if c := must[api.Conversation](t)(s.Conversation(ctx, "c")); c.Runs.Active != 1 {
		t.Errorf("the conversation is %+v", c)
	}
	if active := must[api.RunPage](t)(s.ActiveRuns(ctx, "c", apiclient.Page{Limit: 5})); len(active.Runs) != 1 {
		t.Errorf("active are %+v", active)
	}
	if cancelled := must[api.Run](t)(s.Cancel(ctx, "c", "r", "enough")); cancelled.Error != "enough" {
		t.Errorf("cancelled %+v", cancelled)
	}
	if shown := must[api.Run](t)(s.Run(ctx, "c", "r")); len(shown.Milestones) != 1 || shown.Status != "aborted" {
		t.Errorf("the run is %+v", shown)
	}
	if all := must[api.RunPage](t)(s.AllRuns(ctx, "c", apiclient.Page{})); len(all.Runs) != 1 {
		t.Errorf("all are %+v", all)
	}
	if why := must[api.Why](t)(s.Why(ctx, "c", "r")); why.Now == "" || len(why.Timeline) == 0 {
		t.Errorf("why: %+v", why)
	}
	if page := must[api.MessagePage](t)(s.Messages(ctx, "c", apiclient.Page{After: "1", Limit: 1})); len(page.Messages) != 1 || page.Messages[0].Text != "hello" {
		t.Errorf("message 2 is %+v", page)
	}
	replay := must[api.Run](t)(s.Replay(ctx, "c", "r", "once"))
	if again := must[api.Run](t)(s.Replay(ctx, "c", "r", "once")); replay.ReplayOf != "r" || again.ID != replay.ID {
		t.Errorf("replayed as %+v, then %s", replay, again.ID)
	}
	_, err := s.Redrive(ctx, "c", "r", "")
	var p *api.Problem
	if !errors.As(err, &p) || p.Code() != "nothing-to-redrive" || p.Status != 409 {
		t.Errorf("redrive: %v", err)
	}
	if err := s.Clear(ctx, "c"); err != nil {
		t.Error(err)
	}
	if _, err := s.Conversation(ctx, "c"); !errors.As(err, &p) || p.Code() != "not-found" {
		t.Errorf("after it was cleared: %v", err)
	}
}

func TestFollowGoesOnAfterABrokenConnection(t *testing.T) {
	for name, stream := range map[string]bool{"by stream": true, "by long poll": false} {
		t.Run(name, func(t *testing.T) {
			s := open(t, stream)
			must[api.Turn](t)(s.Send(t.Context(), "c", api.TurnRequest{Message: "say a"}, ""))
			// Its connections are its own: it must not meet one that was just broken.
			other := must[*apiclient.Client](t)(apiclient.New(s.server.URL, "", &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}))
			var seen []int64
			broken := false
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			err := s.Follow(ctx, apiclient.EventQuery{Conversation: "c"}, func(e api.Event) error {
				if e.Seq > 0 {
					seen = append(seen, e.Seq)
				}
				switch {
				case e.Type != "turn.completed":
				case broken:
					return errFound
				default:
					broken = true
					s.server.CloseClientConnections()
					must[api.Turn](t)(other.Send(t.Context(), "c", api.TurnRequest{Message: "say b"}, ""))
				}
				return nil
			})
			if !errors.Is(err, errFound) || !slices.IsSorted(seen) || len(slices.Compact(slices.Clone(seen))) != len(seen) {
				t.Errorf("saw %v, then %v", seen, err)
			}
		})
	}
}

func TestFollowEndsWithItsContext(t *testing.T) {
	s := open(t, true)
	must[api.Turn](t)(s.Send(t.Context(), "c", api.TurnRequest{Message: "say a"}, ""))
	ctx, cancel := context.WithCancel(t.Context())
	err := s.Follow(ctx, apiclient.EventQuery{Conversation: "c"}, func(api.Event) error { cancel(); return nil })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
}

func TestAServerThatIsNotThereIsUnreachable(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := "http://" + listener.Addr().String()
	listener.Close()
	c := must[*apiclient.Client](t)(apiclient.New(address, "", &http.Client{}))
	var lost *apiclient.UnreachableError
	if _, err := c.Health(t.Context()); !errors.As(err, &lost) || lost.Endpoint != address {
		t.Errorf("health: %v", err)
	}
	if err := c.Follow(t.Context(), apiclient.EventQuery{Conversation: "c"}, nil); !errors.As(err, &lost) {
		t.Errorf("follow: %v", err)
	}
}

func TestAGatewaysRefusalIsAProblemToo(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret" {
			t.Errorf("Authorization is %q", r.Header.Get("Authorization"))
		}
		http.Error(w, "upstream is down", http.StatusBadGateway)
	}))
	defer server.Close()
	c := must[*apiclient.Client](t)(apiclient.New(server.URL, "secret", server.Client()))
	_, err := c.Health(t.Context())
	var p *api.Problem
	if !errors.As(err, &p) || p.Status != 502 || !strings.Contains(p.Error(), "upstream is down") {
		t.Errorf("health: %v", err)
	}
	for _, endpoint := range []string{"", "x", "ftp://x", "http://", "127.0.0.1:80"} {
		if _, err := apiclient.New(endpoint, "", nil); err == nil {
			t.Errorf("%q is taken as an endpoint", endpoint)
		}
	}
}
