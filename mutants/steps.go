package main

// stepMutants break the order of steps of the use cases, which apply the rules.
var stepMutants = []mutant{
	{"a dispatch arms and sends no tick", backbone, "shared/dispatch/dispatch.go",
		`		if err := s.ledger.SendTick(ctx, s.req.Owner, arming.Sent, 0, first); err != nil {
			return b, 0, err
		}
	}
	next, outcome, err := s.ledger.UpdateBackbone(`,
		`	}
	next, outcome, err := s.ledger.UpdateBackbone(`,
		simulation, ""},
	{"a tick writes before it sends", backbone, "shared/reconcile/reconcile.go",
		`	if err := r.Ledger.SendTick(ctx, w.Owner, w.Tick+1, rung, pause); err != nil {
		return read, 0, err
	}
	next, outcome, err :=`,
		`	defer func() { _ = r.Ledger.SendTick(ctx, w.Owner, w.Tick+1, rung, pause) }()
	next, outcome, err :=`,
		simulation, ""},
	{"a tick leaves a disarmed backbone as it is", backbone, "shared/reconcile/reconcile.go",
		`		return r.update(ctx, w, read, func(b subagent.Backbone) (subagent.Backbone, subagent.Outcome) { return b.Fence(w.Tick, read) })`,
		`		return read, subagent.Apply, nil`,
		simulation, "83"},
	{"a tick is acknowledged before its work", backbone, "shared/reconcile/reconcile.go",
		`		if err != nil {
			return err
		}
		if outcome.OK() {`,
		`		if err != nil {
			return nil
		}
		if outcome.OK() {`,
		simulation, ""},
	{"a slot is marked before its message is durable", ledger, "shared/delivery/delivery.go",
		`	if tell != nil {
		if err := tell(ctx, l, &p); err != nil {
			return err
		}
	}
	told := p.Run.Status`,
		`	told := p.Run.Status
	if tell != nil {
		defer func() { _ = tell(ctx, l, &p) }()
	}`,
		simulation, "67"},
	{"an executor does not look at what is above its run", ledger, "shared/executor/run.go",
		`	if row.Parent != "" {
		if ended, err := e.endWithParent`,
		`	if row.Parent == "!" {
		if ended, err := e.endWithParent`,
		cases, "TestAChildWhoseRowComesAfterTheCancelDoesNothing"},
	{"the inbox of a given-up run is not passed on", execution, "shared/reconcile/reconcile.go",
		`		if row, err = r.Courier.PassOn(ctx, row); err != nil {
			return row, err
		}
`,
		"",
		simulation, "19"},
	{"a give-up is told without a look at the run", ledger, "shared/executor/turn.go",
		`	if run.Status.Hard() {
		return errSuperseded
	}`,
		`	if run.Status.Hard() && run.ID == "" {
		return errSuperseded
	}`,
		cases, "TestDefectD03NoInterruptedAfterCompleted"},
	{"a reservation is settled before the finish slot is closed", backbone, "shared/delivery/delivery.go",
		`	if !run.Outstanding() {
		disarmed`,
		`	if true {
		disarmed`,
		simulation, ""},
	{"an own write is recognised by its version alone", ledger, "shared/ledger/ledger.go",
		"conflict.Stored.Version == version && writer(conflict.Stored.Body) == nonce",
		"conflict.Stored.Version == version",
		simulation, ""},
	{"an unanswered write is repeated with the rule applied anew", ledger, "shared/ledger/ledger.go",
		`			stored, err = swap(ctx, l, key, next, cur.version+1, nonce, expires)
		}`,
		`			next, _ = rule(cur.value, cur.version)
			stored, err = swap(ctx, l, key, next, cur.version+1, nonce, expires)
		}`,
		simulation, "47"},
	{"a step starts without a look at the row", ledger, "shared/executor/backend.go",
		`	if err := x.fence(ctx); err != nil {
		return nil, err
	}
	raw, err := body(ctx)`,
		`	raw, err := body(ctx)`,
		simulation, "55"},
	{"a holder that was overtaken frees the place", execution, "shared/executor/hold.go",
		`			if c.Turn == ended.ID && c.Exec.Holder != h.token {`,
		`			if false {`,
		cases, "TestAHolderThatWasOvertakenDoesNotFreeThePlace"},
	{"a turn is not read again once its place is taken", ledger, "shared/executor/turn.go",
		`	if !h.doubtful {`,
		`	if true {`,
		simulation, "43"},
	{"a turn's reply is not what was said first", execution, "shared/executor/turn.go",
		`	if err != nil || said == value {`,
		`	if true {`,
		simulation, ""},
	{"a cleared conversation keeps no tombstones", execution, "shared/ledger/erase.go",
		`		return r.Erase(e.Now())
	})
	return err`,
		`		return r.Erase(e.Now())
	})
	if err == nil {
		err = e.remove(ctx, item)
	}
	return err`,
		simulation, "196"},
	{"a reservation is released without a tombstone", backbone, "shared/reconcile/reconcile.go",
		`		return r.entomb(ctx, row, reserved, now)`,
		`		row.Status, row.Generation = subagent.Void, reserved.Generation
		return row, nil`,
		simulation, ""},
	{"a cancel leaves what stands below", execution, "shared/control/control.go",
		`	if err := c.cancelDescendants(ctx, run); err != nil {
		return err
	}
`,
		"",
		cases, "TestF94ACancelReachesAChildThatStartsLater"},
	{"a holder that was overtaken writes behind another's message", ledger, "shared/executor/turn.go",
		`			if err := h.renew(ctx); err != nil {
				return value, err
			}
`,
		"",
		cases, "TestAHolderThatWasOvertakenWritesNothingBehindItsSuccessor"},
	{"a tick acknowledges when its write has lost", backbone, "shared/reconcile/reconcile.go",
		`		if outcome.OK() {
			return nil
		}
		b = next`,
		`		if outcome.OK() || outcome == subagent.Stale {
			return nil
		}
		b = next`,
		simulation, ""},
	{"the prune at the cap removes reservations without a row", backbone, "shared/dispatch/places.go",
		`		case r.Status == "", r.Status == subagent.Void && r.Generation < generation:
`,
		`		case r.Status == subagent.Void && r.Generation < generation:
		case r.Status == "":
			gone[r.ID] = generation
`,
		simulation, "83"},
	{"a turn that gets no further is revived", execution, turnFile,
		"case t.Revivals >= maxRevivals, !further && t.Idle >= spare:",
		"case t.Revivals >= maxRevivals, !further && t.Idle > spare:",
		tables, "TestATurnIsRevivedForAsLongAsItGetsFurther"},
	{"a turn is revived for ever", execution, turnFile,
		"case t.Revivals >= maxRevivals, !further && t.Idle >= spare:",
		"case !further && t.Idle >= spare:",
		tables, "TestATurnIsRevivedForAsLongAsItGetsFurther"},
	{"a turn that gets further is given up", execution, "shared/executor/turn.go",
		"revived || err != nil {",
		"revived && err != nil {",
		cases, "TestATurnWhoseExecutorsDieGoesOnWhileItGetsFurther"},
	{"a turn that stalls is handed on", execution, "shared/executor/turn.go",
		`	case errors.Is(cause, agent.ErrStalled):
		return h.finish(ctx, subagent.Error, "", cause.Error())
`,
		"",
		cases, "TestATurnStallsWithoutAStepForAnHour"},
	{"a run at work is replayed", execution, "shared/control/replay.go",
		"	if !old.Replayable() {",
		"	if !old.Replayable() && old.ID == \"\" {",
		cases, "TestARunThatIsAtWorkIsNotReplayed"},
	{"a slot is marked before its handler is called", ledger, "shared/delivery/handler.go",
		`	if err := c.callHolding(ctx, s.run, s.slot, s.token); err != nil {
`,
		`	if err := c.handled(ctx, c.Ledger, s, claimed); err != nil {
		return func(context.Context, *ledger.Ledger) error { return err }
	}
	if err := c.callHolding(ctx, s.run, s.slot, s.token); err != nil {
`,
		cases, "TestDefectD05AHandlerThatAlwaysThrowsBecomesADeadLetter"},
	{"a taken number counts as one's own", ledger, "shared/ledger/journal.go",
		`	if err == nil && taken && stored.ID != m.ID {`,
		`	if err == nil && taken && stored.ID == "" {`,
		simulation, "20"},
	{"a tick sends itself again and writes nothing", backbone, "shared/reconcile/reconcile.go",
		`	if err := r.Ledger.SendTick(ctx, w.Owner, w.Tick+1, rung, pause); err != nil {
		return read, 0, err
	}
`,
		`	if err := r.Ledger.SendTick(ctx, w.Owner, w.Tick, rung, pause); err != nil || len(sight.gone) == 0 {
		return read, subagent.Apply, err
	}
`,
		simulation, ""},
}
