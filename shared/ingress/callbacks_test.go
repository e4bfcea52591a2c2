package ingress_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/api"
)

// twice waits for callback a, then for b, and ends with what a brought.
func twice(ctx context.Context, run *agent.Run) (any, error) {
	for _, key := range []string{"a", "b"} {
		if err := tell(ctx, run, key); err != nil {
			return nil, err
		}
	}
	first, err := run.WaitCallback(ctx, "a", 0)
	if err != nil {
		return nil, err
	}
	_, err = run.WaitCallback(ctx, "b", 0)
	return first, err
}

// tell makes the path of a callback known as a milestone of its name.
func tell(ctx context.Context, run *agent.Run, key string) error {
	token, err := run.Callback(ctx, key)
	if err != nil {
		return err
	}
	return run.Milestone(ctx, key, map[string]string{"path": "/v1/callbacks/" + token})
}

func withTwice(r *agent.Registry) error { return r.AddTask("twice", twice) }

// waits dispatches a run and returns it when it waits.
func (s *site) waits(conversation, body string) api.Run {
	s.t.Helper()
	run := get[api.Run](s, s.call("POST", "/v1/conversations/"+conversation+"/runs", body), 202)
	return s.runUntil(run, func(r api.Run) bool { return r.Status == "waiting" })
}

// runUntil reads the run until it is as wanted.
func (s *site) runUntil(run api.Run, wanted func(api.Run) bool) api.Run {
	s.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; {
		fresh := get[api.Run](s, s.call("GET", "/v1/conversations/"+run.Conversation+"/runs/"+run.ID, ""), 200)
		if wanted(fresh) {
			return fresh
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("the run stays %+v", fresh)
		}
	}
}

func ended(r api.Run) bool { return !r.Live() }

// callbackPath returns the path that the run's milestone tells.
func (s *site) callbackPath(run api.Run, milestone string) string {
	s.t.Helper()
	i := slices.IndexFunc(run.Milestones, func(m api.Milestone) bool { return m.Name == milestone })
	if i < 0 {
		s.t.Fatalf("no milestone %s in %+v", milestone, run.Milestones)
	}
	var at struct{ Path string }
	if err := json.Unmarshal(run.Milestones[i].Data, &at); err != nil {
		s.t.Fatal(err)
	}
	return at.Path
}

func TestACallbackEndsTheWaitOfARunWithoutACredential(t *testing.T) {
	for name, test := range map[string]struct{ body, status, output, problem string }{
		"with an output":             {`{"output":{"rows":3}}`, "completed", `{"rows":3}`, ""},
		"with an error":              {`{"error":"no such file"}`, "error", "", "the callback reports: no such file"},
		"with null as its output":    {`{"output":null}`, "completed", "", ""},
		"with a large output":        {`{"output":"` + strings.Repeat("x", 199<<10) + `"}`, "completed", `"` + strings.Repeat("x", 199<<10) + `"`, ""},
		"with an output in brackets": {`{"output":"<b>&</b>"}`, "completed", `"<b>&</b>"`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, options{})
			run := s.waits("c", `{"agent":"lab-callback"}`)
			if w := run.WaitingFor; w == nil || w.Signal != "done" || len(run.Approvals) != 0 {
				t.Errorf("it waits for %+v, %+v", w, run.Approvals)
			}
			path := s.callbackPath(run, "callback")
			if a := s.call("POST", path, test.body, "Tenant", "nobody"); a.status != 202 || len(a.body) != 0 {
				t.Fatalf("answered %d %s", a.status, a.body)
			}
			run = s.runUntil(run, ended)
			if run.Status != test.status || decoded(t, run.Output) != decoded(t, json.RawMessage(test.output)) || run.Error != test.problem || run.WaitingFor != nil {
				t.Errorf("it ended as %.300v", run)
			}
			for _, late := range []string{test.body, `{"output":"late"}`} {
				s.problem(s.call("POST", path, late), 409, "already-ended", "")
			}
			s.problem(s.call("POST", path+"/progress", ""), 409, "already-ended", "")
		})
	}
}

// decoded compares JSON whatever its escapes.
func decoded(t *testing.T, raw json.RawMessage) string {
	t.Helper()
	if len(raw) == 0 {
		return ""
	}
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(v)
}

