package sqlitestore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gofrs/flock"
	"modernc.org/sqlite"

	"github.com/errand-dev/errand/shared/platform"
)

// ErrClosed is returned by every call on a store after Close.
var ErrClosed = errors.New("store is closed")

// LockedError is returned by Open when another process has the data folder.
type LockedError struct {
	Dir string
	// PID is the process that has it, 0 if it is not known.
	PID int
}

func (e *LockedError) Error() string {
	owner := "another process"
	if e.PID != 0 {
		owner = "process " + strconv.Itoa(e.PID)
	}
	return fmt.Sprintf("data folder %s is in use by %s; stop it or choose another with --data", e.Dir, owner)
}

// Options changes how a store works; the zero value is right for production.
type Options struct {
	// Now is the clock, time.Now if nil. Waiting uses real timers all the same.
	Now func() time.Time
	// Logger hears of trouble that no caller can be told of; nil discards it.
	Logger *slog.Logger
}

// readers is how many reads run side by side.
const readers = 4

// Store is a platform.Store, platform.Receiver and platform.Watcher.
// It is safe for concurrent use.
type Store struct {
	now    func() time.Time
	log    *slog.Logger
	opened time.Time
	life   string // differs each time a store is opened; part of every receipt
	lock   *flock.Flock
	path   string

	// turn is the right to use writer, open and lastID: a channel because its
	// waiters are served in order, can give up, and are visible to synctest.
	turn   chan struct{}
	writer *conn
	open   *group
	lastID int64

	readers chan *conn
	queues  map[string]*queue
	watches watches
	counts  counts

	closing   chan struct{}
	closeOnce sync.Once
	closeErr  error
}

// Open opens the store in dir and creates both if they do not exist. It holds the
// folder's lock until Close: the error is a *LockedError if another process has
// it, and a *SchemaError if a newer program has written the file.
func Open(ctx context.Context, dir string, opts Options) (_ *Store, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	dir, err = filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("finding data folder: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("creating data folder: %w", err)
	}
	lock, err := lockFolder(dir)
	if err != nil {
		return nil, err
	}
	s := &Store{
		now:     opts.Now,
		log:     opts.Logger,
		lock:    lock,
		path:    filepath.Join(dir, "errand.db"),
		turn:    make(chan struct{}, 1),
		readers: make(chan *conn, readers),
		queues:  make(map[string]*queue),
		life:    rand.Text(),
		closing: make(chan struct{}),
	}
	if s.now == nil {
		s.now = time.Now
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	for range readers {
		s.readers <- nil // opened at first use
	}
	s.opened = s.now()
	if err := s.load(); err != nil {
		return nil, errors.Join(err, s.release())
	}
	return s, nil
}

// load opens the file and fills the queues.
func (s *Store) load() (err error) {
	// A commit waits for the disk alone, and fdatasync halves that wait where the
	// system has it. Where it has not, the error says so and fsync stays in use.
	_, _ = sqlite.Fdatasync(true)
	s.writer, err = openConn(s.path, "busy_timeout(5000)", "journal_mode(WAL)", "synchronous(FULL)", "cache_size(-16000)")
	if err != nil {
		return err
	}
	if err := migrate(s.writer, s.path); err != nil {
		return err
	}
	for _, name := range platform.Queues {
		s.queues[name] = newQueue(name, s.elapsed)
	}
	return s.loadMessages()
}

// Close waits for the writes under way, refuses further calls with ErrClosed,
// and gives the folder free.
func (s *Store) Close() error {
	s.closeOnce.Do(func() {
		close(s.closing)
		s.settle()
		flushErr := s.flushCounts()
		for _, q := range s.queues {
			q.stop()
		}
		s.closeErr = errors.Join(flushErr, s.release())
	})
	return s.closeErr
}

// settle waits until no write is open and keeps the turn, so that none can follow.
func (s *Store) settle() {
	for {
		s.turn <- struct{}{}
		if s.open == nil {
			return
		}
		done := s.open.done
		<-s.turn
		<-done
	}
}

// flushCounts writes the receives that no group has taken along.
func (s *Store) flushCounts() error {
	if _, err := s.writer.exec(`BEGIN IMMEDIATE`); err != nil {
		return err
	}
	flushErr := s.counts.flush(s.writer)
	_, err := s.writer.exec(`COMMIT`)
	return errors.Join(flushErr, err)
}

// release frees what load acquired, the lock last.
func (s *Store) release() error {
	var errs []error
	for range cap(s.readers) {
		if c := <-s.readers; c != nil { // waits for a read under way
			errs = append(errs, c.close())
		}
	}
	if s.writer != nil {
		errs = append(errs, s.writer.close())
	}
	return errors.Join(append(errs, s.lock.Close())...)
}

// elapsed is the time since Open. The queues count in it because, unlike the
// wall clock, it never jumps.
func (s *Store) elapsed() time.Duration { return s.now().Sub(s.opened) }

func lockFolder(dir string) (*flock.Flock, error) {
	path := filepath.Join(dir, "lock")
	lock := flock.New(path, flock.SetPermissions(0o600))
	ok, err := lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("locking data folder: %w", err)
	}
	if !ok {
		text, _ := os.ReadFile(path) // only to name the owner
		pid, _ := strconv.Atoi(strings.TrimSpace(string(text)))
		return nil, &LockedError{Dir: dir, PID: pid}
	}
	if err := os.WriteFile(path, []byte(strconv.Itoa(os.Getpid())), 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("naming the owner of the data folder: %w", err), lock.Close())
	}
	return lock, nil
}
