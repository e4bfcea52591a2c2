package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// stack is a deployment: where it is, and the outputs of its template.
type stack struct {
	endpoint string
	outputs  map[string]string
}

// api is the base URL of the HTTP API on the endpoint; the output ApiUrl is that on AWS.
func (s stack) api() string {
	return s.endpoint + "/_aws/execute-api/" + s.outputs["ApiId"] + "/$default"
}

// deploy builds the functions for this machine and has the CDK's command line deploy them, with
// the lab agents, to the endpoint. It reports the time of each step to log.
func deploy(ctx context.Context, root, endpoint, issuer string, log io.Writer) (stack, error) {
	dir, err := os.MkdirTemp("", "errand-deploy-*")
	if err != nil {
		return stack{}, err
	}
	defer os.RemoveAll(dir)
	d := deployer{root: root, dir: dir, log: log, env: append(os.Environ(),
		"AWS_ENDPOINT_URL="+endpoint, "AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test", "AWS_REGION=us-east-1",
		// The command line remembers accounts by their keys.
		"CDK_HOME="+dir, "CDK_DISABLE_CLI_TELEMETRY=true", "JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION=20", "NODE_NO_WARNINGS=1",
	)}
	outputs, app := filepath.Join(dir, "outputs.json"), filepath.Join(dir, "infra")
	cdk := filepath.Join(root, "infra", "_cli", "node_modules", ".bin", "cdk")
	steps := []step{
		{"building the template's program", []string{"go", "build", "-o", app, "./infra"}, nil},
		{"synthesising", []string{cdk, "synth", "--quiet", "--app", app, "--output", filepath.Join(dir, "cdk.out"),
			"-c", "stage=local", "-c", "arch=" + runtime.GOARCH, "-c", "dist=" + filepath.Join(dir, "dist"), "-c", "jwtIssuer=" + issuer, "-c", "jwtAudience=" + audience}, nil},
		{"bootstrapping the account", []string{cdk, "bootstrap", "aws://000000000000/us-east-1"}, nil},
		{"deploying", []string{cdk, "deploy", "--app", filepath.Join(dir, "cdk.out"), "--require-approval", "never", "--outputs-file", outputs}, nil},
	}
	if _, err := os.Stat(cdk); err != nil {
		steps = append([]step{{"installing the CDK's command line", []string{"npm", "ci", "--no-audit", "--no-fund", "--prefix", "infra/_cli"}, nil}}, steps...)
	}
	for _, function := range []string{"ingress", "executor", "reconcile"} {
		steps = append([]step{{"building " + function, []string{"go", "build", "-tags", "lambda.norpc", "-trimpath", "-ldflags", "-s -w", "-buildvcs=false",
			"-o", filepath.Join(dir, "dist", function, "bootstrap"), "./functions/" + function}, []string{"CGO_ENABLED=0", "GOOS=linux"}}}, steps...)
	}
	for _, s := range steps {
		if err := d.do(ctx, s); err != nil {
			return stack{}, err
		}
	}
	data, err := os.ReadFile(outputs)
	if err != nil {
		return stack{}, fmt.Errorf("reading the outputs: %w", err)
	}
	var byStack map[string]map[string]string
	if err := json.Unmarshal(data, &byStack); err != nil {
		return stack{}, fmt.Errorf("reading the outputs: %w", err)
	}
	return stack{endpoint: endpoint, outputs: byStack["errand-local"]}, nil
}

type deployer struct {
	root, dir string
	env       []string
	log       io.Writer
}

// step is a command with more variables.
type step struct {
	what    string
	command []string
	env     []string
}

func (d deployer) do(ctx context.Context, s step) error {
	begin := time.Now()
	command := exec.CommandContext(ctx, s.command[0], s.command[1:]...)
	command.Dir, command.Env = d.root, append(append([]string{}, d.env...), s.env...)
	output, err := command.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", s.what, err, output)
	}
	fmt.Fprintf(d.log, "%-32s %v\n", s.what, time.Since(begin).Round(10*time.Millisecond))
	return nil
}

// moduleRoot is the folder of go.mod.
func moduleRoot(ctx context.Context) (string, error) {
	output, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("finding the module: %w", err)
	}
	return filepath.Dir(strings.TrimSpace(string(output))), nil
}
