package main

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// fenced finds the code blocks of one language in the README.
func fenced(t *testing.T, language string) []string {
	t.Helper()
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for _, m := range regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllSubmatch(text, -1) {
		blocks = append(blocks, string(m[1]))
	}
	return blocks
}

func TestTheCommandsOfTheReadmeRunAsWritten(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "errand")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	address := freeAddress(t)
	var script strings.Builder
	for _, block := range fenced(t, "sh") {
		for line := range strings.Lines(block) {
			if strings.HasPrefix(line, "make test") {
				continue // this test is part of it
			}
			script.WriteString(line)
		}
	}
	// The same commands, with what `go run .` builds, a free port and throw-away folders.
	text := strings.NewReplacer(
		"go run . serve --lab &", "",
		"go run . demo ", "go run . demo --plain --data "+filepath.Join(t.TempDir(), "demo")+" ",
		"go run ./examples/research ", "go run ./examples/research --data "+filepath.Join(t.TempDir(), "research")+" ",
		"--out report.md", "--out "+filepath.Join(t.TempDir(), "report.md"),
		"127.0.0.1:8080", address,
	).Replace(script.String())
	text = strings.ReplaceAll(text, "go run . ", binary+" ")
	server(t, binary, address)
	cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-x", "-c", text)
	cmd.Env = append(os.Environ(), "ERRAND_ENDPOINT=http://"+address)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	for _, want := range []string{
		"RESULT", "Imported 300,000 rows", // the demo
		`"turn.accepted"`, "I can still talk", `"source":"detached-agent-tool"`, "I heard: ", // curl
		"dispatched",                           // send
		"lab-steps",                            // runs
		"spend-exceeded", "the limit is $0.02", // what it costs
		"moon.md: 2 claims", "Cost: $0.00", // the research
		"Europe/Berlin", "agent lab-sleep is enabled, maintenance accept", // schedules and operator control
		// waiting
		"delete go-on (or with --deny)", "approved go-on of delete",
		"run outside has reached parsed", "run delete is completed\nrun outside is completed",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output lacks %q", want)
		}
	}
	if t.Failed() {
		t.Log(out.String())
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

func server(t *testing.T, binary, address string) {
	t.Helper()
	cmd := exec.Command(binary, "serve", "--lab", "--data", filepath.Join(t.TempDir(), "data"), "--listen", address)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Error(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("errand serve: %v", err)
		}
	})
	answers(t, "http://"+address+"/healthz")
}

// answers waits until the URL answers.
func answers(t *testing.T, url string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for tick := time.NewTicker(20 * time.Millisecond); ; {
		response, err := http.Get(url)
		if err == nil {
			response.Body.Close()
			return
		}
		select {
		case <-ctx.Done():
			t.Fatal(err)
		case <-tick.C:
		}
	}
}

func TestTheCodeOfTheReadmeIsThatOfTheExample(t *testing.T) {
	var source []byte
	for _, example := range []string{"hello", "agent"} {
		text, err := os.ReadFile("examples/" + example + "/main.go")
		if err != nil {
			t.Fatal(err)
		}
		source = append(source, text...)
	}
	blocks := fenced(t, "go")
	if len(blocks) == 0 {
		t.Fatal("the README shows no Go code")
	}
	for _, block := range blocks {
		if !bytes.Contains(source, []byte(block)) {
			t.Errorf("neither example has this code of the README:\n%s", block)
		}
	}
}

func TestTheFilesThatTheReadmeLinksToExist(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`\]\(([^)#:]+)\)`).FindAllSubmatch(text, -1) {
		if _, err := os.Stat(string(m[1])); err != nil {
			t.Errorf("the README links to %s: %v", m[1], err)
		}
	}
}
