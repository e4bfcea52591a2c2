// Package platform states what Errand needs from the ground it stands on:
// versioned items, queues, blobs and, where the platform has them, change
// notices. It holds interfaces and plain values only; each adapter
// (sqlitestore; dynamostore with sqsqueue, schedulertimer and s3blob)
// implements them and passes the one suite in package conformance.
//
// The interfaces are deliberately dumb. Every rule of Errand is a pure function
// over plain values (package subagent) whose result is written here under one
// condition: "the item still has the version I read". So the rules exist once,
// and no adapter repeats them in its own query language.
package platform

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// MaxBody is the largest item body, in bytes. DynamoDB stops at 400 KB with
// names and overhead counted (DynamoDB developer guide, "Service quotas").
const MaxBody = 300 << 10

// MaxMessage is the largest message body, in bytes. SQS takes 1 MiB but bills
// each 64 KB; a message names a row, it does not carry one.
const MaxMessage = 60 << 10

// MaxDelay is the longest delay of a queued message (SQS DelaySeconds).
const MaxDelay = 15 * time.Minute

// Key names one item: a partition and a sort key inside it. Package ledger
// builds every key; adapters treat both parts as opaque text.
type Key struct{ Partition, Sort string }

// Item is one versioned row.
type Item struct {
	Key Key
	// Version is 1 for the first write and rises by one with each further one.
	// Zero means that the item does not exist.
	Version int64
	// Body is one JSON object, at most MaxBody bytes. An adapter may store it in
	// its own form; what it returns is equal as JSON, not byte for byte.
	Body []byte
	// Expires, when set, lets the platform delete the item some time after it.
	// It is housekeeping: no decision may rest on it.
	Expires time.Time
}

// Exists reports whether the item was found.
func (i Item) Exists() bool { return i.Version > 0 }

// ConflictError is returned by Put and Delete when the stored version is not
// the one that the write asks for. It carries the stored item (Version 0 if there
// is none), so that the loser can decide again without another read.
type ConflictError struct{ Stored Item }

func (e *ConflictError) Error() string {
	return fmt.Sprintf("item %q %q is at version %d", e.Stored.Key.Partition, e.Stored.Key.Sort, e.Stored.Version)
}

// ErrTooLarge is returned by Put and Send for a body over the limit. Nothing was written.
var ErrTooLarge = errors.New("body is over the platform's limit")

// ErrNoBlob is returned by Blobs.Get when no blob has that name.
var ErrNoBlob = errors.New("no such blob")

// Items stores versioned rows. All reads are strongly consistent: they see every
// write acknowledged before they began.
type Items interface {
	// Get returns the item, or an item with Version 0 if there is none.
	Get(ctx context.Context, key Key) (Item, error)

	// GetMany returns one item per key, in the order of the keys, each as Get would.
	// It is not an atomic snapshot.
	GetMany(ctx context.Context, keys []Key) ([]Item, error)

	// Put writes item if the stored version is exactly item.Version-1 (an absent
	// item has version 0), in one atomic step. Otherwise nothing changes and the
	// error is a *ConflictError. An error of any other kind leaves it open whether
	// the write took place: the caller may send the same Put again, and reads its
	// own earlier success out of the conflict.
	Put(ctx context.Context, item Item) error

	// Delete removes the item if it has this version; version 0 removes whatever
	// is there. Deleting an absent item succeeds.
	Delete(ctx context.Context, key Key, version int64) error

	// List returns the items of one partition whose sort key begins with q.Prefix,
	// in ascending byte order of the sort key (descending if q.Descending),
	// beginning strictly after q.After in that direction when it is set, at most
	// q.Limit of them (0 means 1,000).
	List(ctx context.Context, q Query) ([]Item, error)
}

// Query selects a range of one partition.
type Query struct {
	Partition, Prefix, After string
	Descending               bool
	Limit                    int
}