func TestTheFirstOfManyCallbacksStands(t *testing.T) {
	s := open(t, options{register: withTwice})
	run := s.waits("c", `{"agent":"twice"}`)
	path := s.callbackPath(run, "a")
	var mu sync.Mutex
	var taken []string
	var all sync.WaitGroup
	for n := range 64 {
		all.Go(func() {
			a := s.call("POST", path, fmt.Sprintf(`{"output":%d}`, n))
			if a.status != 202 {
				s.problem(a, 409, "already-answered", "")
				return
			}
			mu.Lock()
			defer mu.Unlock()
			taken = append(taken, fmt.Sprint(n))
		})
	}
	all.Wait()
	if len(taken) != 1 {
		t.Fatalf("%d answers were taken: %v", len(taken), taken)
	}
	get[struct{}](s, s.call("POST", path, `{"output": `+taken[0]+`}`), 202)
	get[struct{}](s, s.call("POST", s.callbackPath(run, "b"), `{"output":0}`), 202)
	if run = s.runUntil(run, ended); string(run.Output) != taken[0] {
		t.Errorf("%s was taken, the run got %s", taken[0], run.Output)
	}
}

func TestACallbackMayComeBeforeItIsWaitedFor(t *testing.T) {
	goOn := make(chan struct{})
	s := open(t, options{register: func(r *agent.Registry) error {
		return r.AddTask("slow", func(ctx context.Context, run *agent.Run) (any, error) {
			if err := tell(ctx, run, "a"); err != nil {
				return nil, err
			}
			select {
			case <-goOn:
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
			return run.WaitCallback(ctx, "a", 0)
		})
	}})
	run := get[api.Run](s, s.call("POST", "/v1/conversations/c/runs", `{"agent":"slow"}`), 202)
	run = s.runUntil(run, func(r api.Run) bool { return len(r.Milestones) == 1 })
	get[struct{}](s, s.call("POST", s.callbackPath(run, "a"), `{"output":"early"}`), 202)
	close(goOn)
	if run = s.runUntil(run, ended); string(run.Output) != `"early"` {
		t.Errorf("the run ended as %+v", run)
	}
}

func TestACallbackOutlivesARestart(t *testing.T) {
	dir := t.TempDir()
	s := open(t, options{dir: dir})
	run := s.waits("c", `{"agent":"lab-callback"}`)
	path := s.callbackPath(run, "callback")
	s.rest()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, options{dir: dir})
	get[struct{}](s, s.call("POST", path, `{"output":"back"}`), 202)
	if run = s.runUntil(run, ended); string(run.Output) != `"back"` {
		t.Errorf("the run ended as %+v", run)
	}
}

func TestATokenIsVoidAfterAClear(t *testing.T) {
	s := open(t, options{})
	const body = `{"agent":"lab-callback","run_id":"r"}`
	old := s.callbackPath(s.waits("c", body), "callback")
	get[struct{}](s, s.call("DELETE", "/v1/conversations/c", ""), 202)
	s.problem(s.call("POST", old, `{"output":1}`), 404, "not-found", "")
	run := s.waits("c", body)
	s.problem(s.call("POST", old, `{"output":1}`), 404, "not-found", "")
	s.problem(s.call("POST", old+"/progress", `{"fraction":1}`), 404, "not-found", "")
	fresh := s.callbackPath(run, "callback")
	if fresh == old {
		t.Error("another run of the same id has the same token")
	}
	get[struct{}](s, s.call("POST", fresh, `{"output":2}`), 202)
	if run = s.runUntil(run, ended); string(run.Output) != "2" {
		t.Errorf("the run ended as %+v", run)
	}
}

func TestProgressIsReportedFromOutside(t *testing.T) {
	s := open(t, options{})
	run := s.waits("c", `{"agent":"lab-callback","detached":{"on_milestones":["parsed"]}}`)
	path := s.callbackPath(run, "callback") + "/progress"
	frames := streamOf(t, t.Context(), s.url+"/v1/conversations/c/events", "Last-Event-ID", fmt.Sprint(s.last("c")))
	get[struct{}](s, s.call("POST", path, `{"fraction":0.5,"message":"half","phase":"parsing","data":{"row":7}}`, "Tenant", "nobody"), 202)
	for {
		if f := next(t, frames); f.event == "run.progress" {
			if !strings.Contains(f.data, `"fraction":0.5`) || !strings.Contains(f.data, `"data":{"row":7}`) {
				t.Errorf("watchers see %s", f.data)
			}
			break
		}
	}
	for range 2 {
		get[struct{}](s, s.call("POST", path, `{"milestone":"parsed","data":{"rows":9}}`), 202)
	}
	get[struct{}](s, s.call("POST", path, ""), 202)
	run = s.runUntil(run, func(api.Run) bool { return true })
	p := run.Progress
	if run.Status != "waiting" || p == nil || *p.Fraction != 0.5 || p.Message != "half" || p.Phase != "parsing" {
		t.Errorf("the run is %+v with %+v", run, p)
	}
	if len(run.Milestones) != 2 || run.Milestones[1].Name != "parsed" || decoded(t, run.Milestones[1].Data) != "map[rows:9]" {
		t.Errorf("its milestones are %+v", run.Milestones)
	}
	e := s.event("c", "turn.completed", run.ID)
	messages := get[api.MessagePage](s, s.call("GET", "/v1/conversations/c/messages", ""), 200).Messages
	if len(messages) != 1 || messages[0].Milestone != "parsed" {
		t.Errorf("after %+v the conversation heard %+v", e, messages)
	}
}

