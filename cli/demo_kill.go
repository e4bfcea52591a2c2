package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// killer plays the demo in a child process, which it kills half-way and starts again.
type killer struct {
	dir, file string
	rows      int
	child     childFunc
	show      func(demoEvent)
}

// killAt is how far the main import is when its process is killed.
const killAt = 0.5

// run returns the report of the second child, or of the first if it ended too soon to
// be killed.
func (k killer) run(ctx context.Context) (*demoReport, error) {
	report, killed, err := k.watch(ctx, killAt)
	if !killed || err != nil {
		return report, err
	}
	k.show(demoEvent{Type: eventKilled})
	report, _, err = k.watch(ctx, 2) // no import comes so far
	return report, err
}

// watch runs one child and shows its events. It kills the child when the run that it
// hears of first has come as far as limit.
func (k killer) watch(ctx context.Context, limit float64) (report *demoReport, killed bool, err error) {
	args := []string{"demo", "--json", "--data", k.dir, "--rows", strconv.Itoa(k.rows)}
	if k.file != "" {
		args = append(args, "--", k.file)
	}
	child, err := k.child(ctx, args)
	if err != nil {
		return nil, false, err
	}
	// It stops as if from the keyboard; only we kill it.
	child.Cancel = func() error { return child.Process.Signal(os.Interrupt) }
	child.WaitDelay = patience
	var complaint strings.Builder
	child.Stderr = &complaint
	events, err := child.StdoutPipe()
	if err != nil {
		return nil, false, fmt.Errorf("starting the worker: %w", err)
	}
	if err := child.Start(); err != nil {
		return nil, false, fmt.Errorf("starting the worker: %w", err)
	}
	first := ""
	for decoder := json.NewDecoder(events); ; {
		var e demoEvent
		if decoder.Decode(&e) != nil {
			break // the child has ended, and says how below
		}
		switch e.Type {
		case eventMessage:
			k.show(e)
		case eventReport:
			report = e.Report
		case eventProgress:
			k.show(e)
			if first == "" {
				first = e.Progress.Run
			}
			if !killed && e.Progress.Run == first && e.Progress.Fraction >= limit {
				killed = true
				if err := child.Process.Kill(); err != nil {
					return nil, false, fmt.Errorf("killing the worker: %w", err)
				}
			}
		}
	}
	return report, killed, k.ended(child, report != nil || killed, complaint.String())
}

// patience is how long a child that was asked to stop may take.
const patience = 10 * time.Second

// ended waits for the child. Its exit code does not matter if it did what it should.
func (k killer) ended(child *exec.Cmd, expected bool, complaint string) error {
	err := child.Wait()
	if _, exited := errors.AsType[*exec.ExitError](err); exited && expected || err == nil {
		return nil
	}
	return fmt.Errorf("the worker ended too soon: %w; %s", err, strings.TrimSpace(complaint))
}

// program is how the reader starts this program.
func program() string {
	self, err := os.Executable()
	if err == nil && strings.Contains(filepath.ToSlash(self), "/go-build") {
		return "go run ."
	}
	return "errand"
}

func argument(file string) string {
	if file == "" {
		return ""
	}
	return " " + strconv.Quote(file)
}
