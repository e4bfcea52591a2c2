// The mutants command shows that the tests can fail: it changes one condition or one
// order of steps of the sources at a time and expects a test to notice.
//
//	go run ./mutants            all of them
//	go run ./mutants claim      those with "claim" in their name
//
// A mutant never touches the tree: the changed file is laid over it (go test -overlay).
// The command prints a table and ends with status 1 if a mutant survives.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"text/tabwriter"
	"time"
)

// parallel is how many mutants are tested at a time, patience how long one test may take.
const (
	parallel = 2
	patience = 2 * time.Minute
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, only []string) error {
	chosen := choose(only)
	verdicts := make([]verdict, len(chosen))
	var wait sync.WaitGroup
	next := make(chan int)
	for range parallel {
		wait.Go(func() {
			for i := range next {
				verdicts[i] = test(ctx, chosen[i])
				fmt.Fprintln(os.Stderr, chosen[i].name+": "+verdicts[i].String())
			}
		})
	}
	for i := range chosen {
		next <- i
	}
	close(next)
	wait.Wait()
	return report(chosen, verdicts)
}

func choose(only []string) []mutant {
	if len(only) == 0 {
		return mutants
	}
	var chosen []mutant
	for _, m := range mutants {
		for _, word := range only {
			if strings.Contains(m.name, word) {
				chosen = append(chosen, m)
				break
			}
		}
	}
	return chosen
}

func report(chosen []mutant, verdicts []verdict) error {
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "mutant\tkilled by\ttime\t")
	bad := 0
	for i, m := range chosen {
		v := verdicts[i]
		if v.by == "" {
			bad++
		}
		fmt.Fprintf(table, "%s\t%s\t%.1f s\t\n", m.name, v, v.took.Seconds())
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("printing the table: %w", err)
	}
	fmt.Printf("%d mutants, %d killed\n", len(chosen), len(chosen)-bad)
	if bad > 0 {
		return fmt.Errorf("%d mutants were not killed", bad)
	}
	return nil
}

// verdict is what became of a mutant: the test that killed it, and how.
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

// test runs the mutant's tests until one fails.
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
	for _, name := range m.tests {
		how, err := fails(ctx, overlay, suites[name])
		if err != nil || how != "" {
			if err != nil {
				return verdict{err: err}
			}
			return verdict{by: name, how: how}
		}
	}
	return verdict{}
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

// fails runs a suite and says how it failed; nothing means that it passed.
func fails(ctx context.Context, overlay string, suite []string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	args := append([]string{"test", "-overlay", overlay, "-vet=off", "-count=1", "-failfast"}, suite...)
	out, err := exec.CommandContext(ctx, "go", args...).CombinedOutput()
	text := string(out)
	var exit *exec.ExitError
	switch {
	case err == nil:
		return "", nil
	case ctx.Err() != nil:
		return "", fmt.Errorf("the test took too long: %w", ctx.Err())
	case !errors.As(err, &exit):
		return "", fmt.Errorf("starting a test: %w", err)
	case strings.Contains(text, "[build failed]"), strings.Contains(text, "[setup failed]"):
		return "", errors.New("the mutant does not compile: " + firstLine(text, ".go:"))
	}
	if how := firstLine(text, "broken: "); how != "" {
		_, how, _ = strings.Cut(how, "broken: ")
		return how, nil
	}
	for _, sign := range []string{"panic: ", "--- FAIL: "} {
		if how := firstLine(text, sign); how != "" {
			return how, nil
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
