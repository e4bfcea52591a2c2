package lambdas

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// environment is one execution environment: the process of a function, and the
// Runtime API that it asks for work and gives its answers to.
type environment struct {
	process *exec.Cmd
	output  lockedBuffer
	exited  chan struct{}
	// ready is closed when the process first asks for work.
	ready chan struct{}
	work  chan invocation
	done  chan answer
	// started is when the process was; polled, to be read after ready, when it first
	// asked for work.
	started, polled time.Time
}

type invocation struct {
	id       string
	payload  []byte
	deadline time.Time
}

type answer struct {
	id      string
	payload []byte
	failed  bool
}

// start starts a function with the given variables and nothing of this process's own.
func start(t *testing.T, function string, env map[string]string) *environment {
	t.Helper()
	e := &environment{exited: make(chan struct{}), ready: make(chan struct{}), work: make(chan invocation), done: make(chan answer, 1)}
	api := httptest.NewServer(e.api())
	e.process = exec.Command(filepath.Join(bootstraps, function))
	e.process.Env = []string{
		"AWS_LAMBDA_RUNTIME_API=" + strings.TrimPrefix(api.URL, "http://"), "AWS_LAMBDA_FUNCTION_NAME=" + function,
		"AWS_REGION=us-east-1", "AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test",
	}
	for name, value := range env {
		e.process.Env = append(e.process.Env, name+"="+value)
	}
	e.process.Stdout, e.process.Stderr = &e.output, &e.output
	e.started = time.Now()
	if err := e.process.Start(); err != nil {
		t.Error(err)
		close(e.exited)
		return e
	}
	go func() {
		defer close(e.exited)
		_ = e.process.Wait()
	}()
	t.Cleanup(func() {
		e.kill()
		api.CloseClientConnections()
		api.Close()
		if t.Failed() {
			t.Logf("%s said:\n%s", function, e.output.String())
		}
	})
	return e
}

// api is the Lambda Runtime API, version 2018-06-01.
func (e *environment) api() http.Handler {
	mux := http.NewServeMux()
	var once sync.Once
	mux.HandleFunc("GET /2018-06-01/runtime/invocation/next", func(w http.ResponseWriter, r *http.Request) {
		once.Do(func() {
			e.polled = time.Now()
			close(e.ready)
		})
		select {
		case i := <-e.work:
			w.Header().Set("Lambda-Runtime-Aws-Request-Id", i.id)
			w.Header().Set("Lambda-Runtime-Deadline-Ms", strconv.FormatInt(i.deadline.UnixMilli(), 10))
			w.Header().Set("Lambda-Runtime-Invoked-Function-Arn", "arn:aws:lambda:us-east-1:000000000000:function:f")
			_, _ = w.Write(i.payload)
		case <-r.Context().Done():
		}
	})
	answered := func(failed bool) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			payload, err := io.ReadAll(r.Body)
			if err != nil {
				return
			}
			w.WriteHeader(http.StatusAccepted)
			e.done <- answer{r.PathValue("id"), payload, failed}
		}
	}
	mux.HandleFunc("POST /2018-06-01/runtime/invocation/{id}/response", answered(false))
	mux.HandleFunc("POST /2018-06-01/runtime/invocation/{id}/error", answered(true))
	return mux
}

// errDied is what an invocation ends with whose process is gone.
var errDied = errors.New("the process ended")

// functionError is what a function answered that failed.
type functionError struct{ payload string }

func (e *functionError) Error() string { return "function error: " + e.payload }

// invoke hands the process one event and returns its answer. After timeout it kills
// the process, as Lambda does.
func (e *environment) invoke(ctx context.Context, payload []byte, timeout time.Duration) ([]byte, error) {
	i := invocation{fmt.Sprintf("request-%d", time.Now().UnixNano()), payload, time.Now().Add(timeout)}
	over := time.NewTimer(timeout)
	defer over.Stop()
	select {
	case e.work <- i:
	case <-e.exited:
		return nil, errDied
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-over.C:
		return nil, errors.New("it never asked for work")
	}
	select {
	case a := <-e.done:
		if a.id != i.id {
			return nil, fmt.Errorf("an answer to %s instead of %s", a.id, i.id)
		}
		if a.failed {
			return nil, &functionError{string(a.payload)}
		}
		return a.payload, nil
	case <-e.exited:
		return nil, errDied
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-over.C:
		e.kill()
		return nil, errors.New("timed out")
	}
}

func (e *environment) kill() {
	_ = e.process.Process.Kill()
	<-e.exited
}

// lockedBuffer collects what a process says.
type lockedBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}