func TestACallbackThatIsNotRightIsRefusedAndChangesNothing(t *testing.T) {
	s := open(t, options{register: func(r *agent.Registry) error {
		return r.AddChat("caller", func(ctx context.Context, turn *agent.Turn) (string, error) {
			token, err := turn.Callback(ctx, "done")
			if err != nil {
				return "", err
			}
			if err := turn.Emit(ctx, "token", token); err != nil {
				return "", err
			}
			out, err := turn.WaitCallback(ctx, "done", 0)
			return string(out), err
		})
	}})
	run := s.waits("c", `{"agent":"lab-callback"}`)
	ours := s.callbackPath(run, "callback")
	forged := ours[:len(ours)-4] + "AAAA"
	turn := get[api.Turn](s, s.call("POST", "/v1/conversations/t/turns", `{"message":"go","agent":"caller"}`), 202)
	var token string
	if err := json.Unmarshal(s.event("t", "token", "").Data, &token); err != nil {
		t.Fatal(err)
	}
	turns := "/v1/callbacks/" + token
	before := s.last("c")
	for name, test := range map[string]struct {
		method, path, body string
		headers            []string
		status             int
		code, field        string
	}{
		"a token that is none":              {"POST", "/v1/callbacks/x", `{"output":1}`, nil, 404, "not-found", ""},
		"a token of two dots":               {"POST", "/v1/callbacks/a.b.c", `{"output":1}`, nil, 404, "not-found", ""},
		"a token that is a path":            {"POST", "/v1/callbacks/a%2Fb", `{"output":1}`, nil, 404, "not-found", ""},
		"a forged token":                    {"POST", forged, `{"output":1}`, nil, 404, "not-found", ""},
		"a forged token with a bad body":    {"POST", forged, `{`, nil, 404, "not-found", ""},
		"half a token":                      {"POST", ours[:strings.Index(ours, ".")], `{"output":1}`, nil, 404, "not-found", ""},
		"a token without its signature":     {"POST", ours[:strings.Index(ours, ".")+1], `{"output":1}`, nil, 404, "not-found", ""},
		"a token without end":               {"POST", "/v1/callbacks/" + strings.Repeat("a", 5000), `{"output":1}`, nil, 404, "not-found", ""},
		"no token":                          {"POST", "/v1/callbacks", `{"output":1}`, nil, 404, "not-found", ""},
		"neither output nor error":          {"POST", ours, `{}`, nil, 400, "invalid-body", ""},
		"both output and error":             {"POST", ours, `{"output":1,"error":"x"}`, nil, 400, "invalid-body", ""},
		"an empty error":                    {"POST", ours, `{"error":""}`, nil, 400, "invalid-body", "error"},
		"an error that is no text":          {"POST", ours, `{"error":{"code":1}}`, nil, 400, "invalid-body", "error"},
		"a typo":                            {"POST", ours, `{"ouput":1}`, nil, 400, "unknown-field", "ouput"},
		"no body":                           {"POST", ours, ``, []string{"Content-Type", "application/json"}, 400, "invalid-body", ""},
		"a form":                            {"POST", ours, `output=1`, []string{"Content-Type", "", "Content-Type", "application/x-www-form-urlencoded"}, 415, "unsupported-media-type", ""},
		"an output over 200 KB":             {"POST", ours, `{"output":"` + strings.Repeat("x", 200<<10) + `"}`, nil, 413, "too-large", ""},
		"an error over 200 KB":              {"POST", ours, `{"error":"` + strings.Repeat("x", 200<<10) + `"}`, nil, 413, "too-large", ""},
		"an output that grows in the store": {"POST", ours, `{"output":"` + strings.Repeat("<", 100<<10) + `"}`, nil, 413, "too-large", ""},
		"a body over 2 MB":                  {"POST", ours, `{"output":"` + strings.Repeat("x", 3<<20) + `"}`, nil, 413, "too-large", ""},
		"a query":                           {"POST", ours + "?x=1", `{"output":1}`, nil, 400, "unknown-field", "x"},
		"a method that it has not":          {"GET", ours, "", nil, 405, "method-not-allowed", ""},
		"progress by a forged token":        {"POST", strings.Replace(forged, "AAAA", "AAAA/progress", 1), `{}`, nil, 404, "not-found", ""},
		"progress of a turn":                {"POST", turns + "/progress", `{"fraction":1}`, nil, 404, "not-found", ""},
		"more than all":                     {"POST", ours + "/progress", `{"fraction":1.1}`, nil, 400, "invalid-body", "fraction"},
		"less than nothing":                 {"POST", ours + "/progress", `{"fraction":-0.1}`, nil, 400, "invalid-body", "fraction"},
		"a fraction in words":               {"POST", ours + "/progress", `{"fraction":"half"}`, nil, 400, "invalid-body", "fraction"},
		"a long message":                    {"POST", ours + "/progress", `{"message":"` + strings.Repeat("x", 201) + `"}`, nil, 413, "too-large", "message"},
		"a long phase":                      {"POST", ours + "/progress", `{"phase":"` + strings.Repeat("x", 65) + `"}`, nil, 413, "too-large", "phase"},
		"a milestone that is no name":       {"POST", ours + "/progress", `{"milestone":"a b"}`, nil, 400, "invalid-id", "milestone"},
		"a milestone with too much":         {"POST", ours + "/progress", `{"milestone":"m","data":"` + strings.Repeat("x", 64<<10) + `"}`, nil, 413, "too-large", "data"},
		"progress with too much":            {"POST", ours + "/progress", `{"data":"` + strings.Repeat("x", 16<<10) + `"}`, nil, 413, "too-large", "data"},
		"a typo in progress":                {"POST", ours + "/progress", `{"percent":5}`, nil, 400, "unknown-field", "percent"},
	} {
		t.Run(name, func(t *testing.T) {
			a := s.call(test.method, test.path, test.body, test.headers...)
			s.problem(a, test.status, test.code, test.field)
			if strings.Contains(string(a.body), strings.TrimPrefix(ours, "/v1/callbacks/")) {
				t.Errorf("the answer shows the token: %s", a.body)
			}
		})
	}
	if after := s.last("c"); after != before {
		t.Errorf("the log has grown from %d to %d", before, after)
	}
	if run = s.runUntil(run, func(api.Run) bool { return true }); run.Status != "waiting" || run.Progress != nil {
		t.Errorf("the run has become %+v", run)
	}
	get[struct{}](s, s.call("POST", turns, `{"output":"hello"}`), 202)
	s.event("t", "turn.completed", "")
	if done := get[api.Turn](s, s.call("GET", "/v1/conversations/t/turns/"+turn.ID, ""), 200); done.Reply != `"hello"` {
		t.Errorf("the turn ended as %+v", done)
	}
}

