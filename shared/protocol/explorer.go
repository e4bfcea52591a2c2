// Package protocol checks the rules of package subagent by trying every order of
// events. A model is a small system (one row or two, a few processes, their clocks,
// crashes and lost answers) whose transitions call the real rules. Explore visits
// every state that it can reach, breadth first, so the first failure that it reports
// is a shortest one, as a numbered list of events.
//
// The models are in the tests: ledger_test.go (one run) and backbone_test.go (one
// conversation's backbone).
package protocol

import (
	"fmt"
	"strings"
)

// Class tells what kind of event an edge is; a Goal says which kinds it may rely on.
type Class uint8

const (
	// Normal events are what the system does by itself.
	Normal Class = 1 << iota
	// Outside events come from users and from the work that is executed.
	Outside
	// Lucky events are the fast path: helpful, never guaranteed.
	Lucky
	// Fault events are crashes, losses, duplicates and lost answers.
	Fault
)

// Step names an event for a trace.
type Step struct {
	Who  string
	What string
	Note string
}

func (s Step) String() string {
	line := s.Who + " " + s.What
	if s.Note != "" {
		line += ": " + s.Note
	}
	return line
}

// Edge is one event that is possible in a state.
type Edge[S comparable] struct {
	To    S
	Step  Step
	Class Class
	// Bad says which promise the event itself breaks.
	Bad string
}

// Goal is a promise that something can always still happen: from every reachable
// state a state that satisfies Done can be reached by events of the classes Via.
type Goal[S comparable] struct {
	Name string
	Via  Class
	Done func(*S) bool
}

// Model is what Explore explores.
type Model[S comparable] struct {
	Start S
	// Next appends every event that is possible in the state.
	Next func(*S, []Edge[S]) []Edge[S]
	// Check returns the promise that the state itself breaks, or nothing.
	Check func(*S) string
	Goals []Goal[S]
}

// Report is what an exploration found.
type Report struct {
	States, Edges, Depth int
	// Complete is false if the limit of states was reached.
	Complete bool
	// Broken names the broken promise, Trace the events that lead there.
	Broken string
	Trace  []Step
}

func (r Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d states, %d edges, depth %d", r.States, r.Edges, r.Depth)
	if !r.Complete {
		b.WriteString(", not complete")
	}
	if r.Broken == "" {
		return b.String()
	}
	fmt.Fprintf(&b, "\nbroken: %s\n", r.Broken)
	for i, step := range r.Trace {
		fmt.Fprintf(&b, "%3d. %s\n", i+1, step)
	}
	return b.String()
}

// Explore visits the states of the model, at most limit of them (0: no limit).
func Explore[S comparable](m Model[S], limit int) Report {
	e := &explorer[S]{Model: m, index: map[S]int32{}}
	e.visit(m.Start, -1)
	e.report.Complete = true
	var buffer []Edge[S]
	for at := 0; at < len(e.states); at++ {
		if limit > 0 && at >= limit {
			e.report.Complete = false
			break
		}
		e.expanded = at + 1
		e.first = append(e.first, int32(len(e.to)))
		s := e.states[at]
		if bad := m.Check(&s); bad != "" {
			return e.failed(bad, at, nil)
		}
		buffer = m.Next(&s, buffer[:0])
		for i := range buffer {
			edge := &buffer[i]
			if edge.Bad != "" {
				return e.failed(edge.Bad, at, &edge.Step)
			}
			e.to = append(e.to, e.visit(edge.To, at))
			e.class = append(e.class, edge.Class)
		}
	}
	for len(e.first) <= len(e.states) {
		e.first = append(e.first, int32(len(e.to)))
	}
	for _, goal := range m.Goals {
		if stuck := e.stuck(goal); stuck >= 0 {
			return e.failed("it must always be possible: "+goal.Name, stuck, nil)
		}
	}
	return e.done()
}

type explorer[S comparable] struct {
	Model[S]
	index  map[S]int32
	states []S
	parent []int32
	depth  []int32
	// The edges of state i are to[first[i]:first[i+1]].
	first, to []int32
	class     []Class
	expanded  int
	report    Report
}

func (e *explorer[S]) visit(s S, from int) int32 {
	if at, ok := e.index[s]; ok {
		return at
	}
	at := int32(len(e.states))
	e.index[s] = at
	e.states = append(e.states, s)
	e.parent = append(e.parent, int32(from))
	depth := int32(0)
	if from >= 0 {
		depth = e.depth[from] + 1
	}
	e.depth = append(e.depth, depth)
	return at
}

// stuck returns the first state from which the goal cannot be reached, or -1. States
// that were never expanded count as reaching it.
func (e *explorer[S]) stuck(goal Goal[S]) int {
	n := len(e.states)
	// Reverse edges, by counting.
	start := make([]int32, n+1)
	for i, to := range e.to {
		if e.class[i]&goal.Via != 0 {
			start[to+1]++
		}
	}
	for i := range n {
		start[i+1] += start[i]
	}
	back := make([]int32, start[n])
	next := append([]int32{}, start[:n]...)
	for from := range n {
		for i := e.first[from]; i < e.first[from+1]; i++ {
			if e.class[i]&goal.Via != 0 {
				back[next[e.to[i]]] = int32(from)
				next[e.to[i]]++
			}
		}
	}
	reached := make([]bool, n)
	var queue []int32
	for i := range n {
		if i >= e.expanded || goal.Done(&e.states[i]) {
			reached[i] = true
			queue = append(queue, int32(i))
		}
	}
	for len(queue) > 0 {
		at := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		for _, from := range back[start[at]:start[at+1]] {
			if !reached[from] {
				reached[from] = true
				queue = append(queue, from)
			}
		}
	}
	for i, ok := range reached {
		if !ok {
			return i
		}
	}
	return -1
}

func (e *explorer[S]) done() Report {
	e.report.States, e.report.Edges = len(e.states), len(e.to)
	e.report.Depth = int(e.depth[len(e.depth)-1])
	return e.report
}

// failed makes the trace that leads to the state, and to the last event if there is one.
func (e *explorer[S]) failed(broken string, at int, last *Step) Report {
	r := e.done()
	r.Broken = broken
	if last != nil {
		r.Trace = append(r.Trace, *last)
	}
	for at > 0 {
		from := int(e.parent[at])
		s := e.states[from]
		for _, edge := range e.Next(&s, nil) {
			if edge.To == e.states[at] {
				r.Trace = append([]Step{edge.Step}, r.Trace...)
				break
			}
		}
		at = from
	}
	return r
}
