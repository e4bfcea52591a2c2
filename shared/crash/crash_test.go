package crash

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"
)

var (
	kills = flag.Int("kills", 12, "how often the server is killed")
	seed  = flag.Uint64("seed", 1, "seed of the load and of the moments of the kills")
)

const (
	conversations = 6
	loaders       = 6
)

// order is one piece of work that the server has acknowledged.
type order struct {
	conversation, turn, run, agent string
	text                           string
	notify                         bool
}

func TestNothingIsLostOrDoubledWhenTheServerIsKilled(t *testing.T) {
	s := newServer(t)
	s.start()
	loading, stop := context.WithCancel(t.Context())
	defer stop()
	var all orders
	var load sync.WaitGroup
	for n := range loaders {
		load.Go(func() { all.fill(loading, s, n) })
	}
	random := rand.New(rand.NewPCG(*seed, 0))
	for n := range *kills {
		pause(t.Context(), time.Duration(20+random.IntN(400))*time.Millisecond)
		s.kill()
		s.start()
		t.Logf("kill %d of %d; %d orders acknowledged", n+1, *kills, all.count())
	}
	stop()
	load.Wait()
	all.asked.Wait()
	check(t, s, all.list)
}

type orders struct {
	mu   sync.Mutex
	list []order
	// asked are the decisions under way.
	asked sync.WaitGroup
}

func (o *orders) add(one order) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.list = append(o.list, one)
}

func (o *orders) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.list)
}

// fill sends work until ctx ends, each piece under its own key, and notes what was
// acknowledged.
func (o *orders) fill(ctx context.Context, s *server, loader int) {
	for n := 0; ctx.Err() == nil; n++ {
		id := fmt.Sprintf("l%d-%d", loader, n)
		one := order{conversation: fmt.Sprintf("c%d", (loader+n)%conversations)}
		var err error
		if n%3 == 0 {
			one.text = "say " + id
			var turn struct{ ID string }
			err = s.insist(ctx, "POST", "/v1/conversations/"+one.conversation+"/turns", id, map[string]any{"message": one.text, "agent": "lab"}, &turn)
			one.turn = turn.ID
		} else {
			err = o.dispatch(ctx, s, &one, id, n)
		}
		if err != nil {
			if ctx.Err() == nil {
				s.t.Errorf("order %s: %v", id, err)
			}
			return
		}
		o.add(one)
		pause(ctx, 20*time.Millisecond)
	}
}

func (o *orders) dispatch(ctx context.Context, s *server, one *order, id string, n int) error {
	one.run, one.notify = "run-"+id, n%2 == 0
	detached := map[string]any{"notify": true}
	if !one.notify {
		detached = map[string]any{"on_finish": "lab-ok"}
	}
	var input map[string]any
	switch n % 7 {
	case 0:
		one.agent, input = "lab-echo", map[string]any{"text": id}
	case 1:
		one.agent, input = "lab-steps", map[string]any{"steps": 4, "ms_each": 25}
	case 2:
		one.agent, input = "lab-sleep", map[string]any{"ms": 120, "output": id}
	case 3:
		one.agent, input = "lab-tree", map[string]any{"children": 2, "depth": 1, "ms": 60}
	case 4:
		one.agent, input = "lab-nap", map[string]any{"ms": 300}
	case 5:
		one.agent, input = "lab-join", map[string]any{"children": 3, "need": 2, "ms": 40}
	case 6:
		one.agent, input = "lab-approve", map[string]any{"title": id}
		// Whoever asks must be answered, so this one is insisted on also after the load ends.
		ctx = s.t.Context()
	}
	err := s.insist(ctx, "POST", "/v1/conversations/"+one.conversation+"/runs", id,
		map[string]any{"agent": one.agent, "input": input, "run_id": one.run, "detached": detached}, nil)
	if err == nil && one.agent == "lab-approve" {
		o.asked.Go(func() { s.decide(*one) })
	}
	return err
}

