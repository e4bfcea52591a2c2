// Package core wires the use cases over a ledger, once for all platforms: package serve does
// it for one process over one data folder, package cloud for the three Lambdas.
package core

import (
	"log/slog"
	"time"

	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/callback"
	"github.com/errand-dev/errand/shared/control"
	"github.com/errand-dev/errand/shared/delivery"
	"github.com/errand-dev/errand/shared/dispatch"
	"github.com/errand-dev/errand/shared/executor"
	"github.com/errand-dev/errand/shared/ingress"
	"github.com/errand-dev/errand/shared/ledger"
	"github.com/errand-dev/errand/shared/operator"
	"github.com/errand-dev/errand/shared/price"
	"github.com/errand-dev/errand/shared/reconcile"
	"github.com/errand-dev/errand/shared/subagent"
	"github.com/errand-dev/errand/shared/timetable"
)

// Config is what the use cases need. All of it must be set, but what is said to be optional.
type Config struct {
	Ledger *ledger.Ledger
	Agents *agent.Registry
	// Cadence of the reconcile ticks.
	Cadence subagent.Cadence
	// MaxConcurrentRuns is the cap of live runs per conversation.
	MaxConcurrentRuns int
	Prices            price.Table
	// Obey: what operators set for agents counts.
	Obey bool
	// NoSchedules: schedules can be neither created nor changed. LongTimers: the platform
	// keeps a message back for longer than platform.MaxDelay.
	NoSchedules, LongTimers bool
	Coalesce                subagent.Coalescing
	// StopBefore and ProgressEvery are those of executor.Config; zero StopBefore hands on only
	// when a process stops.
	StopBefore, ProgressEvery time.Duration
	// Show is that of executor.Config, optional.
	Show func(subagent.Owner, ledger.Event)
	Log  *slog.Logger
}

// Core is the wired use cases.
type Core struct {
	Ledger     *ledger.Ledger
	Service    *ingress.Service
	Executor   *executor.Executor
	Reconciler *reconcile.Reconciler
}

// New wires them.
func New(c Config) *Core {
	var controls *operator.Controls
	if c.Obey {
		controls = operator.New(c.Ledger)
	}
	courier := &delivery.Courier{Ledger: c.Ledger, Agents: c.Agents, Log: c.Log}
	dispatcher := &dispatch.Dispatcher{
		Ledger: c.Ledger, Agents: c.Agents, Cadence: c.Cadence, Cap: c.MaxConcurrentRuns, Controls: controls, Log: c.Log,
	}
	times := &timetable.Timetable{
		Ledger: c.Ledger, Controls: controls, DefaultChat: c.Agents.DefaultChat, Frozen: c.NoSchedules, LongTimers: c.LongTimers, Log: c.Log,
	}
	ctl := &control.Control{Ledger: c.Ledger, Courier: courier, Dispatcher: dispatcher, Log: c.Log}
	callbacks := &callback.Signer{Ledger: c.Ledger}
	exec := executor.New(executor.Config{
		Ledger: c.Ledger, Agents: c.Agents, Courier: courier, Dispatcher: dispatcher, Control: ctl, Callbacks: callbacks, Prices: c.Prices,
		Controls: controls, Coalesce: c.Coalesce, StopBefore: c.StopBefore, ProgressEvery: c.ProgressEvery, Show: c.Show, Log: c.Log,
	})
	ctl.Changed = exec.Changed
	return &Core{
		Ledger: c.Ledger,
		Service: &ingress.Service{
			Ledger: c.Ledger, Agents: c.Agents, Dispatcher: dispatcher, Control: ctl, Callbacks: callbacks, Timetable: times, Controls: controls, Log: c.Log,
		},
		Executor: exec,
		Reconciler: &reconcile.Reconciler{
			Ledger: c.Ledger, Agents: c.Agents, Courier: courier, Cadence: c.Cadence, Timetable: times, Log: c.Log, Changed: exec.Changed,
		},
	}
}
