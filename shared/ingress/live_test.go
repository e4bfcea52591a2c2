package ingress_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/errand-dev/errand/shared/api"
	"github.com/errand-dev/errand/shared/ingress"
	"github.com/errand-dev/errand/shared/ledger"
	"github.com/errand-dev/errand/shared/subagent"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// inside counts the requests that handlers are working on.
type inside struct {
	mu      sync.Mutex
	n       int
	changed chan struct{}
}

func (i *inside) wrap(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		i.add(1)
		defer i.add(-1)
		h.ServeHTTP(w, r)
	})
}

func (i *inside) add(n int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.n += n
	if i.changed != nil {
		close(i.changed)
		i.changed = nil
	}
}

// wait waits until so many requests are inside.
func (i *inside) wait(t *testing.T, n int) {
	t.Helper()
	timeout := time.After(10 * time.Second)
	for {
		i.mu.Lock()
		if i.n == n {
			i.mu.Unlock()
			return
		}
		if i.changed == nil {
			i.changed = make(chan struct{})
		}
		now, changed := i.n, i.changed
		i.mu.Unlock()
		select {
		case <-changed:
		case <-timeout:
			t.Fatalf("%d requests are inside after 10 s, want %d", now, n)
		}
	}
}

func TestALongPollWakesWithTheNextEvent(t *testing.T) {
	var in inside
	s := open(t, options{idle: true, handler: in.wrap})
	get[api.Turn](s, s.call("POST", "/v1/conversations/c/turns", `{"message":"a"}`), 202)
	first := get[api.EventPage](s, s.call("GET", "/v1/conversations/c/events", ""), 200)
	if len(first.Events) != 1 || first.Events[0].Type != "turn.accepted" || first.Next != first.Events[0].Seq {
		t.Fatalf("the log has %+v", first)
	}
	in.wait(t, 0)
	woken := make(chan api.EventPage)
	go func() {
		woken <- get[api.EventPage](s, s.call("GET", fmt.Sprintf("/v1/conversations/c/events?wait_ms=25000&after=%d", first.Next), ""), 200)
	}()
	in.wait(t, 1)
	start := time.Now()
	get[api.Turn](s, s.call("POST", "/v1/conversations/c/turns", `{"message":"b"}`), 202)
	page := <-woken
	if len(page.Events) != 1 || page.Events[0].Seq <= first.Next {
		t.Errorf("woken with %+v", page)
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
}

func TestALongPollEndsEmptyAfterItsTime(t *testing.T) {
	s := open(t, options{idle: true})
	get[api.Turn](s, s.call("POST", "/v1/conversations/c/turns", `{"message":"a"}`), 202)
	last := s.last("c")
	a := s.call("GET", fmt.Sprintf("/v1/conversations/c/events?wait_ms=30&after=%d", last), "")
	if page := get[api.EventPage](s, a, 200); len(page.Events) != 0 || page.Next != last || !strings.Contains(string(a.body), `"events":[]`) {
		t.Errorf("answered %s", a.body)
	}
}

func TestAServersTimeoutsDoNotCutOffWhoWaits(t *testing.T) {
	s := open(t, options{idle: true, timeout: 100 * time.Millisecond})
	get[api.Turn](s, s.call("POST", "/v1/conversations/c/turns", `{"message":"a"}`), 202)
	frames := streamOf(t, t.Context(), s.url+"/v1/conversations/c/events")
	next(t, frames)
	get[api.EventPage](s, s.call("GET", fmt.Sprintf("/v1/conversations/c/events?wait_ms=300&after=%d", s.last("c")), ""), 200)
	s.hub.Publish(owner("c"), s.Ledger.NewEvent("run.progress", "r", "", nil))
	if f := next(t, frames); f.event != "run.progress" {
		t.Errorf("after the timeout came %+v", f)
	}
}

func TestEventsArePagedWithoutGapsOrRepeats(t *testing.T) {
	s := open(t, options{idle: true})
	const total = 25
	for i := range total {
		run := "other"
		if i%5 == 0 {
			run = "r"
		}
		if err := s.Ledger.Emit(t.Context(), owner("c"), s.Ledger.NewEvent("x", run, "", nil), s.Ledger.NewEvent("x", "", "", i)); err != nil {
			t.Fatal(err)
		}
	}
	get[api.Run](s, s.call("POST", "/v1/conversations/c/runs", `{"agent":"lab-echo","run_id":"r"}`), 202)
	walk := func(path string) (seen []int64) {
		for after := int64(0); ; {
			page := get[api.EventPage](s, s.call("GET", fmt.Sprintf("%s?limit=3&after=%d", path, after), ""), 200)
			for _, e := range page.Events {
				seen = append(seen, e.Seq)
			}
			if page.Next == after {
				return seen
			}
			after = page.Next
		}
	}
	all := walk("/v1/conversations/c/events")
	for i, seq := range all {
		if i > 0 && seq <= all[i-1] {
			t.Fatalf("events come as %v", all)
		}
	}
	if len(all) != 2*total+2 {
		t.Errorf("%d events", len(all))
	}
	if of := walk("/v1/conversations/c/runs/r/events"); len(of) != 6 {
		t.Errorf("run r has events %v", of)
	}
}

func TestVanishedClientsLeaveNothingBehind(t *testing.T) {
	var in inside
	s := open(t, options{idle: true, handler: in.wrap})
	get[api.Turn](s, s.call("POST", "/v1/conversations/c/turns", `{"message":"a"}`), 202)
	last := s.last("c")
	in.wait(t, 0)
	ctx, vanish := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	for i := range 32 {
		clients.Go(func() {
			request, _ := http.NewRequestWithContext(ctx, "GET", fmt.Sprintf("%s/v1/conversations/c/events?wait_ms=25000&after=%d", s.url, last), nil)
			if i%2 == 0 {
				request.Header.Set("Accept", "text/event-stream")
			}
			response, err := http.DefaultClient.Do(request)
			if err == nil {
				_, err = io.Copy(io.Discard, response.Body)
				response.Body.Close()
			}
			if !errors.Is(err, context.Canceled) {
				t.Errorf("a client ended with %v", err)
			}
		})
	}
	in.wait(t, 32)
	vanish()
	clients.Wait()
	in.wait(t, 0)
	if strings.Contains(s.log.String(), "level=ERROR") {
		t.Errorf("the log has %s", s.log)
	}
}

// frame is one server-sent event.
type frame struct{ id, event, data string }

// streamOf opens a stream and returns its frames.
func streamOf(t *testing.T, ctx context.Context, url string, headers ...string) <-chan frame {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, "GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Accept", "text/event-stream")
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	if kind := response.Header.Get("Content-Type"); response.StatusCode != 200 || kind != "text/event-stream" {
		t.Fatalf("answered %d %s", response.StatusCode, kind)
	}
	frames := make(chan frame, 100)
	go func() {
		defer close(frames)
		defer response.Body.Close()
		var f frame
		for lines := bufio.NewScanner(response.Body); lines.Scan(); {
			name, value, _ := strings.Cut(lines.Text(), ": ")
			switch name {
			case "id":
				f.id = value
			case "event":
				f.event = value
			case "data":
				f.data = value
			case "":
				if f.data != "" {
					frames <- f
				}
				f = frame{}
			}
		}
	}()
	return frames
}

