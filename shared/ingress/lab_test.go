package ingress_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
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

// site is the API over a stack of its own, served by a real HTTP server.
type site struct {
	*serve.Stack
	t   *testing.T
	hub *ingress.Hub
	url string
	log *bytes.Buffer
	// patterns finds the route of a request.
	patterns *http.ServeMux
	// rest ends the workers and returns when they have.
	rest func()
}

type options struct {
	// idle leaves the queues alone.
	idle    bool
	noHub   bool
	cap     int
	handler func(http.Handler) http.Handler
	// timeout is the server's for reading and writing.
	timeout time.Duration
	// dir is the data folder, a fresh one if empty.
	dir string
	// register adds agents to those of the lab.
	register func(*agent.Registry) error
}

func open(t *testing.T, o options) *site {
	t.Helper()
	agents := agent.NewRegistry()
	if err := lab.Register(agents); err != nil {
		t.Fatal(err)
	}
	if o.register != nil {
		if err := o.register(agents); err != nil {
			t.Fatal(err)
		}
	}
	if o.dir == "" {
		o.dir = t.TempDir()
	}
	s := &site{t: t, hub: &ingress.Hub{}, log: &bytes.Buffer{}, patterns: http.NewServeMux(), rest: func() {}}
	var err error
	s.Stack, err = serve.Open(t.Context(), serve.Options{
		Dir: o.dir, Agents: agents, MaxConcurrentRuns: o.cap, Show: s.hub.Publish,
		Cadence: subagent.Cadence{100 * time.Millisecond},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	if !o.idle {
		s.work()
	}
	hub := s.hub
	if o.noHub {
		hub = nil
	}
	s.Service.Log = slog.New(slog.NewTextHandler(s.log, nil))
	h := ingress.NewHandler(s.Service, ingress.HandlerOptions{Version: "test", Authenticate: tenantOf, Hub: hub})
	if o.handler != nil {
		h = o.handler(h)
	}
	server := httptest.NewUnstartedServer(h)
	server.Config.ReadTimeout, server.Config.WriteTimeout = o.timeout, o.timeout
	server.Start()
	t.Cleanup(server.Close)
	s.url = server.URL
	for pattern := range ingress.Answers() {
		s.patterns.HandleFunc(pattern, func(http.ResponseWriter, *http.Request) {})
	}
	return s
}

// work runs the workers until the test ends.
func (s *site) work() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); s.Run(ctx) }()
	s.rest = func() { cancel(); <-done }
	s.t.Cleanup(s.rest)
}

var errNobody = errors.New("no token")

// tenantOf takes the tenant from a header of the tests.
func tenantOf(r *http.Request) (string, error) {
	switch tenant := r.Header.Get("Tenant"); tenant {
	case "":
		return ingress.DefaultTenant, nil
	case "nobody":
		return "", errNobody
	default:
		return tenant, nil
	}
}

// answer is a response read whole.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// call sends a request. headers come in pairs; a body is sent as JSON unless they say
// otherwise. Whatever is answered must be in the OpenAPI document.
func (s *site) call(method, path, body string, headers ...string) answer {
	s.t.Helper()
	request, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	for pair := range slices.Chunk(headers, 2) {
		if pair[1] == "" {
			request.Header.Del(pair[0])
			continue
		}
		request.Header.Add(pair[0], pair[1])
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	a := answer{status: response.StatusCode, header: response.Header}
	if a.body, err = io.ReadAll(response.Body); err != nil {
		s.t.Fatal(err)
	}
	s.checkDocumented(request, a)
	return a
}

func (s *site) checkDocumented(r *http.Request, a answer) {
	s.t.Helper()
	_, pattern := s.patterns.Handler(r)
	if strings.Contains(r.URL.Path, "..") || strings.Contains(r.URL.Path, "//") {
		// The mux would clean this up.
		pattern = ""
	}
	if known := ingress.Answers()[pattern]; pattern != "" && !slices.Contains(known, a.status) {
		s.t.Errorf("%s answered %d; the document has %v", pattern, a.status, known)
	}
	if pattern != "" && len(a.body) < 64<<10 {
		checkSchema(s.t, pattern, a.status, a.header.Get("Content-Type"), a.body)
	}
	if a.status >= 400 {
		var p api.Problem
		if json.Unmarshal(a.body, &p) != nil || p.Status != a.status || p.Title == "" || !slices.Contains(ingress.Codes(), p.Code()) {
			s.t.Errorf("%s %s answered %d with no proper problem: %s", r.Method, r.URL, a.status, a.body)
		}
		if kind := a.header.Get("Content-Type"); kind != api.ProblemType {
			s.t.Errorf("the problem has content type %q", kind)
		}
	}
}

// problem wants the answer to be that problem, about that field.
func (s *site) problem(a answer, status int, code, field string) {
	s.t.Helper()
	var p api.Problem
	if err := json.Unmarshal(a.body, &p); err != nil {
		s.t.Fatalf("answered %d %s", a.status, a.body)
	}
	if a.status != status || p.Code() != code || p.Field != field {
		s.t.Errorf("answered %d %s; want %d %s about field %q", a.status, a.body, status, code, field)
	}
}

// get decodes the answer, which must have the status.
func get[T any](s *site, a answer, status int) T {
	s.t.Helper()
	var v T
	if a.status != status {
		s.t.Fatalf("answered %d %s; want %d", a.status, a.body, status)
	}
	if len(a.body) == 0 {
		return v
	}
	if err := json.Unmarshal(a.body, &v); err != nil {
		s.t.Fatalf("%v in %s", err, a.body)
	}
	return v
}

// event waits for an event of the conversation with that type, and that run if not empty.
func (s *site) event(conversation, typ, run string) api.Event {
	s.t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for after := "0"; time.Now().Before(deadline); {
		page := get[api.EventPage](s, s.call("GET", "/v1/conversations/"+conversation+"/events?wait_ms=1000&after="+after, ""), 200)
		for _, e := range page.Events {
			if e.Type == typ && (run == "" || e.RunID == run) {
				return e
			}
		}
		raw, _ := json.Marshal(page.Next)
		after = string(raw)
	}
	s.t.Fatalf("no event %s of run %q", typ, run)
	return api.Event{}
}

// last is the number of the newest event of the conversation.
func (s *site) last(conversation string) int64 {
	s.t.Helper()
	return get[api.EventPage](s, s.call("GET", "/v1/conversations/"+conversation+"/events?limit=500", ""), 200).Next
}
