package awsclient

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Kind is a unit that AWS bills. It is also how the table names it.
type Kind string

// The billed kinds.
const (
	WriteUnit       Kind = "DynamoDB write unit"
	ReadUnit        Kind = "DynamoDB read unit"
	StandardRequest Kind = "SQS standard request"
	FairRequest     Kind = "SQS fair request"
	FIFORequest     Kind = "SQS FIFO request"
	Schedule        Kind = "Scheduler invocation"
	S3Write         Kind = "S3 write request"
	S3Read          Kind = "S3 read request"
	LambdaRequest   Kind = "Lambda request"
	HTTPRequest     Kind = "HTTP API request"
)

// Price returns the list price in dollars of a million units, us-east-1, without
// free tier (November 2026). An unknown kind is free.
func (k Kind) Price() float64 {
	switch k {
	case WriteUnit:
		return 0.625
	case ReadUnit:
		return 0.125
	case StandardRequest:
		return 0.40
	case FairRequest, FIFORequest:
		return 0.50
	case Schedule, HTTPRequest:
		return 1.00
	case S3Write:
		return 5.00
	case S3Read:
		return 0.40
	case LambdaRequest:
		return 0.20
	}
	return 0
}

// Row is one line of a bill: what one API operation used of one kind.
type Row struct {
	Kind      Kind
	Operation string
	// Calls counts requests, also those that AWS refused or whose answer was lost;
	// Units is what they are billed as.
	Calls, Units int
}

// Dollars returns the price of the row's units, times a million: what a million
// repetitions of the measured work cost.
func (r Row) Dollars() float64 { return float64(r.Units) * r.Kind.Price() }

// Bill is a list of rows in the order of kind and operation.
type Bill []Row

// Units adds up the units of all rows.
func (b Bill) Units() int {
	sum := 0
	for _, r := range b {
		sum += r.Units
	}
	return sum
}

// Dollars adds up the prices of all rows.
func (b Bill) Dollars() float64 {
	sum := 0.0
	for _, r := range b {
		sum += r.Dollars()
	}
	return sum
}

// String renders the bill as a text table. Its dollars are per million
// repetitions of what was measured.
func (b Bill) String() string {
	var s strings.Builder
	fmt.Fprintf(&s, "%-22s %-26s %6s %6s %10s\n", "kind", "operation", "calls", "units", "$/million")
	for _, r := range b {
		fmt.Fprintf(&s, "%-22s %-26s %6d %6d %10.3f\n", r.Kind, r.Operation, r.Calls, r.Units, r.Dollars())
	}
	fmt.Fprintf(&s, "%-22s %-26s %6s %6d %10.3f\n", "total", "", "", b.Units(), b.Dollars())
	return s.String()
}

// Meter adds up billed operations. The zero value is ready, and it is safe for
// concurrent use. The clients of New report to it; what no client sees (Lambda and
// HTTP API requests) its owner adds.
type Meter struct {
	mu   sync.Mutex
	rows map[rowKey]Row
}

type rowKey struct {
	kind      Kind
	operation string
}

// Add counts one call of operation, billed as units of kind.
func (m *Meter) Add(kind Kind, operation string, units int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.rows == nil {
		m.rows = make(map[rowKey]Row)
	}
	key := rowKey{kind, operation}
	row := m.rows[key]
	m.rows[key] = Row{Kind: kind, Operation: operation, Calls: row.Calls + 1, Units: row.Units + units}
}

// Bill returns what was counted since the last Reset.
func (m *Meter) Bill() Bill {
	m.mu.Lock()
	defer m.mu.Unlock()
	bill := make(Bill, 0, len(m.rows))
	for _, r := range m.rows {
		bill = append(bill, r)
	}
	slices.SortFunc(bill, func(a, b Row) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Operation, b.Operation))
	})
	return bill
}

// Reset forgets what was counted.
func (m *Meter) Reset() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.rows)
}
