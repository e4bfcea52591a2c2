package mcptools

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// connectTimeout bounds the start of a server: some fetch their code first.
const connectTimeout = time.Minute

var errClosed = errors.New("the source was closed")

// live returns the session with the server. If that has died, one caller makes a new one and
// the others wait for it.
func (s *Source) live(ctx context.Context) (*mcp.ClientSession, error) {
	select {
	case s.connecting <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-s.connecting }()
	s.mu.Lock()
	session, closed := s.session, s.closed
	s.mu.Unlock()
	switch {
	case closed:
		return nil, errClosed
	case session != nil:
		return session, nil
	}
	transport, err := s.options.transport()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	if session, err = s.client.Connect(ctx, transport, nil); err != nil {
		return nil, err
	}
	return session, s.adopt(ctx, session)
}

// adopt makes the session the one in use until it ends.
func (s *Source) adopt(ctx context.Context, session *mcp.ClientSession) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		go session.Close()
		return errClosed
	}
	s.session = session
	s.log.InfoContext(ctx, "mcp server connected", "server", s.options.Name)
	s.watchers.Go(func() {
		err := session.Wait()
		s.mu.Lock()
		if s.session == session {
			s.session = nil
		}
		closed := s.closed
		s.mu.Unlock()
		session.Close() // of a command that has ended, its process too
		if !closed {
			s.log.WarnContext(ctx, "mcp server is gone", "server", s.options.Name, "error", s.options.withoutURL(err))
		}
	})
	return nil
}

// drop gives up a session over which a call could not be delivered: the next call makes a
// new one.
func (s *Source) drop(session *mcp.ClientSession) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.session != session || s.closed {
		return
	}
	s.session = nil
	s.watchers.Go(func() { _ = session.Close() }) // it is broken: nobody is told
}

// Close ends the connection, and the server if it is a command. Calls under way fail, and are
// retryable.
func (s *Source) Close() error {
	s.mu.Lock()
	session := s.session
	s.closed = true
	for _, u := range s.underway {
		u.cancel(errClosed) // or closing the session would wait for them
	}
	s.mu.Unlock()
	var err error
	if session != nil {
		err = session.Close()
	}
	s.watchers.Wait()
	return err
}

func (o Options) transport() (mcp.Transport, error) {
	switch {
	case o.Transport != nil:
		return o.Transport()
	case o.URL != "":
		// Without a stream of its own for what the server says unasked: progress comes with the
		// answer to its call.
		return &mcp.StreamableClientTransport{Endpoint: o.URL, HTTPClient: o.HTTPClient, DisableStandaloneSSE: true}, nil
	}
	command := exec.Command(o.Command[0], o.Command[1:]...)
	command.Env = environment(o.Env)
	command.Stderr = o.Stderr
	command.WaitDelay = time.Second // a child of its own may hold on to Stderr
	return &mcp.CommandTransport{Command: command}, nil
}

// environment is what a command needs to run, and what it is given.
func environment(given []string) []string {
	env := []string{} // not nil, which would mean all of this process's
	for _, name := range []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "TMPDIR"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return append(env, given...)
}
