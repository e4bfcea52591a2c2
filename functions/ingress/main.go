// Command ingress is the Lambda behind the HTTP API: it hands each request to the
// handler of package ingress. main.go wires, apigw.go translates, identity.go says who
// asks.
package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/errand-dev/errand/shared/cloud"
	"github.com/errand-dev/errand/shared/config"
	"github.com/errand-dev/errand/shared/ingress"
)

func main() {
	if err := run(context.Background(), os.Getenv, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "ingress:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, getenv func(string) string, out io.Writer) error {
	cfg, err := config.IngressFromEnv(getenv)
	if err != nil {
		return err
	}
	log := slog.New(slog.NewJSONHandler(out, &slog.HandlerOptions{Level: cfg.LogLevel}))
	stack, err := cloud.New(ctx, cloud.Options{Config: cfg.Deployment, Log: log})
	if err != nil {
		return err
	}
	api := adapter{ingress.NewHandler(stack.Service, ingress.HandlerOptions{Authenticate: authenticate, Operator: isOperator})}
	lambda.StartWithOptions(api.serve, lambda.WithContext(ctx))
	return nil
}
