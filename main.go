// Command errand runs the whole of Errand in one process, shows it at work, and
// talks to a running one.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/errand-dev/errand/cli"
)

// version is set when a release is built.
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal asks to stop; a second one does not ask.
	context.AfterFunc(ctx, stop)
	code := cli.Run(ctx, version, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