// The queues. Turns is FIFO: messages of one group are handed out strictly in
// order, one at a time; an unacknowledged head blocks its group. Runs and Ticks
// are standard: at least once, in any order, with optional delay.
const (
	Turns = "turns"
	Runs  = "runs"
	Ticks = "ticks"
)

// Queues lists every queue.
var Queues = []string{Turns, Runs, Ticks}

// Message is one message to send.
type Message struct {
	Queue string
	// Group orders messages on Turns (the conversation); on Runs it is the tenant,
	// for fairness only. At most 128 characters of the SQS alphabet.
	Group string
	// Dedup suppresses a second message with the same value on Turns for five
	// minutes, also after the first was deleted. On Ticks it names the tick; a
	// platform may use it as the name of a one-time schedule. At most 64 characters.
	Dedup string
	// Body is at most MaxMessage bytes.
	Body []byte
	// Delay keeps the message invisible at first; at most MaxDelay, zero on Turns.
	Delay time.Duration
}

// Sender sends messages. When Send returns nil the message is durable. After an
// error it may or may not have been sent.
type Sender interface {
	Send(ctx context.Context, m Message) error
}

// Received is one message handed out by a queue, invisible to others until its
// visibility ends.
type Received struct {
	Message
	// ID is the same on every receive of the message, Receipt is not.
	ID, Receipt string
	// Receives counts how often the message was handed out, this time included.
	Receives int
	SentAt   time.Time
}

// Receiver takes messages from a queue. On AWS the event source mapping is the
// receiver in production; tests and the embedded workers use this.
type Receiver interface {
	// Receive waits until at least one message can be handed out or ctx ends, and
	// returns at most max messages, hidden for visibility. A message that was handed
	// out MaxReceives times already goes to the queue's dead letters instead.
	Receive(ctx context.Context, queue string, max int, visibility time.Duration) ([]Received, error)
	// Acknowledge deletes a received message. A second call succeeds.
	Acknowledge(ctx context.Context, r Received) error
	// Extend sets the remaining visibility from now; zero makes the message
	// available at once. Extending an acknowledged message succeeds and does nothing.
	Extend(ctx context.Context, r Received, visibility time.Duration) error
	// DeadLetters returns up to limit dead letters of the queue, oldest first.
	DeadLetters(ctx context.Context, queue string, limit int) ([]Received, error)
	// Redrive sends every dead letter of the queue again and returns how many.
	Redrive(ctx context.Context, queue string) (int, error)
}

// MaxReceives is how often a message is handed out before it becomes a dead letter.
const MaxReceives = 5

// Blobs stores values too large for an item. A blob is written once under a name
// that its content determines; writing the same name again is harmless.
type Blobs interface {
	PutBlob(ctx context.Context, name string, data []byte) error
	// GetBlob returns ErrNoBlob if there is none.
	GetBlob(ctx context.Context, name string) ([]byte, error)
	// DeleteBlob succeeds if there is none.
	DeleteBlob(ctx context.Context, name string) error
}

// Store is what the use cases work on.
type Store interface {
	Items
	Sender
	Blobs

	// Atomically runs fn on a view of the store. A platform with transactions makes
	// everything fn did durable in one step, and undoes it all if fn fails; one
	// without calls fn on itself. It is a saving of round trips, never a guarantee:
	// correctness must not depend on it, so the order of steps inside fn still counts.
	// fn uses only the Store it is given, and neither blocks nor waits.
	Atomically(ctx context.Context, fn func(Store) error) error
}

// Watcher is implemented by a platform that can tell of changes in this process.
// Without it, callers poll.
type Watcher interface {
	// Watch returns a channel that is closed after the next committed write to key,
	// or, if key.Sort ends in '#', to any key with that prefix. stop releases it.
	Watch(key Key) (changed <-chan struct{}, stop func())
}

// Join makes a Store of separate services that share no transaction.
func Join(items Items, sender Sender, blobs Blobs) Store {
	return joined{items, sender, blobs}
}

type joined struct {
	Items
	Sender
	Blobs
}

func (j joined) Atomically(_ context.Context, fn func(Store) error) error { return fn(j) }