func next(t *testing.T, frames <-chan frame) frame {
	t.Helper()
	select {
	case f := <-frames:
		return f
	case <-time.After(10 * time.Second):
		t.Fatal("no frame in 10 s")
		return frame{}
	}
}

func TestAStreamHasTheLogThenWhatHappensAndProgressWithoutAnID(t *testing.T) {
	s := open(t, options{idle: true})
	get[api.Turn](s, s.call("POST", "/v1/conversations/c/turns", `{"message":"a"}`), 202)
	ctx, cancel := context.WithCancel(t.Context())
	frames := streamOf(t, ctx, s.url+"/v1/conversations/c/events")
	first := next(t, frames)
	if first.id != strconv.FormatInt(s.last("c"), 10) || first.event != "turn.accepted" {
		t.Errorf("first %+v", first)
	}
	s.hub.Publish(owner("c"), s.Ledger.NewEvent("run.progress", "r", "", map[string]any{"fraction": 0.5}))
	s.hub.Publish(owner("other"), s.Ledger.NewEvent("run.progress", "r", "", nil))
	s.hub.Publish(subagent.Owner{Tenant: "thief", Conversation: "c"}, s.Ledger.NewEvent("run.progress", "r", "", nil))
	f := next(t, frames)
	var e api.Event
	if err := json.Unmarshal([]byte(f.data), &e); err != nil || f.id != "" || f.event != "run.progress" || e.RunID != "r" || string(e.Data) != `{"fraction":0.5}` {
		t.Errorf("progress %+v", f)
	}
	if err := s.Ledger.Emit(t.Context(), owner("c"), s.Ledger.NewEvent("evil\nid: 99", "", "", "two\nlines")); err != nil {
		t.Fatal(err)
	}
	second := next(t, frames)
	if second.id != strconv.FormatInt(s.last("c"), 10) || second.event != "message" || !strings.Contains(second.data, `two\nlines`) {
		t.Errorf("then %+v", second)
	}
	cancel()
	for range frames {
	}
	again := streamOf(t, t.Context(), s.url+"/v1/conversations/c/events", "Last-Event-ID", first.id)
	if f := next(t, again); f != second {
		t.Errorf("resumed with %+v", f)
	}
}

