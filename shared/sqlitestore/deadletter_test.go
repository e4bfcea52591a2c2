package sqlitestore_test

import (
	"bytes"
	"context"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/errand-dev/errand/shared/platform"
	"github.com/errand-dev/errand/shared/sqlitestore"
)

func TestADeadLetterIsLogged(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	s, err := sqlitestore.Open(t.Context(), t.TempDir(), sqlitestore.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	send(t, s, platform.Message{Queue: platform.Runs, Body: []byte("a secret")})
	var id string
	for range platform.MaxReceives {
		id = receive(t, s, platform.Runs, 0).ID
	}
	ctx, cancel := context.WithCancel(t.Context())
	received := make(chan error)
	go func() {
		_, err := s.Receive(ctx, platform.Runs, 1, time.Minute)
		received <- err
	}()
	for dead := 0; dead == 0; runtime.Gosched() {
		letters, err := s.DeadLetters(t.Context(), platform.Runs, 1)
		if err != nil {
			t.Fatal(err)
		}
		dead = len(letters)
	}
	cancel()
	if <-received == nil {
		t.Error("a message was handed out once too often")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if text := log.String(); !strings.Contains(text, "level=ERROR") || !strings.Contains(text, "message_id="+id) || strings.Contains(text, "secret") {
		t.Errorf("logged: %q", text)
	}
}
