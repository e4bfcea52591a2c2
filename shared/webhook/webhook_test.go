package webhook_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/ingress"
	"github.com/errand-dev/errand/shared/safehttp"
	"github.com/errand-dev/errand/shared/serve"
	"github.com/errand-dev/errand/shared/subagent"
	"github.com/errand-dev/errand/shared/webhook"
)

const (
	oldSecret = "whsec_b2xkb2xkb2xkb2xkb2xkb2xkb2xkb2xk"
	newSecret = "whsec_bmV3bmV3bmV3bmV3bmV3bmV3bmV3bmV3"
	stranger  = "whsec_c3RyYW5nZXJzdHJhbmdlcnN0cmFuZ2Vy"
)

var noon = time.UnixMilli(1_790_000_000_123)

// message is one that a receiver got.
type message struct {
	header http.Header
	body   []byte
	path   string
}

func (m message) id() string { return m.header.Get(standardwebhooks.HeaderWebhookID) }

// receiver answers each message with the next code, the last one for ever.
func receiver(t *testing.T, codes ...int) (base string, client *http.Client, got <-chan message) {
	t.Helper()
	messages := make(chan message, 10)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		messages <- message{r.Header, body, r.URL.Path}
		if r.URL.Path == "/elsewhere" {
			return
		}
		if codes[0]/100 == 3 {
			w.Header().Set("Location", "/elsewhere")
		}
		w.WriteHeader(codes[0])
		if len(codes) > 1 {
			codes = codes[1:]
		}
	}))
	t.Cleanup(s.Close)
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	if err != nil {
		t.Fatal(err)
	}
	client, err = safehttp.New(safehttp.Options{
		Hosts: []string{u.Hostname()}, AllowHTTP: true, Ports: []uint16{uint16(port)},
		AllowNets: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.CloseIdleConnections)
	return s.URL, client, messages
}

