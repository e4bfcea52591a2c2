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

// stackName is that of the stage local.
const stackName = "errand-local"

// stack is a deployment: where it is, and the outputs of its template.
type stack struct {
	target
	outputs map[string]string
}

// api is the base URL of the HTTP API; the output ApiUrl is that on AWS.
func (s stack) api() string {
	if s.name == "aws" {
		return s.outputs["ApiUrl"]
	}
	return s.url + "/_aws/execute-api/" + s.outputs["ApiId"] + "/$default"
}

// deployer has the CDK's command line deploy the stack, with the lab agents.
type deployer struct {
	target
	root, dir string
	// issuer is the URL of the issuer of tokens.
	issuer string
	env    []string
	// log is told of the time of each step.
	log io.Writer
}

// variant is in what one deployment differs from another.
type variant struct {
	// name is that of a folder.
	name string
	auth string
	// tag is a build tag that means nothing, but makes another program.
	tag string
}

// newDeployer prepares the account: close must follow.
func newDeployer(ctx context.Context, t target, root, issuer string, log io.Writer) (*deployer, error) {
	if err := t.needs(); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "errand-deploy-*")
	if err != nil {
		return nil, err
	}
	d := &deployer{target: t, root: root, dir: dir, issuer: issuer, log: log, env: append(append(os.Environ(), t.env()...),
		// The command line remembers accounts by their keys.
		"CDK_HOME="+dir, "CDK_DISABLE_CLI_TELEMETRY=true", "JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION=20", "NODE_NO_WARNINGS=1",
	)}
	if err := d.prepare(ctx); err != nil {
		d.close()
		return nil, err
	}
	return d, nil
}

func (d *deployer) close() { os.RemoveAll(d.dir) }

func (d *deployer) prepare(ctx context.Context) error {
	if _, err := os.Stat(d.cdk()); err != nil {
		if err := d.do(ctx, "installing the CDK's command line", nil, "npm", "ci", "--no-audit", "--no-fund", "--prefix", "infra/_cli"); err != nil {
			return err
		}
	}
	if err := d.do(ctx, "building the template's program", nil, "go", "build", "-o", d.app(), "./infra"); err != nil {
		return err
	}
	if d.name == "aws" {
		return nil // whoever owns the account has bootstrapped it
	}
	return d.do(ctx, "bootstrapping the account", nil, d.cdk(), "bootstrap", "aws://000000000000/us-east-1")
}

func (d *deployer) cdk() string {
	return filepath.Join(d.root, "infra", "_cli", "node_modules", ".bin", "cdk")
}
func (d *deployer) app() string { return filepath.Join(d.dir, "infra") }

// out is where the variant is synthesised.
func (d *deployer) out(v variant) string { return filepath.Join(d.dir, v.name, "cdk.out") }

// synth builds the functions and the template of a variant.
func (d *deployer) synth(ctx context.Context, v variant) error {
	arch, dist := d.arch(runtime.GOARCH), filepath.Join(d.dir, v.name, "dist")
	for _, function := range []string{"ingress", "executor", "reconcile"} {
		err := d.do(ctx, "building "+function, []string{"CGO_ENABLED=0", "GOOS=linux", "GOARCH=" + arch},
			"go", "build", "-tags", strings.Trim("lambda.norpc,"+v.tag, ","), "-trimpath", "-ldflags", "-s -w", "-buildvcs=false",
			"-o", filepath.Join(dist, function, "bootstrap"), "./functions/"+function)
		if err != nil {
			return err
		}
	}
	err := d.do(ctx, "synthesising "+v.name, nil, d.cdk(), "synth", "--quiet", "--app", d.app(), "--output", d.out(v), "-c", "stage=local",
		"-c", "arch="+arch, "-c", "dist="+dist, "-c", "auth="+v.auth, "-c", "jwtIssuer="+d.issuer, "-c", "jwtAudience="+audience)
	if err != nil || !d.gateway {
		return err
	}
	return pruneFile(filepath.Join(d.out(v), stackName+".template.json"))
}

// deploy deploys what was synthesised, over what is there.
func (d *deployer) deploy(ctx context.Context, v variant) (stack, error) {
	outputs := filepath.Join(d.dir, v.name, "outputs.json")
	if err := d.do(ctx, "deploying "+v.name, nil, d.cdk(), "deploy", "--app", d.out(v), "--require-approval", "never", "--outputs-file", outputs); err != nil {
		return stack{}, err
	}
	data, err := os.ReadFile(outputs)
	if err != nil {
		return stack{}, fmt.Errorf("reading the outputs: %w", err)
	}
	var byStack map[string]map[string]string
	if err := json.Unmarshal(data, &byStack); err != nil {
		return stack{}, fmt.Errorf("reading the outputs: %w", err)
	}
	return stack{target: d.target, outputs: byStack[stackName]}, nil
}

func (d *deployer) destroy(ctx context.Context, v variant) error {
	return d.do(ctx, "destroying", nil, d.cdk(), "destroy", "--app", d.out(v), "--force")
}

// do runs a command with more variables and reports how long it took.
func (d *deployer) do(ctx context.Context, what string, env []string, command ...string) error {
	begin := time.Now()
	c := exec.CommandContext(ctx, command[0], command[1:]...)
	c.Dir, c.Env = d.root, append(append([]string{}, d.env...), env...)
	output, err := c.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", what, err, output)
	}
	fmt.Fprintf(d.log, "%-34s %v\n", what, time.Since(begin).Round(10*time.Millisecond))
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