func TestARunsStreamHasOnlyThatRun(t *testing.T) {
	s := open(t, options{idle: true})
	get[api.Run](s, s.call("POST", "/v1/conversations/c/runs", `{"agent":"lab-echo","run_id":"r"}`), 202)
	frames := streamOf(t, t.Context(), s.url+"/v1/conversations/c/runs/r/events")
	if f := next(t, frames); f.event != "run.dispatched" {
		t.Errorf("first %+v", f)
	}
	s.hub.Publish(owner("c"), s.Ledger.NewEvent("run.progress", "other", "", nil))
	s.hub.Publish(owner("c"), s.Ledger.NewEvent("run.progress", "r", "", nil))
	if f := next(t, frames); !strings.Contains(f.data, `"run_id":"r"`) {
		t.Errorf("then %+v", f)
	}
}

func TestWithoutAHubThereIsJSONOrNothing(t *testing.T) {
	s := open(t, options{idle: true, noHub: true})
	get[api.Turn](s, s.call("POST", "/v1/conversations/c/turns", `{"message":"a"}`), 202)
	s.problem(s.call("GET", "/v1/conversations/c/events", "", "Accept", "text/event-stream"), 406, "not-acceptable", "")
	get[api.EventPage](s, s.call("GET", "/v1/conversations/c/events", "", "Accept", "text/event-stream, application/json;q=0.5"), 200)
	s.problem(s.call("GET", "/v1/conversations/none/events", "", "Accept", "application/json"), 404, "not-found", "")
}

func TestAStreamOfNothingIsAProblem(t *testing.T) {
	s := open(t, options{idle: true})
	s.problem(s.call("GET", "/v1/conversations/none/events", "", "Accept", "text/event-stream"), 404, "not-found", "")
}

func TestASlowWatcherIsDroppedAndNeverWaitedFor(t *testing.T) {
	var hub ingress.Hub
	o := owner("c")
	slow, fast := hub.Subscribe(o), hub.Subscribe(o)
	for i := range 1000 {
		hub.Publish(o, ledger.Event{Seq: int64(i)})
		if e := <-fast.C; e.Seq != int64(i) {
			t.Fatalf("the fast one got %d, want %d", e.Seq, i)
		}
	}
	n := 0
	for range slow.C {
		n++
	}
	if n == 0 || n == 1000 {
		t.Errorf("the slow one got %d events", n)
	}
	slow.Close()
	fast.Close()
	fast.Close()
	hub.Publish(o, ledger.Event{})
}

