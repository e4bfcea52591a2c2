// Package endpoint gives tests an AWS-compatible endpoint: the one that the
// variable ERRAND_AWS_ENDPOINT names, or else a MiniStack of their own, which
// lives as long as the test binary.
//
// A test package hands its TestMain to Main and asks URL for the address. Where
// neither the variable nor Python is at hand, those tests skip and say what to do;
// where CI is set they fail instead.
package endpoint

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gofrs/flock"
)

// Variable names the environment variable with the base URL of the endpoint.
const Variable = "ERRAND_AWS_ENDPOINT"

// startWait bounds the start of MiniStack, installWait its first installation.
const (
	startWait   = 30 * time.Second
	installWait = 5 * time.Minute
)

// Main runs the tests with an endpoint and returns the exit code. If it starts
// MiniStack, it sets Variable, and stops the server when the tests are done. That
// MiniStack cannot be installed is for URL to report; that it is installed
// and does not start is a failure.
func Main(m *testing.M) int {
	if os.Getenv(Variable) != "" {
		return m.Run()
	}
	script, err := install()
	if err != nil {
		fmt.Fprintf(os.Stderr, "endpoint: no MiniStack: %v\n", err)
		return m.Run()
	}
	server, err := start(script)
	if err != nil {
		fmt.Fprintf(os.Stderr, "endpoint: MiniStack did not start: %v\n", err)
		return 1
	}
	defer server.stop()
	os.Setenv(Variable, server.url)
	return m.Run()
}

// URL returns the base URL of the endpoint. Without one the test ends here: skipped,
// or failed if CI is set.
func URL(tb testing.TB) string {
	tb.Helper()
	if url := os.Getenv(Variable); url != "" {
		return url
	}
	why := "NOT TESTED: no AWS-compatible endpoint. Run `localstack/ministack.sh install` (it needs python3 and a network), or set " +
		Variable + " to the URL of an endpoint that runs."
	if os.Getenv("CI") != "" {
		tb.Fatal(why)
	}
	tb.Skip(why)
	return ""
}

// Name returns a name for a table, queue or bucket that no other test uses: an
// endpoint may outlive the test, and be shared.
func Name(what string) string {
	return "errand-" + what + "-" + strings.ToLower(rand.Text()[:10])
}

// server is a MiniStack process. It ends when its standard input closes, so also
// when the test binary is killed.
type server struct {
	url     string
	process *exec.Cmd
	log     *os.File
}

func start(script string) (*server, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	log, err := os.CreateTemp("", "errand-ministack-*.log")
	if err != nil {
		return nil, err
	}
	process := exec.Command("sh", script, "run", port)
	process.Env = append(os.Environ(), "ERRAND_STDIN_GUARD=1")
	process.Stdout, process.Stderr = log, log
	if _, err := process.StdinPipe(); err != nil {
		return nil, err
	}
	if err := process.Start(); err != nil {
		return nil, err
	}
	s := &server{url: "http://127.0.0.1:" + port, process: process, log: log}
	if err := s.awaitHealth(); err != nil {
		output, _ := os.ReadFile(log.Name())
		s.stop()
		return nil, fmt.Errorf("%w; it said: %s", err, output)
	}
	return s, nil
}

// install makes sure that the virtual environment exists, once for all test
// binaries that start at the same time, and returns the path of the script.
func install() (string, error) {
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	if _, err := exec.LookPath("python3"); err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Join(root, ".venv"), 0o755); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), installWait)
	defer cancel()
	lock := flock.New(filepath.Join(root, ".venv", "lock"))
	if _, err := lock.TryLockContext(ctx, 100*time.Millisecond); err != nil {
		return "", fmt.Errorf("waiting for another installation: %w", err)
	}
	defer lock.Unlock()
	script := filepath.Join(root, "localstack", "ministack.sh")
	if output, err := exec.CommandContext(ctx, "sh", script, "install").CombinedOutput(); err != nil {
		return "", fmt.Errorf("installing: %w: %s", err, output)
	}
	return script, nil
}

// moduleRoot is the folder of go.mod above the test's working directory.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("no go.mod above the working directory")
		}
		dir = filepath.Dir(dir)
	}
}

func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, err
}

func (s *server) awaitHealth() error {
	ended := make(chan error, 1)
	go func() { ended <- s.process.Wait() }()
	deadline := time.After(startWait)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-ended:
			return fmt.Errorf("it ended at once: %v", err)
		case <-deadline:
			return fmt.Errorf("not healthy after %v", startWait)
		case <-tick.C:
			response, err := http.Get(s.url + "/_ministack/health")
			if err != nil {
				continue
			}
			response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
		}
	}
}

func (s *server) stop() {
	s.process.Process.Kill()
	s.log.Close()
	os.Remove(s.log.Name())
}