func handler(t *testing.T, o webhook.Options) agent.Handler {
	t.Helper()
	if o.Secrets == nil {
		o.Secrets = []string{oldSecret}
	}
	h, err := webhook.Handler(o)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func delivery() agent.Delivery {
	return agent.Delivery{
		ID: "run-1:finish", Slot: subagent.Finish, Attempt: 1, Output: json.RawMessage(`{"rows":3}`),
		Run: agent.Info{
			Owner: subagent.Owner{Tenant: "t1", Conversation: "c1"}, ID: "run-1", Agent: "importer", Parent: "run-0",
			Status: subagent.Completed, Summary: "3 rows", DispatchedAt: noon.Add(-time.Hour),
		},
		Emit: func(context.Context, string, any) error { return nil },
	}
}

func TestAMessageTellsTheEndAndIsVerifiedByTheLibraryOfItsSpecification(t *testing.T) {
	base, client, got := receiver(t, http.StatusNoContent)
	if err := handler(t, webhook.Options{URL: base + "/hook", Client: client})(t.Context(), delivery()); err != nil {
		t.Fatal(err)
	}
	m := <-got
	library, err := standardwebhooks.NewWebhook(oldSecret)
	if err != nil {
		t.Fatal(err)
	}
	if err := library.Verify(m.body, m.header); err != nil {
		t.Error(err)
	}
	if m.path != "/hook" || m.header.Get("Content-Type") != "application/json" {
		t.Errorf("%s, %v", m.path, m.header)
	}
}

func TestTheBodyIsTheRunInTheWordsOfTheAPI(t *testing.T) {
	failed := delivery()
	failed.Run.Status, failed.Run.Summary, failed.Run.Problem, failed.Output, failed.Run.Parent = subagent.Error, "", "no such file", nil, ""
	gaveUp := delivery()
	gaveUp.ID, gaveUp.Slot, gaveUp.Output, gaveUp.Run.Summary = "run-1:give_up", subagent.GiveUp, nil, ""
	gaveUp.Run.Status, gaveUp.Run.Reason, gaveUp.Run.ChildStillRunning = subagent.Interrupted, subagent.ReasonBudget, true
	for want, d := range map[string]agent.Delivery{
		`{"type":"run.completed","timestamp":"2026-09-21T14:13:20.123Z","data":{"id":"run-1","conversation":"c1","agent":"importer","parent_run_id":"run-0","status":"completed","summary":"3 rows","output":{"rows":3},"dispatched_at":"2026-09-21T13:13:20.123Z"}}`:                    delivery(),
		`{"type":"run.error","timestamp":"2026-09-21T14:13:20.123Z","data":{"id":"run-1","conversation":"c1","agent":"importer","status":"error","error":"no such file","dispatched_at":"2026-09-21T13:13:20.123Z"}}`:                                                                    failed,
		`{"type":"run.interrupted","timestamp":"2026-09-21T14:13:20.123Z","data":{"id":"run-1","conversation":"c1","agent":"importer","parent_run_id":"run-0","status":"interrupted","reason":"budget-exceeded","child_still_running":true,"dispatched_at":"2026-09-21T13:13:20.123Z"}}`: gaveUp,
	} {
		base, client, got := receiver(t, http.StatusOK)
		h := handler(t, webhook.Options{URL: base, Client: client, Now: func() time.Time { return noon }})
		if err := h(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, string((<-got).body)); diff != "" {
			t.Errorf("-want +got\n%s", diff)
		}
	}
}

func TestAReceiverRefusesWhatWasTamperedWithOrIsOld(t *testing.T) {
	base, client, got := receiver(t, http.StatusOK)
	h := handler(t, webhook.Options{URL: base, Client: client, Now: func() time.Time { return noon }})
	if err := h(t.Context(), delivery()); err != nil {
		t.Fatal(err)
	}
	sent := <-got
	set := func(name, value string) func(*message) { return func(m *message) { m.header.Set(name, value) } }
	whole := noon.Truncate(time.Second)
	for name, c := range map[string]struct {
		change func(*message)
		secret string
		now    time.Time
		want   error
	}{
		"as it was sent":              {},
		"at the end of the tolerance": {now: whole.Add(webhook.Tolerance)},
		"at its beginning":            {now: whole.Add(-webhook.Tolerance)},
		"too old":                     {now: whole.Add(webhook.Tolerance + time.Second), want: standardwebhooks.ErrMessageTooOld},
		"from the future":             {now: whole.Add(-webhook.Tolerance - time.Second), want: standardwebhooks.ErrMessageTooNew},
		"another secret":              {secret: stranger, want: standardwebhooks.ErrNoMatchingSignature},
		"another body":                {change: func(m *message) { m.body = append(m.body, ' ') }, want: standardwebhooks.ErrNoMatchingSignature},
		"another id":                  {change: set("webhook-id", "msg_1"), want: standardwebhooks.ErrNoMatchingSignature},
		"another time":                {change: set("webhook-timestamp", strconv.FormatInt(noon.Unix()+1, 10)), want: standardwebhooks.ErrNoMatchingSignature},
		"a time that is none":         {change: set("webhook-timestamp", "now"), want: standardwebhooks.ErrInvalidHeaders},
		"another signature":           {change: set("webhook-signature", "v1,AAAA"), want: standardwebhooks.ErrNoMatchingSignature},
		"another version":             {change: set("webhook-signature", "v2"+strings.TrimPrefix(sent.header.Get("webhook-signature"), "v1")), want: standardwebhooks.ErrNoMatchingSignature},
		"no signature":                {change: set("webhook-signature", ""), want: standardwebhooks.ErrRequiredHeaders},
	} {
		m := message{header: sent.header.Clone(), body: append([]byte(nil), sent.body...)}
		if c.change != nil {
			c.change(&m)
		}
		if c.secret == "" {
			c.secret = oldSecret
		}
		if c.now.IsZero() {
			c.now = noon
		}
		if err := webhook.Verify(c.secret, m.header, m.body, c.now); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
	}
}

func TestWhileASecretIsChangedReceiversOfBothVerify(t *testing.T) {
	base, client, got := receiver(t, http.StatusOK)
	h := handler(t, webhook.Options{URL: base, Client: client, Secrets: []string{newSecret, oldSecret}})
	if err := h(t.Context(), delivery()); err != nil {
		t.Fatal(err)
	}
	m := <-got
	for secret, want := range map[string]error{newSecret: nil, oldSecret: nil, stranger: standardwebhooks.ErrNoMatchingSignature} {
		if err := webhook.Verify(secret, m.header, m.body, time.Now()); !errors.Is(err, want) {
			t.Errorf("%s: %v", secret, err)
		}
	}
}

func TestAMessageThatIsSentAgainHasItsIDAndAFreshTimestamp(t *testing.T) {
	base, client, got := receiver(t, http.StatusServiceUnavailable, http.StatusOK)
	now := noon
	h := handler(t, webhook.Options{URL: base, Client: client, Now: func() time.Time { return now }})
	d := delivery()
	if err := h(t.Context(), d); err == nil || !strings.Contains(err.Error(), "503") {
		t.Fatalf("the first attempt: %v", err)
	}
	d.Attempt, now = 2, noon.Add(10*time.Minute)
	if err := h(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	first, second := <-got, <-got
	if first.id() == "" || first.id() != second.id() || strings.Contains(first.id(), ".") {
		t.Errorf("ids %q and %q", first.id(), second.id())
	}
	if err := webhook.Verify(oldSecret, second.header, second.body, now); err != nil {
		t.Error(err)
	}
}

func TestDifferentMessagesHaveDifferentIDs(t *testing.T) {
	base, client, got := receiver(t, http.StatusOK)
	h := handler(t, webhook.Options{URL: base, Client: client})
	seen := map[string]string{}
	for name, change := range map[string]func(*agent.Delivery){
		"the message itself":               func(*agent.Delivery) {},
		"the other slot":                   func(d *agent.Delivery) { d.ID = "run-1:give_up" },
		"a redrive":                        func(d *agent.Delivery) { d.ID = "run-1:finish:1" },
		"that id in another conversation":  func(d *agent.Delivery) { d.Run.Owner.Conversation = "c2" },
		"that conversation of another one": func(d *agent.Delivery) { d.Run.Owner.Tenant = "t2" },
		"that id after a clear":            func(d *agent.Delivery) { d.Run.DispatchedAt = noon },
	} {
		d := delivery()
		change(&d)
		if err := h(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		id := (<-got).id()
		if other, ok := seen[id]; ok {
			t.Errorf("%s and %s have the same id", name, other)
		}
		seen[id] = name
	}
}

func TestAnyAnswerButSuccessIsAFailureThatTellsNoSecret(t *testing.T) {
	for _, code := range []int{301, 307, 400, 401, 404, 429, 500, 503} {
		base, client, got := receiver(t, code)
		err := handler(t, webhook.Options{URL: base + "/hush?key=hush", Client: client})(t.Context(), delivery())
		if err == nil || !strings.Contains(err.Error(), strconv.Itoa(code)) || strings.Contains(err.Error(), "hush") {
			t.Errorf("%d: %v", code, err)
		}
		if n := len(got); n != 1 {
			t.Errorf("%d: %d requests; a redirect must not be followed", code, n)
		}
	}
	_, client, _ := receiver(t, 200)
	err := handler(t, webhook.Options{URL: "https://elsewhere.test/hush", Client: client})(t.Context(), delivery())
	if _, ok := errors.AsType[*safehttp.RefusedError](err); !ok || strings.Contains(err.Error(), "hush") {
		t.Errorf("refused: %v", err)
	}
}

// silent is a receiver that never answers.
type silent struct{}

func (silent) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, context.Cause(r.Context())
}

func TestAReceiverThatNeverAnswersIsWaitedForForHalfAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		err := handler(t, webhook.Options{URL: "https://example.com/hush", Client: &http.Client{Transport: silent{}}})(t.Context(), delivery())
		if took := time.Since(begun); !errors.Is(err, context.DeadlineExceeded) || took != 30*time.Second || strings.Contains(err.Error(), "hush") {
			t.Errorf("%v after %v", err, took)
		}
	})
}

