// Command executor is the Lambda behind the queues turns and runs: it works off a batch
// and tells SQS which of its messages must come again. main.go wires, work.go decides.
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
	"github.com/errand-dev/errand/shared/platform"
	"github.com/errand-dev/errand/shared/sqsbatch"
)

func main() {
	if err := run(context.Background(), os.Getenv, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "executor:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, getenv func(string) string, out io.Writer) error {
	cfg, err := config.ExecutorFromEnv(getenv)
	if err != nil {
		return err
	}
	log := slog.New(slog.NewJSONHandler(out, &slog.HandlerOptions{Level: cfg.LogLevel}))
	stack, err := cloud.New(ctx, cloud.Options{Config: cfg.Deployment, StopBefore: cfg.StopBefore, Coalesce: cfg.Coalesce, Log: log})
	if err != nil {
		return err
	}
	batch := &sqsbatch.Handler{
		Queues:   map[string]string{sqsbatch.Name(cfg.TurnsURL): platform.Turns, sqsbatch.Name(cfg.RunsURL): platform.Runs},
		Receiver: stack.Queues, Handle: work{stack.Executor}.handle, RetryAfter: retryAfter,
		Visibility: visibility, Concurrency: cfg.Concurrency, StopBefore: cfg.StopBefore, Log: log,
	}
	lambda.StartWithOptions(batch.Do, lambda.WithContext(ctx))
	return nil
}
