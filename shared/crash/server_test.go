package crash

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// server is `errand serve` as an operator runs it.
type server struct {
	t       testing.TB
	binary  string
	data    string
	address string
	client  *http.Client
	log     *os.File

	mu      sync.Mutex
	process *exec.Cmd
}

func build(t testing.TB) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "errand")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "github.com/errand-dev/errand").CombinedOutput()
	if err != nil {
		t.Fatalf("building errand: %v\n%s", err, out)
	}
	return binary
}

func newServer(t testing.TB) *server {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	log, err := os.Create(filepath.Join(dir, "errand.log"))
	if err != nil {
		t.Fatal(err)
	}
	s := &server{t: t, binary: build(t), data: filepath.Join(dir, "data"), address: address, log: log,
		client: &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 16}}}
	t.Cleanup(func() {
		s.kill()
		if t.Failed() {
			s.tail()
		}
		if err := log.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// start starts the process and waits until it answers.
func (s *server) start() {
	s.t.Helper()
	cmd := exec.Command(s.binary, "serve", "--lab", "--data", s.data, "--listen", s.address)
	cmd.Stderr = s.log
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.mu.Lock()
	s.process = cmd
	s.mu.Unlock()
	ready := time.Now().Add(20 * time.Second)
	for {
		response, err := s.client.Get("http://" + s.address + "/healthz")
		if err == nil {
			response.Body.Close()
			return
		}
		if time.Now().After(ready) {
			s.tail()
			s.t.Fatalf("errand serve does not answer: %v", err)
		}
		pause(s.t.Context(), 5*time.Millisecond)
	}
}

// kill ends the process as a power cut would.
func (s *server) kill() {
	s.mu.Lock()
	cmd := s.process
	s.process = nil
	s.mu.Unlock()
	if cmd == nil {
		return
	}
	if err := cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		s.t.Error(err)
	}
	// It was killed: Wait says so, and that is no news.
	_ = cmd.Wait()
	s.client.CloseIdleConnections()
}

func (s *server) tail() {
	text, err := os.ReadFile(s.log.Name())
	if err != nil {
		s.t.Error(err)
		return
	}
	const last = 6000
	s.t.Logf("end of the server's log:\n%s", text[max(0, len(text)-last):])
}

// call sends one request; a status over 299 is an error of type *statusError.
func (s *server) call(ctx context.Context, method, path, key string, in, out any) error {
	var body io.Reader
	if in != nil {
		raw, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(raw)
	}
	request, err := http.NewRequestWithContext(ctx, method, "http://"+s.address+path, body)
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	if key != "" {
		request.Header.Set("Idempotency-Key", key)
	}
	response, err := s.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode > 299 {
		return &statusError{response.StatusCode, string(raw)}
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(raw, out)
}

type statusError struct {
	status int
	body   string
}

func (e *statusError) Error() string { return fmt.Sprintf("status %d: %s", e.status, e.body) }

// insist repeats a request until it is acknowledged: what the client of a server
// that dies does.
func (s *server) insist(ctx context.Context, method, path, key string, in, out any) error {
	for {
		err := s.call(ctx, method, path, key, in, out)
		var status *statusError
		if err == nil || errors.As(err, &status) && status.status < 500 && status.status != http.StatusTooManyRequests {
			return err
		}
		if !pause(ctx, 10*time.Millisecond) {
			return ctx.Err()
		}
	}
}

func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