func TestGoneIsFinalAndTold(t *testing.T) {
	base, client, _ := receiver(t, http.StatusGone)
	var log strings.Builder
	h := handler(t, webhook.Options{URL: base + "/hush", Client: client, Log: slog.New(slog.NewTextHandler(&log, nil))})
	d := delivery()
	var told []string
	d.Emit = func(_ context.Context, typ string, _ any) error { told = append(told, typ); return nil }
	if err := h(t.Context(), d); err != nil {
		t.Errorf("got %v; it would be tried again", err)
	}
	if diff := cmp.Diff([]string{"webhook.gone"}, told); diff != "" {
		t.Error(diff)
	}
	if !strings.Contains(log.String(), "run_id=run-1") || strings.Contains(log.String(), "hush") {
		t.Errorf("log: %s", log.String())
	}
}

func TestOptionsThatCannotWorkAreRefused(t *testing.T) {
	good := webhook.Options{URL: "https://example.com/", Secrets: []string{oldSecret}, Client: http.DefaultClient}
	for want, change := range map[string]func(*webhook.Options){
		"Options.URL":        func(o *webhook.Options) { o.URL = "example.com/hook" },
		"Options.Secrets is": func(o *webhook.Options) { o.Secrets = nil },
		"Options.Secrets[1]": func(o *webhook.Options) { o.Secrets = []string{oldSecret, "whsec_"} },
		"Options.Secrets[0]": func(o *webhook.Options) { o.Secrets = []string{"whsec_hush!"} },
		"24 random bytes":    func(o *webhook.Options) { o.Secrets = []string{"whsec_aHVzaA=="} },
		"Options.Client":     func(o *webhook.Options) { o.Client = nil },
	} {
		o := good
		change(&o)
		if _, err := webhook.Handler(o); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hush") {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if err := webhook.Verify("", http.Header{}, nil, noon); err == nil || errors.Is(err, standardwebhooks.ErrRequiredHeaders) {
		t.Errorf("verifying with an empty secret: %v", err)
	}
}

