// Package lambdas tests the three Lambda functions as they are deployed: as bootstrap
// binaries, each in a process of its own behind a Runtime API that the test serves. An
// AWS-compatible endpoint (see package endpoint) is under them, and the test plays
// the event source mappings.
package lambdas

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/errand-dev/errand/localstack/endpoint"
)

// functions are the three programs.
var functions = []string{"ingress", "executor", "reconcile"}

// bootstraps is where TestMain has put the programs, built for this machine.
var bootstraps string

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "lambdas:", err)
	}
	os.Exit(code)
}

func run(m *testing.M) (int, error) {
	dir, err := os.MkdirTemp("", "errand-lambdas-*")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	for _, function := range functions {
		if err := build(".", function, filepath.Join(dir, function), runtime.GOOS, runtime.GOARCH); err != nil {
			return 1, err
		}
	}
	bootstraps = dir
	return endpoint.Main(m), nil
}

// build makes a function of the module around dir, as `make build` does.
func build(dir, function, path, goos, goarch string) error {
	command := exec.Command("go", "build", "-tags", "lambda.norpc", "-trimpath", "-ldflags", "-s -w", "-buildvcs=false",
		"-o", path, "github.com/errand-dev/errand/functions/"+function)
	command.Dir = dir
	command.Env = append(os.Environ(), "GOOS="+goos, "GOARCH="+goarch, "CGO_ENABLED=0")
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s: %w: %s", function, err, output)
	}
	return nil
}