// check proves, from the outside, what became of every acknowledged order.
func check(t *testing.T, s *server, list []order) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for _, one := range list {
		if one.run != "" {
			checkRun(ctx, t, s, one)
		} else {
			checkTurn(ctx, t, s, one)
		}
	}
	for n := range conversations {
		checkConversation(ctx, t, s, fmt.Sprintf("c%d", n), list)
	}
	t.Logf("%d orders checked", len(list))
}

func checkTurn(ctx context.Context, t *testing.T, s *server, one order) {
	t.Helper()
	var turn struct{ Status, Reply, Error string }
	for turn.Status != "completed" {
		if err := s.insist(ctx, "GET", "/v1/conversations/"+one.conversation+"/turns/"+one.turn, "", nil, &turn); err != nil {
			t.Fatalf("turn %s: %v (status %s)", one.turn, err, turn.Status)
		}
		if turn.Status == "error" || turn.Status != "completed" && !pause(ctx, 20*time.Millisecond) {
			t.Fatalf("turn %s is %s: %s", one.turn, turn.Status, turn.Error)
		}
	}
	if want := strings.TrimPrefix(one.text, "say "); turn.Reply != want {
		t.Errorf("turn %s: reply %q, want %q", one.turn, turn.Reply, want)
	}
}

// atTheCap is how a tree ends that could not dispatch its children.
const atTheCap = "the conversation has 64 background runs already"

type run struct {
	Status   string
	Error    string
	Attempts int
	Output   json.RawMessage
	Finish   struct{ State string }
}

func checkRun(ctx context.Context, t *testing.T, s *server, one order) {
	t.Helper()
	var r run
	for r.Finish.State != "delivered" {
		if err := s.insist(ctx, "GET", "/v1/conversations/"+one.conversation+"/runs/"+one.run, "", nil, &r); err != nil {
			t.Fatalf("run %s: %v (%+v)", one.run, err, r)
		}
		if r.Finish.State != "delivered" && !pause(ctx, 20*time.Millisecond) {
			s.explain(one.conversation)
			t.Fatalf("run %s was not delivered in time: %+v", one.run, r)
		}
	}
	if (one.agent == "lab-tree" || one.agent == "lab-join") && r.Status == "error" && strings.HasPrefix(r.Error, atTheCap) {
		// The backlog after a kill filled the conversation: its children were refused by rule.
		return
	}
	if r.Status != "completed" {
		t.Errorf("run %s (%s) is %s: %s", one.run, one.agent, r.Status, r.Error)
	}
	checkWait(t, one, r)
	if one.agent != "lab-steps" {
		return
	}
	var out struct{ Ran []int }
	if err := json.Unmarshal(r.Output, &out); err != nil {
		t.Fatalf("run %s: output %s: %v", one.run, r.Output, err)
	}
	again := 0
	for i, n := range out.Ran {
		if n < 1 {
			t.Errorf("run %s: step %d ran %d times", one.run, i, n)
		}
		again += n - 1
	}
	// Each kill can interrupt one step; a journalled one is never repeated.
	if again > r.Attempts-1 {
		t.Errorf("run %s: %d steps were repeated in %d attempts: %v", one.run, again, r.Attempts, out.Ran)
	}
}

type message struct {
	Seq    int64
	ID     string
	Role   string
	Text   string
	Source string
	RunID  string `json:"run_id"`
}

func checkConversation(ctx context.Context, t *testing.T, s *server, conversation string, list []order) {
	t.Helper()
	messages := transcript(ctx, t, s, conversation)
	seen := map[string]int{}
	finishes := map[string]int{}
	said := map[string]int{}
	for i, m := range messages {
		if m.Seq != int64(i+1) {
			t.Fatalf("%s: message %d has number %d", conversation, i+1, m.Seq)
		}
		if seen[m.ID]++; seen[m.ID] > 1 {
			t.Errorf("%s: message %s is there twice", conversation, m.ID)
		}
		if m.Role == "user" {
			said[m.Text]++
			if m.RunID != "" {
				finishes[m.RunID]++
			}
		}
	}
	for _, one := range list {
		switch {
		case one.conversation != conversation:
		case one.turn != "" && said[one.text] != 1:
			t.Errorf("%s: %q was said %d times", conversation, one.text, said[one.text])
		case one.notify && finishes[one.run] != 1:
			t.Errorf("%s: run %s was told %d times", conversation, one.run, finishes[one.run])
		}
	}
	checkHandlers(ctx, t, s, conversation, list)
	checkQuiet(ctx, t, s, conversation)
}

