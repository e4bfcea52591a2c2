package conformance

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/errand-dev/errand/shared/platform"
)

// Kind names an operation of the platform.
type Kind string

const (
	Get         Kind = "get"
	GetMany     Kind = "get many"
	Put         Kind = "put"
	Delete      Kind = "delete"
	List        Kind = "list"
	Send        Kind = "send"
	PutBlob     Kind = "put blob"
	GetBlob     Kind = "get blob"
	DeleteBlob  Kind = "delete blob"
	Atomically  Kind = "atomically"
	Receive     Kind = "receive"
	Acknowledge Kind = "acknowledge"
	Extend      Kind = "extend"
	DeadLetters Kind = "dead letters"
	Redrive     Kind = "redrive"
)

// Op is one operation that is about to take place. Two runs that do the same see
// the same operations, whatever happens between operations of other names.
type Op struct {
	Kind Kind
	// Key is the item's; of GetMany, the first. Of List, Sort is the prefix; of a
	// blob, its name.
	Key   platform.Key
	Queue string
	// N counts the operations of this kind, key and queue, from 1.
	N int
}

func (o Op) String() string {
	return fmt.Sprintf("%s %d of %q %q %s", o.Kind, o.N, o.Key.Partition, o.Key.Sort, o.Queue)
}

// Fault says what goes wrong with an operation.
type Fault int

const (
	// None lets the operation take place.
	None Fault = iota
	// NotApplied fails it before it took place.
	NotApplied
	// Applied lets it take place and loses the answer: the caller gets an error.
	// Of Receive, the messages are hidden though nobody has them.
	Applied
	// Duplicate lets it take place twice, as a client does that retries by itself:
	// a put meets its own success, a message is sent twice. Of Receive, the messages
	// are available again at once, as if their visibility had run out.
	Duplicate
	// Late delays a sent message by Faults.Lateness; elsewhere it is None, and on
	// platform.Turns too, which takes no delay.
	Late
)

// FaultError is the error of an injected fault. It is of no kind that a caller
// may understand, as a broken connection is.
type FaultError struct {
	Op      Op
	Applied bool
}

func (e *FaultError) Error() string {
	if e.Applied {
		return fmt.Sprintf("injected fault: the answer to %v was lost", e.Op)
	}
	return fmt.Sprintf("injected fault: %v did not take place", e.Op)
}

// Faults is a platform that misbehaves as Decide says. It is a platform.Store and
// a platform.Receiver, but never a Watcher, so callers have to poll.
type Faults struct {
	// Inner and Receiver are the platform beneath. Receiver may be nil if unused.
	Inner    platform.Store
	Receiver platform.Receiver
	// Decide is asked before each operation. It must be safe for concurrent use,
	// and depend on the operation only if runs shall be repeatable.
	Decide func(Op) Fault
	// Lateness is how much Late adds to a delay.
	Lateness time.Duration
	// SplitAtomically runs the function given to Atomically on the wrapper itself,
	// without a transaction and with a fault for each of its steps, as a platform
	// of separate services does. Otherwise the inner transaction is used: its steps
	// have no faults of their own, the whole may have one.
	SplitAtomically bool

	mu     sync.Mutex
	counts map[Op]int // by the operation with N 0
}

var (
	_ platform.Store    = (*Faults)(nil)
	_ platform.Receiver = (*Faults)(nil)
)

// decide numbers the operation and asks for its fate.
func (f *Faults) decide(op Op) (Op, Fault) {
	f.mu.Lock()
	if f.counts == nil {
		f.counts = make(map[Op]int)
	}
	f.counts[op]++
	op.N = f.counts[op]
	f.mu.Unlock()
	return op, f.Decide(op)
}

// do runs one operation under its fault.
func (f *Faults) do(op Op, call func() error) error {
	op, fault := f.decide(op)
	return inject(op, fault, call)
}

func inject(op Op, fault Fault, call func() error) error {
	switch fault {
	case NotApplied:
		return &FaultError{Op: op}
	case Applied:
		if err := call(); err != nil {
			return err
		}
		return &FaultError{Op: op, Applied: true}
	case Duplicate:
		if err := call(); err != nil {
			return err
		}
	}
	return call()
}

func (f *Faults) Get(ctx context.Context, key platform.Key) (item platform.Item, err error) {
	err = f.do(Op{Kind: Get, Key: key}, func() error {
		item, err = f.Inner.Get(ctx, key)
		return err
	})
	return item, err
}

