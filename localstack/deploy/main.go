// Command deploy brings Errand's stack up on MiniStack, as `cdk deploy` does on AWS: the template
// of infra, the three functions behind their queues, the HTTP API with its authorizer. It then
// serves as the issuer of tokens, until it is interrupted. MiniStack ends with it.
//
//	deploy [PORT]     4566 if absent
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
	port := "4566"
	if len(os.Args) > 1 {
		port = os.Args[1]
	}
	if err := run(ctx, port); err != nil {
		fmt.Fprintln(os.Stderr, "deploy:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, port string) error {
	root, err := moduleRoot(ctx)
	if err != nil {
		return err
	}
	// MiniStack ends when its standard input closes, so with this process.
	server := exec.CommandContext(ctx, "sh", filepath.Join(root, "localstack", "ministack.sh"), "run", port)
	server.Env = append(os.Environ(), "ERRAND_STDIN_GUARD=1", "AUTH=true") // AUTH: roles are enforced
	server.Stderr = os.Stderr
	if _, err := server.StdinPipe(); err != nil {
		return err
	}
	if err := server.Start(); err != nil {
		return fmt.Errorf("starting MiniStack: %w", err)
	}
	defer server.Wait()
	endpoint := "http://127.0.0.1:" + port
	if err := awaitHealth(ctx, endpoint); err != nil {
		return err
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
	s, err := deploy(ctx, root, endpoint, issuer.url, os.Stderr)
	if err != nil {
		return err
	}
	fmt.Printf("export ERRAND_ENDPOINT='%s'\nexport ERRAND_TOKEN=$(curl -s '%s/token?tenant=me')\nready\n", s.api(), issuer.url)
	<-ctx.Done()
	return nil
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