func TestARunThatNamesTheHandlerIsToldOutside(t *testing.T) {
	base, client, got := receiver(t, http.StatusOK)
	registry := agent.NewRegistry()
	err := errors.Join(
		registry.AddTask("greet", func(context.Context, *agent.Run) (any, error) { return "hello", nil }),
		registry.AddHandler("outside", handler(t, webhook.Options{URL: base, Client: client})),
	)
	if err != nil {
		t.Fatal(err)
	}
	stack, err := serve.Open(t.Context(), serve.Options{Dir: t.TempDir(), Agents: registry, Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); stack.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done; stack.Close() })
	owner := subagent.Owner{Tenant: "default", Conversation: "c1"}
	_, _, err = stack.Service.Dispatch(t.Context(), ingress.RunRequest{Owner: owner, Agent: "greet", Run: "g1", Notice: subagent.Notice{Handler: "outside"}})
	if err != nil {
		t.Fatal(err)
	}
	m := <-got
	if err := webhook.Verify(oldSecret, m.header, m.body, time.Now()); err != nil {
		t.Error(err)
	}
	var e webhook.Event
	if err := json.Unmarshal(m.body, &e); err != nil {
		t.Fatal(err)
	}
	if e.Type != "run.completed" || e.Data.ID != "g1" || string(e.Data.Output) != `"hello"` || e.Data.Summary != "hello" {
		t.Errorf("got %+v", e)
	}
}