func (f *Faults) GetMany(ctx context.Context, keys []platform.Key) (items []platform.Item, err error) {
	op := Op{Kind: GetMany}
	if len(keys) > 0 {
		op.Key = keys[0]
	}
	err = f.do(op, func() error {
		items, err = f.Inner.GetMany(ctx, keys)
		return err
	})
	return items, err
}

func (f *Faults) List(ctx context.Context, q platform.Query) (items []platform.Item, err error) {
	err = f.do(Op{Kind: List, Key: platform.Key{Partition: q.Partition, Sort: q.Prefix}}, func() error {
		items, err = f.Inner.List(ctx, q)
		return err
	})
	return items, err
}

func (f *Faults) Put(ctx context.Context, item platform.Item) error {
	return f.do(Op{Kind: Put, Key: item.Key}, func() error { return f.Inner.Put(ctx, item) })
}

func (f *Faults) Delete(ctx context.Context, key platform.Key, version int64) error {
	return f.do(Op{Kind: Delete, Key: key}, func() error { return f.Inner.Delete(ctx, key, version) })
}

func (f *Faults) Send(ctx context.Context, m platform.Message) error {
	op, fault := f.decide(Op{Kind: Send, Queue: m.Queue})
	if fault == Late && m.Queue != platform.Turns {
		m.Delay = min(m.Delay+f.Lateness, platform.MaxDelay)
	}
	return inject(op, fault, func() error { return f.Inner.Send(ctx, m) })
}

func (f *Faults) PutBlob(ctx context.Context, name string, data []byte) error {
	return f.do(blobOp(PutBlob, name), func() error { return f.Inner.PutBlob(ctx, name, data) })
}

func (f *Faults) GetBlob(ctx context.Context, name string) (data []byte, err error) {
	err = f.do(blobOp(GetBlob, name), func() error {
		data, err = f.Inner.GetBlob(ctx, name)
		return err
	})
	return data, err
}

func (f *Faults) DeleteBlob(ctx context.Context, name string) error {
	return f.do(blobOp(DeleteBlob, name), func() error { return f.Inner.DeleteBlob(ctx, name) })
}

func blobOp(kind Kind, name string) Op {
	return Op{Kind: kind, Key: platform.Key{Sort: name}}
}

// Atomically runs fn once, whatever the fault: fn may count its calls.
func (f *Faults) Atomically(ctx context.Context, fn func(platform.Store) error) error {
	if f.SplitAtomically {
		return fn(f)
	}
	op, fault := f.decide(Op{Kind: Atomically})
	err := f.Inner.Atomically(ctx, func(s platform.Store) error {
		err := fn(s)
		if err == nil && fault == NotApplied {
			return &FaultError{Op: op}
		}
		return err
	})
	if err == nil && fault == Applied {
		return &FaultError{Op: op, Applied: true}
	}
	return err
}

func (f *Faults) Receive(ctx context.Context, queue string, max int, visibility time.Duration) ([]platform.Received, error) {
	op, fault := f.decide(Op{Kind: Receive, Queue: queue})
	if fault == NotApplied {
		return nil, &FaultError{Op: op}
	}
	batch, err := f.Receiver.Receive(ctx, queue, max, visibility)
	if err != nil {
		return nil, err
	}
	switch fault {
	case Applied:
		return nil, &FaultError{Op: op, Applied: true}
	case Duplicate:
		for _, r := range batch {
			if err := f.Receiver.Extend(ctx, r, 0); err != nil {
				return nil, err
			}
		}
	}
	return batch, nil
}

func (f *Faults) Acknowledge(ctx context.Context, r platform.Received) error {
	return f.do(Op{Kind: Acknowledge, Queue: r.Queue}, func() error { return f.Receiver.Acknowledge(ctx, r) })
}

func (f *Faults) Extend(ctx context.Context, r platform.Received, visibility time.Duration) error {
	return f.do(Op{Kind: Extend, Queue: r.Queue}, func() error { return f.Receiver.Extend(ctx, r, visibility) })
}

func (f *Faults) DeadLetters(ctx context.Context, queue string, limit int) (letters []platform.Received, err error) {
	err = f.do(Op{Kind: DeadLetters, Queue: queue}, func() error {
		letters, err = f.Receiver.DeadLetters(ctx, queue, limit)
		return err
	})
	return letters, err
}

func (f *Faults) Redrive(ctx context.Context, queue string) (sent int, err error) {
	err = f.do(Op{Kind: Redrive, Queue: queue}, func() error {
		n, err := f.Receiver.Redrive(ctx, queue)
		sent += n
		return err
	})
	return sent, err
}
