package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// suite is a package of tests. narrow makes the arguments that choose one of them.
type suite struct {
	pkg    string
	args   []string
	narrow func(which string) []string
}

var suites = map[string]suite{
	tables:     {"shared/subagent", nil, only("")},
	accounts:   {"shared/executor", nil, only("")},
	moments:    {"shared/schedule", nil, only("")},
	timetables: {"shared/timetable", nil, only("")},
	checker:    {"shared/protocol", []string{"-test.run=Promises"}, only("Promises/")},
	cases:      {"shared/cases", nil, only("")},
	simulation: {"shared/simulation", []string{"-test.run=TestSimulation$", "-seeds=600"}, from},
}

// order is by cost: what is not killed where the list says is tried in the others.
var order = []string{tables, moments, accounts, timetables, checker, cases, simulation}

const (
	tables     = "tables"
	accounts   = "accounts"
	moments    = "schedule"
	timetables = "timetable"
	checker    = "checker"
	cases      = "cases"
	simulation = "simulation"
)

func only(prefix string) func(string) []string {
	return func(which string) []string { return []string{"-test.run=" + prefix + which + "$"} }
}

// from simulates a few seeds from the one that is known to kill.
func from(seed string) []string {
	return []string{"-test.run=TestSimulation$", "-seeds=2", "-first=" + seed}
}

// patience is how long one run of a suite may take. One that hangs has noticed the mutant.
const patience = 2 * time.Minute

// verdict is what became of a mutant: the suite that killed it, and how.
type verdict struct {
	by, how string
	took    time.Duration
	err     error
}

func (v verdict) String() string {
	switch {
	case v.err != nil:
		return "BROKEN, " + v.err.Error()
	case v.by == "":
		return "SURVIVED"
	}
	return v.by + ", " + v.how
}

// test runs the suites until one fails: first the test that is known to, then its
// whole suite, then the others.
func test(ctx context.Context, m mutant) (v verdict) {
	began := time.Now()
	defer func() { v.took = time.Since(began) }()
	dir, err := os.MkdirTemp("", "mutant")
	if err != nil {
		return verdict{err: fmt.Errorf("making room for a mutant: %w", err)}
	}
	defer os.RemoveAll(dir)
	overlay, err := lay(m, dir)
	if err != nil {
		return verdict{err: err}
	}
	for _, name := range m.suites() {
		s := suites[name]
		binary := filepath.Join(dir, name+".test")
		if err := build(ctx, overlay, s, binary); err != nil {
			return verdict{err: err}
		}
		attempts := [][]string{s.args}
		if name == m.suite && m.which != "" {
			attempts = [][]string{s.narrow(m.which), s.args}
		}
		for _, args := range attempts {
			how, err := fails(ctx, s, binary, args)
			if err != nil || how != "" {
				return verdict{by: name, how: how, err: err}
			}
		}
	}
	return verdict{}
}

// suites lists the suites that can see the mutant, its own first.
func (m mutant) suites() []string {
	names := []string{m.suite}
	for _, name := range order {
		rules := strings.HasPrefix(m.file, "shared/subagent/")
		if name != m.suite && (rules || name == cases || name == simulation) {
			names = append(names, name)
		}
	}
	return names
}

// lay writes the changed file and the overlay that puts it over the real one.
func lay(m mutant, dir string) (overlay string, err error) {
	real, err := filepath.Abs(m.file)
	if err != nil {
		return "", fmt.Errorf("finding %s: %w", m.file, err)
	}
	source, err := os.ReadFile(real)
	if err != nil {
		return "", fmt.Errorf("reading what is to be changed: %w", err)
	}
	if n := strings.Count(string(source), m.old); n != 1 {
		return "", fmt.Errorf("the text to change occurs %d times in %s", n, m.file)
	}
	changed := filepath.Join(dir, filepath.Base(real))
	if err := os.WriteFile(changed, []byte(strings.Replace(string(source), m.old, m.new, 1)), 0o600); err != nil {
		return "", fmt.Errorf("writing a mutant: %w", err)
	}
	raw, err := json.Marshal(map[string]map[string]string{"Replace": {real: changed}})
	if err != nil {
		return "", fmt.Errorf("encoding an overlay: %w", err)
	}
	overlay = filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(overlay, raw, 0o600); err != nil {
		return "", fmt.Errorf("writing an overlay: %w", err)
	}
	return overlay, nil
}

// build makes the suite's test binary with the mutant in it.
func build(ctx context.Context, overlay string, s suite, binary string) error {
	out, err := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", binary, "./"+s.pkg).CombinedOutput()
	if err == nil {
		return nil
	}
	if how := firstLine(string(out), ".go:"); how != "" {
		return errors.New("it does not compile: " + how)
	}
	return fmt.Errorf("building %s: %w", s.pkg, err)
}

// fails runs a suite and says how it failed; nothing means that it passed.
func fails(ctx context.Context, s suite, binary string, args []string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, append([]string{"-test.failfast", "-test.timeout=100s"}, args...)...)
	cmd.Dir = s.pkg
	out, err := cmd.CombinedOutput()
	text := string(out)
	var exit *exec.ExitError
	switch {
	case err == nil && strings.Contains(text, "no tests to run"):
		return "", fmt.Errorf("no test of %s is chosen by %q", s.pkg, args)
	case err == nil:
		return "", nil
	case ctx.Err() != nil:
		return "", fmt.Errorf("the test took too long: %w", ctx.Err())
	case !errors.As(err, &exit):
		return "", fmt.Errorf("starting a test: %w", err)
	}
	for _, sign := range []string{"broken: ", ": seed ", "panic: ", "--- FAIL: "} {
		if how := firstLine(text, sign); how != "" {
			_, promise, found := strings.Cut(how, "broken: ")
			if found {
				return promise, nil
			}
			return strings.TrimPrefix(how, "--- FAIL: "), nil
		}
	}
	return "it fails without a word", nil
}

func firstLine(text, with string) string {
	for line := range strings.Lines(text) {
		if strings.Contains(line, with) {
			return strings.TrimSpace(line)
		}
	}
	return ""
}
