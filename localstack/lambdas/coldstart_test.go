package lambdas

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/errand-dev/errand/shared/config"
)

// nowhere is an environment that no function can do work in, but start.
func nowhere() map[string]string {
	return map[string]string{
		config.Table: "table", config.Bucket: "bucket", config.TurnsURL: "http://127.0.0.1:1/0/turns.fifo",
		config.RunsURL: "http://127.0.0.1:1/0/runs", config.TicksURL: "http://127.0.0.1:1/0/ticks", config.DeadTicksURL: "http://127.0.0.1:1/0/ticks-dlq",
		"AWS_ENDPOINT_URL": "http://127.0.0.1:1",
	}
}

func TestAFunctionStartsWithoutCallingAnything(t *testing.T) {
	health := `{"version":"2.0","rawPath":"/healthz","requestContext":{"http":{"method":"GET"},"authorizer":{"jwt":{"claims":{"sub":"u"}}}}}`
	for function, event := range map[string]string{"ingress": health, "executor": `{"Records":[]}`, "reconcile": `{"Records":[]}`} {
		e := start(t, function, nowhere())
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
		t.Logf("%-9s process to first poll %v, first answer after %v more: %.60s", function, e.polled.Sub(e.started).Round(time.Millisecond), time.Since(begin).Round(100*time.Microsecond), answer)
	}
}

func TestAFunctionThatIsMisconfiguredSaysAllThatIsMissing(t *testing.T) {
	t.Parallel()
	for _, function := range functions {
		env := maps.Clone(nowhere())
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
	e := start(t, "reconcile", nowhere())
	for range 2 {
		_, err := e.invoke(t.Context(), []byte(`{"tick":0}`), 10*time.Second)
		if failure, ok := errors.AsType[*functionError](err); !ok || !strings.Contains(failure.payload, "poison") {
			t.Errorf("a payload that is no tick: %v", err)
		}
	}
}
