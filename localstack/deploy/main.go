// Command deploy brings Errand's stack up, as `cdk deploy` does for production: the template
// of infra, the three functions behind their queues, the HTTP API with its authorizer. The variable
// ENDPOINT says where: on MiniStack, which it starts and which ends with it (the default), on a LocalStack
// that runs, or on AWS with the credentials at hand. It then serves as the issuer of tokens until
// it is interrupted: /token?tenant=me, with &scope=operator that of an operator.
//
//	deploy [PORT]     of MiniStack, 4566 if absent
//	deploy destroy    takes the stack off AWS again
//
// The scenario tests of this folder bring up a stack of their own in the same way.
package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	argument := "4566"
	if len(os.Args) > 1 {
		argument = os.Args[1]
	}
	if err := run(ctx, argument); err != nil {
		fmt.Fprintln(os.Stderr, "deploy:", err)
		os.Exit(1)
	}
}

// first is what is deployed at first.
func (t target) first() variant { return variant{name: "first", auth: t.auth} }

func run(ctx context.Context, argument string) error {
	t, err := targetFrom(os.Getenv)
	if err != nil {
		return err
	}
	root, err := moduleRoot(ctx)
	if err != nil {
		return err
	}
	if argument == "destroy" {
		return destroy(ctx, t, root)
	}
	if t.name == "ministack" && os.Getenv(urlVariable) == "" {
		t.url = "http://127.0.0.1:" + argument
		wait, err := startMiniStack(ctx, root, t.url, argument)
		if err != nil {
			return err
		}
		defer wait()
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	issuer, err := newIssuer("http://" + listener.Addr().String())
	if err != nil {
		return err
	}
	go http.Serve(listener, issuer)
	d, err := newDeployer(ctx, t, root, issuer.url, os.Stderr)
	if err != nil {
		return err
	}
	defer d.close()
	if err := d.synth(ctx, t.first()); err != nil {
		return err
	}
	s, err := d.deploy(ctx, t.first())
	if err != nil {
		return err
	}
	if err := announce(s, issuer); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// announce prints how to reach the API, as commands for a shell.
func announce(s stack, i *issuer) error {
	url, credential := s.api(), fmt.Sprintf("ERRAND_TOKEN=$(curl -s '%s/token?tenant=me')", i.url)
	if s.gateway {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		go http.Serve(listener, gateway{s.target, s.outputs["IngressName"], i})
		url = "http://" + listener.Addr().String()
	}
	if s.auth == "iam" {
		credential = "ERRAND_IAM=true"
	}
	_, err := fmt.Printf("export ERRAND_ENDPOINT='%s'\nexport %s\nready\n", url, credential)
	return err
}

func destroy(ctx context.Context, t target, root string) error {
	d, err := newDeployer(ctx, t, root, "https://issuer.invalid", os.Stderr)
	if err != nil {
		return err
	}
	defer d.close()
	if err := d.synth(ctx, t.first()); err != nil {
		return err
	}
	return d.destroy(ctx, t.first())
}

// startMiniStack returns when it is healthy. It ends when its standard input closes, so with
// this process; wait waits for that.
func startMiniStack(ctx context.Context, root, url, port string) (wait func() error, err error) {
	server := exec.CommandContext(ctx, "sh", filepath.Join(root, "localstack", "ministack.sh"), "run", port)
	server.Env = append(os.Environ(), "ERRAND_STDIN_GUARD=1", "AUTH=true") // AUTH: roles are enforced
	server.Stderr = os.Stderr
	if _, err := server.StdinPipe(); err != nil {
		return nil, err
	}
	if err := server.Start(); err != nil {
		return nil, fmt.Errorf("starting MiniStack: %w", err)
	}
	return server.Wait, awaitHealth(ctx, url)
}

func awaitHealth(ctx context.Context, endpoint string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute) // it may be installed first
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for MiniStack at %s: %w", endpoint, ctx.Err())
		case <-tick.C:
			response, err := http.Get(endpoint + "/_ministack/health")
			if err != nil {
				continue
			}
			response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
		}
	}
}