func TestTheTokenOfACallbackIsNeverLogged(t *testing.T) {
	broken := errors.New("broken")
	s := open(t, options{handler: func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Broken") != "" {
				ctx, cancel := context.WithCancelCause(r.Context())
				cancel(broken)
				r = r.WithContext(ctx)
			}
			h.ServeHTTP(w, r)
		})
	}})
	run := s.waits("c", `{"agent":"lab-callback"}`)
	path := s.callbackPath(run, "callback")
	token := strings.TrimPrefix(path, "/v1/callbacks/")
	s.call("POST", path+"/progress", `{"fraction":0.5}`)
	s.call("POST", path, `{}`)
	s.call("POST", path, `{"output":1}`, "Broken", "yes")
	s.call("POST", path, `{"output":2}`)
	s.call("GET", path, "")
	s.runUntil(run, ended)
	s.rest()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s.problem(s.call("POST", path, `{"output":1}`), 503, "store-unavailable", "")
	body, signature, _ := strings.Cut(token, ".")
	for _, secret := range []string{body, signature} {
		if strings.Contains(s.log.String(), secret) {
			t.Errorf("the log has a token:\n%s", s.log)
		}
	}
	if !strings.Contains(s.log.String(), "callback taken") || !strings.Contains(s.log.String(), "request failed") {
		t.Errorf("the log says too little:\n%s", s.log)
	}
}