func TestAClientThatSendsItsBodySlowlyHarmsNobody(t *testing.T) {
	var in inside
	s := open(t, options{idle: true, handler: in.wrap})
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(conn, "POST /v1/conversations/c/turns HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"mess")
	in.wait(t, 1)
	get[api.Turn](s, s.call("POST", "/v1/conversations/d/turns", `{"message":"a"}`), 202)
	conn.Close()
	in.wait(t, 0)
	s.problem(s.call("GET", "/v1/conversations/c", ""), 404, "not-found", "")
}

func TestSixtyFourClientsAtOnce(t *testing.T) {
	s := open(t, options{})
	var clients sync.WaitGroup
	turns := make([]string, 64)
	for i := range turns {
		clients.Go(func() {
			key := fmt.Sprintf("k%d", i%32)
			turn := get[api.Turn](s, s.call("POST", "/v1/conversations/c/turns", `{"message":"say `+key+`"}`, "Idempotency-Key", key), 202)
			turns[i] = turn.ID
			run := get[api.Run](s, s.call("POST", "/v1/conversations/c/runs", `{"agent":"lab-echo","input":{"text":"x"},"detached":{}}`, "Idempotency-Key", key), 202)
			s.call("GET", "/v1/conversations/c/runs/"+run.ID, "")
		})
	}
	clients.Wait()
	for i := range 32 {
		if turns[i] != turns[i+32] {
			t.Errorf("key k%d made turns %s and %s", i, turns[i], turns[i+32])
		}
		for !get[api.Turn](s, s.call("GET", "/v1/conversations/c/turns/"+turns[i], ""), 200).Done() {
			s.event("c", "turn.completed", "")
		}
	}
	if runs := get[api.RunPage](s, s.call("GET", "/v1/conversations/c/runs", ""), 200).Runs; len(runs) != 32 {
		t.Errorf("there are %d runs", len(runs))
	}
	if m := get[api.MessagePage](s, s.call("GET", "/v1/conversations/c/messages", ""), 200).Messages; len(m) != 64 {
		t.Errorf("there are %d messages", len(m))
	}
}

func TestTheCapHoldsForSixtyFourDispatchesAtOnce(t *testing.T) {
	s := open(t, options{idle: true, cap: 8})
	var mu sync.Mutex
	statuses := map[int]int{}
	var clients sync.WaitGroup
	for range 64 {
		clients.Go(func() {
			a := s.call("POST", "/v1/conversations/c/runs", `{"agent":"lab-echo"}`)
			mu.Lock()
			defer mu.Unlock()
			statuses[a.status]++
		})
	}
	clients.Wait()
	if statuses[202] != 8 || statuses[429] != 56 {
		t.Errorf("answered %v", statuses)
	}
	if runs := get[api.RunPage](s, s.call("GET", "/v1/conversations/c/runs", ""), 200).Runs; len(runs) != 8 {
		t.Errorf("there are %d runs", len(runs))
	}
}

func TestAPageEndsBeforeItIsTooLargeForLambda(t *testing.T) {
	s := open(t, options{idle: true})
	get[api.Turn](s, s.call("POST", "/v1/conversations/c/turns", `{"message":"a"}`), 202)
	text, err := s.Ledger.StoreValue(t.Context(), owner("c"), strings.Repeat("x", 2<<20))
	if err != nil {
		t.Fatal(err)
	}
	for i := range int64(3) {
		if _, err := s.Ledger.AddMessage(t.Context(), owner("c"), ledger.Message{Seq: i + 1, ID: fmt.Sprint(i), Role: "user", Text: text}); err != nil {
			t.Fatal(err)
		}
	}
	page := get[api.MessagePage](s, s.call("GET", "/v1/conversations/c/messages", ""), 200)
	if len(page.Messages) != 1 || page.Next != "1" || len(page.Messages[0].Text) != 2<<20 {
		t.Errorf("a page has %d messages, next %q", len(page.Messages), page.Next)
	}
	for range 20 {
		if err := s.Ledger.Emit(t.Context(), owner("c"), s.Ledger.NewEvent("x", "", "", strings.Repeat("x", 250<<10))); err != nil {
			t.Fatal(err)
		}
	}
	seen := 0
	for after := int64(0); ; {
		a := s.call("GET", fmt.Sprintf("/v1/conversations/c/events?after=%d", after), "")
		page := get[api.EventPage](s, a, 200)
		if len(a.body) > 4<<20 {
			t.Errorf("a page of events has %d bytes", len(a.body))
		}
		if seen += len(page.Events); page.Next == after {
			break
		}
		after = page.Next
	}
	if seen != 21 {
		t.Errorf("saw %d events", seen)
	}
}
