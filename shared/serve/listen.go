package serve

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// patience is how long a server that stops waits for requests under way.
const patience = 5 * time.Second

// ListenAndServe serves handler on address and works off the queues until ctx ends or
// serving fails. It returns when everything begun has ended or was handed on, after ten
// seconds in any case.
func (s *Stack) ListenAndServe(ctx context.Context, address string, handler http.Handler) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("listening on %s: %w; stop what listens there, or choose another address (errand serve: --listen)", address, err)
	}
	// A long poll may last 25 s; bodies are small. Slow clients must not hold connections.
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 64 << 10, ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	s.log.InfoContext(ctx, "errand is serving", "address", "http://"+listener.Addr().String())
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	working, stop := context.WithCancel(ctx)
	defer stop()
	worked := make(chan struct{})
	go func() { defer close(worked); s.Run(working) }()
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	closing, done := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer done()
	if server.Shutdown(closing) != nil {
		// Some request does not end: its connection is cut.
		_ = server.Close()
	}
	stop()
	<-worked
	s.log.InfoContext(ctx, "errand has stopped")
	return err
}
