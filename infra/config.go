package main

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Config says what a deployment is. Its defaults are those of its stage; the context may
// replace some of them (ConfigFrom).
type Config struct {
	// Stage is prod, dev or local.
	Stage string
	// Dist holds a folder for each function, with its bootstrap in it.
	Dist string
	// Arch is what the bootstraps are built for: arm64 or amd64.
	Arch string
	// Auth is jwt or iam. Issuer and Audience are those of the tokens.
	Auth, Issuer string
	Audience     []string
	// Lab registers the lab agents. Never in prod.
	Lab bool
	// Keep protects what holds data from deletion, and leaves it behind if the stack goes.
	Keep bool
	// AlarmEmail, if any, is told of alarms.
	AlarmEmail string
	// LogLevel, Cadence and Lease are handed to the functions; empty means their default.
	LogLevel, Cadence string
	Lease             time.Duration
	// ExecutorTimeout is how long one execution may take before it is handed on.
	ExecutorTimeout time.Duration
	// Memory of each function, in MB: it buys processor time too.
	IngressMemory, ExecutorMemory, ReconcileMemory int
	// The most invocations at a time for each queue, 2 to 1000. Turns and Runs bound what
	// is executed at once in the whole deployment.
	Turns, Runs, Ticks int
	// Rate and Burst throttle the API: requests per second, and at once.
	Rate, Burst int
}

// stages are the defaults of each stage.
func stages() map[string]Config {
	prod := Config{
		Stage: "prod", Dist: "../dist", Arch: "arm64", Auth: "jwt", Keep: true, ExecutorTimeout: 15 * time.Minute,
		IngressMemory: 256, ExecutorMemory: 512, ReconcileMemory: 256,
		Turns: 50, Runs: 100, Ticks: 10, Rate: 100, Burst: 200,
	}
	dev := prod
	dev.Stage, dev.Keep, dev.LogLevel = "dev", false, "debug"
	// local is for an emulator: every pause is short, but the last, which needs a schedule.
	local := dev
	local.Stage, local.Lab, local.Cadence, local.Lease, local.ExecutorTimeout = "local", true, "1s,1s,2s,2s,1m", 2*time.Second, 10*time.Second
	local.Rate, local.Burst = 1000, 2000
	return map[string]Config{"prod": prod, "dev": dev, "local": local}
}

// ConfigFrom reads the context, "" where it says nothing: stage (dev), dist, arch, auth,
// jwtIssuer, jwtAudience (a list with commas), lab, alarmEmail. It reports everything wrong at
// once.
func ConfigFrom(context func(string) string) (Config, error) {
	stage := cmp.Or(context("stage"), "dev")
	c, known := stages()[stage]
	if !known {
		return Config{}, fmt.Errorf("stage is %q; it must be prod, dev or local", stage)
	}
	c.Dist, c.Arch, c.Auth = cmp.Or(context("dist"), c.Dist), cmp.Or(context("arch"), c.Arch), cmp.Or(context("auth"), c.Auth)
	c.Issuer, c.AlarmEmail = context("jwtIssuer"), context("alarmEmail")
	if audience := context("jwtAudience"); audience != "" {
		c.Audience = strings.Split(audience, ",")
	}
	var wrong error
	if lab := context("lab"); lab != "" {
		c.Lab, wrong = parseBool("lab", lab)
	}
	return c, errors.Join(wrong, c.Validate())
}

func parseBool(name, text string) (bool, error) {
	b, err := strconv.ParseBool(text)
	if err != nil {
		return false, fmt.Errorf("%s is %q; it must be true or false", name, text)
	}
	return b, nil
}

// speaksTLS reports whether requests without TLS can be refused: an emulator knows no others.
func (c Config) speaksTLS() bool { return c.Stage != "local" }

// lambdaLimit is the longest time-out of a function.
const lambdaLimit = 15 * time.Minute

// Validate reports everything that would fail at deployment, or be unsafe after it.
func (c Config) Validate() error {
	var wrong []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			wrong = append(wrong, fmt.Errorf(format, args...))
		}
	}
	check(c.Arch == "arm64" || c.Arch == "amd64", "arch is %q; it must be arm64 or amd64", c.Arch)
	check(c.Auth == "jwt" || c.Auth == "iam", "auth is %q; it must be jwt or iam", c.Auth)
	if c.Auth == "jwt" {
		issuer, err := url.Parse(c.Issuer)
		secure := err == nil && (issuer.Scheme == "https" || issuer.Scheme == "http" && c.Stage == "local")
		check(secure && issuer.Host != "", "jwtIssuer is %q; it must be an https URL", c.Issuer)
		check(len(c.Audience) > 0 && !slices.Contains(c.Audience, ""), "jwtAudience is %q; it must name one audience or more", strings.Join(c.Audience, ","))
	}
	check(!c.Lab || c.Stage != "prod", "lab agents must not be in prod")
	check(c.ExecutorTimeout >= time.Second && c.ExecutorTimeout <= lambdaLimit, "the executor's time-out is %v; it must lie between 1s and %v", c.ExecutorTimeout, lambdaLimit)
	for _, n := range []int{c.Turns, c.Runs, c.Ticks} {
		check(n >= 2 && n <= 1000, "the concurrency of a queue is %d; it must lie between 2 and 1000", n)
	}
	for _, mb := range []int{c.IngressMemory, c.ExecutorMemory, c.ReconcileMemory} {
		check(mb >= 128 && mb <= 10240, "the memory of a function is %d MB; it must lie between 128 and 10240", mb)
	}
	check(c.Rate > 0 && c.Burst > 0, "rate and burst are %d and %d; they must be positive", c.Rate, c.Burst)
	for _, function := range []string{ingress, executor, reconcile} {
		bootstrap := filepath.Join(c.Dist, function, "bootstrap")
		_, err := os.Stat(bootstrap)
		check(err == nil, "%s is missing: run `make build`", bootstrap)
	}
	return errors.Join(wrong...)
}
