// Command reconcile is the Lambda behind ticks: a batch of the queue, the payload of a
// one-time schedule, or dead ticks to be sent again. main.go wires, tick.go decides,
// measures.go tells CloudWatch what is worth an alarm.
package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/errand-dev/errand/shared/cloud"
	"github.com/errand-dev/errand/shared/config"
)

func main() {
	if err := run(context.Background(), os.Getenv, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "reconcile:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, getenv func(string) string, out io.Writer) error {
	cfg, err := config.ReconcileFromEnv(getenv)
	if err != nil {
		return err
	}
	log := slog.New(slog.NewJSONHandler(out, &slog.HandlerOptions{Level: cfg.LogLevel}))
	stack, err := cloud.New(ctx, cloud.Options{Config: cfg.Deployment, DeadTicksURL: cfg.DeadTicksURL, Log: log})
	if err != nil {
		return err
	}
	stack.Reconciler.Seen = measures{log, getenv("AWS_LAMBDA_FUNCTION_NAME"), time.Now}.seen
	ticks := newTicks(cfg, stack.Reconciler, stack.Queues, log)
	lambda.StartWithOptions(ticks.invoke, lambda.WithContext(ctx))
	return nil
}