func transcript(ctx context.Context, t *testing.T, s *server, conversation string) []message {
	t.Helper()
	var all []message
	after := "0"
	for {
		var page struct {
			Messages []message
			Next     string
		}
		if err := s.insist(ctx, "GET", "/v1/conversations/"+conversation+"/messages?limit=500&after="+after, "", nil, &page); err != nil {
			t.Fatal(err)
		}
		all = append(all, page.Messages...)
		if page.Next == "" {
			return all
		}
		after = page.Next
	}
}

// checkHandlers: a handler is called at least once per run, and twice only if its
// attempt says that a crash came inside the first.
func checkHandlers(ctx context.Context, t *testing.T, s *server, conversation string, list []order) {
	t.Helper()
	calls := map[string][]int{}
	var after int64
	for {
		var page struct {
			Events []struct {
				Seq  int64
				Type string
				Data struct {
					Run     string
					Attempt int
				}
			}
			Next int64
		}
		if err := s.insist(ctx, "GET", fmt.Sprintf("/v1/conversations/%s/events?limit=500&after=%d", conversation, after), "", nil, &page); err != nil {
			t.Fatal(err)
		}
		for _, e := range page.Events {
			if e.Seq <= after {
				t.Fatalf("%s: event %d comes after %d", conversation, e.Seq, after)
			}
			after = e.Seq
			if e.Type == "lab.handler" {
				calls[e.Data.Run] = append(calls[e.Data.Run], e.Data.Attempt)
			}
		}
		if len(page.Events) == 0 {
			break
		}
	}
	for _, one := range list {
		if one.run == "" || one.notify || one.conversation != conversation {
			continue
		}
		attempts := calls[one.run]
		if len(attempts) == 0 {
			t.Errorf("%s: no handler was called for run %s", conversation, one.run)
		}
		for i, attempt := range attempts {
			if i > 0 && attempt <= attempts[i-1] {
				t.Errorf("%s: run %s: handler attempts %v", conversation, one.run, attempts)
			}
		}
	}
}

func checkQuiet(ctx context.Context, t *testing.T, s *server, conversation string) {
	t.Helper()
	var state struct {
		Turns struct{ Queued, Running int }
		Runs  struct{ Active int }
	}
	for {
		if err := s.insist(ctx, "GET", "/v1/conversations/"+conversation, "", nil, &state); err != nil {
			t.Fatal(err)
		}
		if state.Turns.Queued+state.Turns.Running+state.Runs.Active == 0 {
			return
		}
		if !pause(ctx, 50*time.Millisecond) {
			s.explain(conversation)
			t.Fatalf("%s does not settle: %+v", conversation, state)
		}
	}
}

// explain logs how the runs of the conversation that are active came to where they are.
func (s *server) explain(conversation string) {
	s.t.Helper()
	var active struct{ Runs []struct{ ID, Agent string } }
	if err := s.call(s.t.Context(), "GET", "/v1/conversations/"+conversation+"/runs?status=active", "", nil, &active); err != nil {
		s.t.Error(err)
	}
	for _, r := range active.Runs {
		var why json.RawMessage
		if err := s.call(s.t.Context(), "GET", "/v1/conversations/"+conversation+"/runs/"+r.ID+"/why", "", nil, &why); err != nil {
			s.t.Error(err)
		}
		s.t.Logf("%s is active: %s", r.Agent, why)
	}
}
