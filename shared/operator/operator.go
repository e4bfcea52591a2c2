// Package operator is what operators set for agents: whether one is enabled, and what
// it does with new work while in maintenance. The rules are those of subagent.Controls.
//
// What is set holds for the whole deployment and is one row, read at most once in
// Staleness by each process: what an operator changes is obeyed everywhere within that
// time, and in the process that changed it at once.
package operator

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/ledger"
	"github.com/errand-dev/errand/shared/subagent"
)

// Staleness is how long a process believes what it has read.
const Staleness = 5 * time.Second

// Controls answers what an agent may do. A nil *Controls lets every agent work, and reads
// nothing. It is safe for concurrent use.
type Controls struct {
	ledger *ledger.Ledger

	mu     sync.Mutex
	known  subagent.Controls
	readAt time.Time
}

// New returns the controls that the ledger keeps.
func New(l *ledger.Ledger) *Controls { return &Controls{ledger: l} }

// Admit returns nil if the agent takes new work, else agent.ErrAgentDisabled or
// agent.ErrInMaintenance.
func (c *Controls) Admit(ctx context.Context, name string) error {
	known, err := c.read(ctx)
	if err != nil {
		return err
	}
	switch known.Admit(name) {
	case subagent.RefusedDisabled:
		return fmt.Errorf("%w: %q", agent.ErrAgentDisabled, name)
	case subagent.RefusedMaintenance:
		return fmt.Errorf("%w: %q", agent.ErrInMaintenance, name)
	}
	return nil
}

// AdmitTurn is Admit for the agent of a conversation: the one that its first turn has
// fixed, else the one given. That costs a read only while an operator has set anything.
func (c *Controls) AdmitTurn(ctx context.Context, o subagent.Owner, otherwise string) error {
	known, err := c.read(ctx)
	if err != nil || len(known.Agents) == 0 {
		return err
	}
	conversation, err := c.ledger.Conversation(ctx, o)
	if err != nil {
		return err
	}
	return c.Admit(ctx, cmp.Or(conversation.Agent, otherwise))
}

// Holding reports whether work of the agent that was accepted and has not begun must
// wait.
func (c *Controls) Holding(ctx context.Context, name string) (bool, error) {
	known, err := c.read(ctx)
	return known.Holds(name), err
}

// Control returns what is set for an agent right now.
func (c *Controls) Control(ctx context.Context, name string) (subagent.Control, error) {
	now := c.ledger.Now()
	fresh, err := c.ledger.Controls(ctx)
	if err == nil {
		c.learn(fresh, now)
	}
	return fresh.Of(name), err
}

// Set sets it.
func (c *Controls) Set(ctx context.Context, name string, to subagent.Control) (subagent.Control, error) {
	now := c.ledger.Now()
	fresh, _, err := c.ledger.UpdateControls(ctx, func(all subagent.Controls) (subagent.Controls, subagent.Outcome) {
		return all.Set(name, to)
	})
	if err == nil {
		c.learn(fresh, now)
	}
	return fresh.Of(name), err
}

// read returns what is known, or reads it if that is old. Those who come meanwhile wait:
// one read serves them all.
func (c *Controls) read(ctx context.Context) (subagent.Controls, error) {
	if c == nil {
		return subagent.Controls{}, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.ledger.Now()
	if !c.readAt.IsZero() && now.Sub(c.readAt) < Staleness {
		return c.known, nil
	}
	fresh, err := c.ledger.Controls(ctx)
	if err != nil {
		return subagent.Controls{}, err
	}
	c.known, c.readAt = fresh, now
	return fresh, nil
}

// learn takes over what was read or written at a time.
func (c *Controls) learn(fresh subagent.Controls, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.readAt.After(at) {
		c.known, c.readAt = fresh, at
	}
}
