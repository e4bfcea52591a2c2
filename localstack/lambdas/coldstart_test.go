package lambdas

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/errand-dev/errand/shared/config"
)

// nowhere is an environment that no function can do work in, but start. endpoint stands for
// every service.
func nowhere(endpoint string) map[string]string {
	return map[string]string{
		config.Table: "table", config.Bucket: "bucket", config.TurnsURL: endpoint + "/0/turns.fifo",
		config.RunsURL: endpoint + "/0/runs", config.TicksURL: endpoint + "/0/ticks", config.DeadTicksURL: endpoint + "/0/ticks-dlq",
		"AWS_ENDPOINT_URL": endpoint,
	}
}

// nobody is an address at which nothing listens.
const nobody = "http://127.0.0.1:1"

// initAllocations is how many allocations may be made before main begins. Most are the SDK's
// own tables; a schema compiled or a catalogue parsed in a package's variables would show here.
const initAllocations = 16_000

// TestAFunctionDoesNothingBeforeItsFirstRequestThatThisDoesNotNeed counts what is done before a
// function asks for work: the calls it makes, which must be none, and what the packages' own
// variables cost. The times are logged, for docs/benchmarks.md; nothing is judged by them.
func TestAFunctionDoesNothingBeforeItsFirstRequestThatThisDoesNotNeed(t *testing.T) {
	health := `{"version":"2.0","rawPath":"/healthz","requestContext":{"http":{"method":"GET"},"authorizer":{"jwt":{"claims":{"sub":"u"}}}}}`
	for function, event := range map[string]string{"ingress": health, "executor": `{"Records":[]}`, "reconcile": `{"Records":[]}`} {
		var calls atomic.Int64
		services := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { calls.Add(1) }))
		env := nowhere(services.URL)
		env["GODEBUG"] = "inittrace=1"
		e := start(t, function, env)
		select {
		case <-e.ready:
		case <-e.exited:
			t.Fatalf("%s ended: %s", function, e.output.String())
		}
		begin := time.Now()
		answer, err := e.invoke(t.Context(), []byte(event), 10*time.Second)
		if err != nil {
			t.Errorf("%s: %v", function, err)
		}
		took := time.Since(begin)
		services.Close()
		packages, allocations := initWork(t, e.output.String())
		if packages == 0 || allocations > initAllocations {
			t.Errorf("%s: %d packages made %d allocations before main began; at most %d may be made", function, packages, allocations, initAllocations)
		}
		if n := calls.Load(); n != 0 {
			t.Errorf("%s made %d calls", function, n)
		}
		t.Logf("%-9s process to first poll %v, first answer after %v more: %.60s; %d allocations in %d packages before main",
			function, e.polled.Sub(e.started).Round(time.Millisecond), took.Round(100*time.Microsecond), answer, allocations, packages)
	}
}

// initWork sums what the runtime tells of the packages' initialisation.
func initWork(t *testing.T, trace string) (packages, allocations int) {
	t.Helper()
	for _, line := range regexp.MustCompile(`(?m)^init \S+ @.* (\d+) allocs$`).FindAllStringSubmatch(trace, -1) {
		n, err := strconv.Atoi(line[1])
		if err != nil {
			t.Fatal(err)
		}
		packages++
		allocations += n
	}
	return packages, allocations
}

func TestAFunctionThatIsMisconfiguredSaysAllThatIsMissing(t *testing.T) {
	t.Parallel()
	for _, function := range functions {
		env := nowhere(nobody)
		delete(env, config.Table)
		delete(env, config.RunsURL)
		e := start(t, function, env)
		if _, err := e.invoke(t.Context(), []byte("{}"), 10*time.Second); !errors.Is(err, errDied) {
			t.Errorf("%s: %v", function, err)
		}
		for _, name := range []string{config.Table, config.RunsURL} {
			if said := e.output.String(); !strings.Contains(said, name+" is not set") {
				t.Errorf("%s does not mention %s: %s", function, name, said)
			}
		}
	}
}

func TestAFailureIsAFunctionErrorAndTheProcessGoesOn(t *testing.T) {
	t.Parallel()
	e := start(t, "reconcile", nowhere(nobody))
	for range 2 {
		_, err := e.invoke(t.Context(), []byte(`{"tick":0}`), 10*time.Second)
		if failure, ok := errors.AsType[*functionError](err); !ok || !strings.Contains(failure.payload, "poison") {
			t.Errorf("a payload that is no tick: %v", err)
		}
	}
}
