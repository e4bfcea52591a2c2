package sqlitestore_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/errand-dev/errand/shared/platform"
	"github.com/errand-dev/errand/shared/sqlitestore"
)

// A test gives a child process, which is to be killed, its folder and its task.
const (
	victimDir  = "SQLITESTORE_VICTIM_DIR"
	victimTask = "SQLITESTORE_VICTIM_TASK"
)

// said is what victims reported, by kind: put KEY, sent BODY, got BODY (received
// and kept), acking BODY and acked BODY (before and after the call).
type said map[string]map[string]bool

func (s said) note(line string) {
	what, name, _ := strings.Cut(line, " ")
	if s[what] == nil {
		s[what] = make(map[string]bool)
	}
	s[what][name] = true
}

func TestNothingAcknowledgedIsLostWhenTheProcessIsKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	t.Parallel()
	dir := t.TempDir()
	said := make(said)
	for range 10 {
		lines := 20 + rand.IntN(400)
		runVictim(t, dir, "write", func(line string) (enough bool) {
			said.note(line)
			lines--
			return lines == 0
		})
	}
	s := open(t, dir)
	for name := range said["put"] {
		if item, err := s.Get(t.Context(), platform.Key{Partition: "p", Sort: name}); err != nil || item.Version != 1 {
			t.Fatalf("item %s has version %d, error %v", name, item.Version, err)
		}
	}
	queued := receiveAll(t, s, platform.Ticks)
	for name := range said["sent"] {
		if !queued[name] && !said["acking"][name] {
			t.Errorf("message %s is lost", name)
		}
	}
	for name := range said["got"] {
		if !queued[name] {
			t.Errorf("message %s, in flight at the end, is not available again", name)
		}
	}
	for name := range said["acked"] {
		if queued[name] {
			t.Errorf("message %s came back after it was acknowledged", name)
		}
	}
	if len(said["put"]) == 0 || len(said["sent"]) == 0 || len(said["got"]) == 0 || len(said["acked"]) == 0 || len(said["error"]) > 0 {
		t.Errorf("victims said too little, or had errors: %v", said["error"])
	}
	t.Logf("%d puts, %d sends, %d acknowledged, %d in flight", len(said["put"]), len(said["sent"]), len(said["acked"]), len(said["got"]))
}

func TestAMessageThatKillsEveryProcessBecomesADeadLetter(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir)
	if err := s.Send(t.Context(), platform.Message{Queue: platform.Ticks, Body: []byte("poison")}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for i := range platform.MaxReceives {
		want := fmt.Sprintf("got poison %d", i+1)
		runVictim(t, dir, "die", func(line string) bool {
			if line != want {
				t.Errorf("victim said %q, want %q", line, want)
			}
			return true
		})
	}
	s = open(t, dir)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if batch, err := s.Receive(ctx, platform.Ticks, 1, time.Minute); err == nil {
		t.Errorf("received %s for the %dth time", batch[0].Body, batch[0].Receives)
	}
	if letters, err := s.DeadLetters(t.Context(), platform.Ticks, 10); err != nil || len(letters) != 1 {
		t.Errorf("%d dead letters, error %v, want the message", len(letters), err)
	}
}

// runVictim starts a child on dir and kills it as soon as it said enough.
func runVictim(t *testing.T, dir, task string, enough func(line string) bool) {
	t.Helper()
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), victimDir+"="+dir, victimTask+"="+task)
	stdout, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	killed := false
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		// What it said after the kill was sent is true as well.
		if enough(lines.Text()) && !killed {
			killed = true
			if err := child.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := child.Wait(); !killed {
		t.Fatalf("the victim died by itself: %v", err)
	}
}

// beKilled does its task until the process is killed, and says what it was told
// is durable.
func beKilled(dir, task string) {
	ctx := context.Background()
	s, err := sqlitestore.Open(ctx, dir, sqlitestore.Options{})
	if err != nil {
		fmt.Println("error", err)
		return
	}
	v := &victim{s: s, life: fmt.Sprint(os.Getpid())}
	if task == "die" {
		if batch, err := s.Receive(ctx, platform.Ticks, 1, time.Hour); err == nil {
			fmt.Printf("got %s %d\n", batch[0].Body, batch[0].Receives)
		}
		<-make(chan struct{})
	}
	var workers sync.WaitGroup
	for w := range 4 {
		workers.Go(func() { v.report(v.writeForEver(ctx, w)) })
	}
	workers.Go(func() { v.report(v.receiveForEver(ctx)) })
	workers.Wait()
}

type victim struct {
	s    *sqlitestore.Store
	life string
	mu   sync.Mutex
}

func (v *victim) say(what, name string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	fmt.Println(what, name)
}

func (v *victim) report(err error) { v.say("error", err.Error()) }

// writeForEver does one put, one send, and one of each together, in turn.
func (v *victim) writeForEver(ctx context.Context, worker int) error {
	put := func(s platform.Store, sort string) error {
		return s.Put(ctx, platform.Item{Key: platform.Key{Partition: "p", Sort: sort}, Version: 1, Body: row})
	}
	send := func(s platform.Store, body string) error {
		return s.Send(ctx, platform.Message{Queue: platform.Ticks, Body: []byte(body)})
	}
	for i := 0; ; i++ {
		name := fmt.Sprintf("%s-%d-%d", v.life, worker, i)
		if err := put(v.s, name); err != nil {
			return err
		}
		v.say("put", name)
		if err := send(v.s, name); err != nil {
			return err
		}
		v.say("sent", name)
		name += "-both"
		err := v.s.Atomically(ctx, func(s platform.Store) error {
			if err := put(s, name); err != nil {
				return err
			}
			return send(s, name)
		})
		if err != nil {
			return err
		}
		v.say("put", name)
		v.say("sent", name)
	}
}

// receiveForEver keeps every second message and acknowledges the others. It takes
// messages of its own life only, so that what another kept stays kept.
func (v *victim) receiveForEver(ctx context.Context) error {
	for i := 0; ; {
		batch, err := v.s.Receive(ctx, platform.Ticks, 1, time.Hour)
		if err != nil {
			return err
		}
		body := string(batch[0].Body)
		if !strings.HasPrefix(body, v.life) {
			continue
		}
		if i++; i%2 == 0 {
			v.say("got", body)
			continue
		}
		v.say("acking", body)
		if err := v.s.Acknowledge(ctx, batch[0]); err != nil {
			return err
		}
		v.say("acked", body)
	}
}

// receiveAll takes all that can be had now, and what has died by now.
func receiveAll(t *testing.T, s *sqlitestore.Store, queue string) map[string]bool {
	t.Helper()
	bodies := make(map[string]bool)
	for {
		// On a busy machine a thousand messages take their time; none at all for so long means
		// that there is none.
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		batch, err := s.Receive(ctx, queue, 1000, time.Hour)
		cancel()
		if err != nil {
			break
		}
		for _, r := range batch {
			bodies[string(r.Body)] = true
		}
	}
	letters, err := s.DeadLetters(t.Context(), queue, 1_000_000)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range letters {
		bodies[string(r.Body)] = true
	}
	return bodies
}
