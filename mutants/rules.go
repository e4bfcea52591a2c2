package main

import "slices"

// mutant is one change of a source, and the suites of which one must notice it.
type mutant struct {
	name, file, old, new string
	tests                []string
}

// suites are arguments of go test.
var suites = map[string][]string{
	"checker":    {"-short", "-timeout=100s", "-run=Promises", "./shared/protocol"},
	"tables":     {"-timeout=60s", "./shared/subagent"},
	"simulation": {"-timeout=100s", "-run=TestSimulation", "./shared/simulation"},
}

const (
	lease    = "shared/subagent/lease.go"
	giveUp   = "shared/subagent/giveup.go"
	claim    = "shared/subagent/claim.go"
	row      = "shared/subagent/run.go"
	decide   = "shared/subagent/decide.go"
	backbone = "shared/subagent/backbone.go"
)

// mutants is the whole list.
var mutants = slices.Concat(leaseMutants, giveUpMutants, claimMutants, rowMutants, decideMutants, backboneMutants)

var (
	byChecker = []string{"checker", "tables"}
	byTables  = []string{"tables"}
	byEither  = []string{"tables", "checker"}
)

var leaseMutants = []mutant{
	{"acquire without the lease", lease,
		"case !r.Exec.Free(at, t) || r.Exhausted(t):",
		"case r.Exhausted(t):", byChecker},
	{"acquire a run that has ended", lease,
		`	case !r.Status.Live():
		return r, Ended
	case r.Exec.Holder == token:`,
		"	case r.Exec.Holder == token:", byChecker},
	{"acquire a run that was given up", lease,
		`	case r.Status == Interrupted:
		return r, TornDown
	case !r.Status.Live():
		return r, Ended
	case r.Exec.Holder`,
		`	case r.Status.Hard():
		return r, Ended
	case r.Exec.Holder`, byChecker},
	{"acquire does not know its own success", lease,
		`	case r.Exec.Holder == token:
		return r, Mine
	case !r.Exec.Free(at, t) ||`,
		"	case !r.Exec.Free(at, t) ||", byTables},
	{"acquire keeps the epoch", lease,
		"Epoch: r.Exec.Epoch + 1",
		"Epoch: max(r.Exec.Epoch, 1)", byChecker},
	{"a run is executed for ever", lease,
		"case !r.Exec.Free(at, t) || r.Exhausted(t):",
		"case !r.Exec.Free(at, t):", byEither},
	{"step without the status", lease,
		`	case r.Status.Hard():
		return Ended
	case r.Status == Interrupted:
		return TornDown
	case r.Status != Running:
		return Stale
	}`,
		"	}", byChecker},
	{"step of a given-up run", lease,
		`	case r.Status == Interrupted:
		return TornDown
	case r.Status != Running:
		return Stale
	}`,
		`	case r.Status == Queued || r.Status == Waiting:
		return Stale
	}`, byChecker},
	{"step without the epoch", lease,
		`	case r.Exec.Epoch != epoch:
		return Stale
	case r.Status.Hard():
		return Ended
	case r.Status == Interrupted:
		return TornDown
`,
		`	case r.Status.Hard():
		return Ended
	case r.Status == Interrupted:
		return TornDown
`, byChecker},
	{"a late renewal shortens the lease", lease,
		"r.Exec.Until = max(r.Exec.Until, At(now).Add(t.Lease))",
		"r.Exec.Until = At(now).Add(t.Lease)", byTables},
	{"a step does not renew", lease,
		`	r.Exec.Until = max(r.Exec.Until, At(now).Add(t.Lease))
`,
		"", byTables},
	{"end without the epoch", lease,
		"case r.Exec.Epoch != epoch || r.Status == Queued || r.Status == Waiting:",
		"case r.Status == Queued || r.Status == Waiting:", byChecker},
	{"end over a hard end", lease,
		`	case r.Status.Hard():
		return r, Ended
	case r.Exec.Epoch != epoch || r.Status == Queued`,
		"	case r.Exec.Epoch != epoch || r.Status == Queued", byChecker},
	{"end only while running", lease,
		`r.Status == Queued || r.Status == Waiting:
		return r, Stale
	case r.Finish`,
		`r.Status != Running:
		return r, Stale
	case r.Finish`, byChecker},
	{"end does not know its own success", lease,
		`	case r.Status.Hard() && r.Status != Aborted && r.Exec.Epoch == epoch:
		return r, Mine
`,
		"", byChecker},
	{"end after the finish is closed", lease,
		`	case r.Finish.State != Open:
		return r, Closed
	case r.Inbox`,
		"	case r.Inbox", byEither},
	{"end with an unread inbox", lease,
		`	case r.Inbox > max(inboxRead, r.InboxRead):
		return r, Unread
`,
		"", byTables},
	{"a teardown is an end", lease,
		`	r.Torn = true
	return r, Apply`,
		`	r.Torn, r.Status = true, Aborted
	return r, Apply`, byChecker},
	{"a teardown closes finish", lease,
		`	r.Torn = true
	return r, Apply`,
		`	r.Torn, r.Finish.State = true, Silent
	return r, Apply`, byChecker},
	{"teardown without the epoch", lease,
		"case r.Exec.Epoch != epoch || r.Status != Interrupted:",
		"case r.Status != Interrupted:", byChecker},
	{"a message into an ended run", lease,
		`	case !r.Status.Live():
		return r, Ended
	}
	r.Inbox++`,
		`	}
	r.Inbox++`, byTables},
}

var giveUpMutants = []mutant{
	{"give up without the status", giveUp,
		`	case r.Status.Hard():
		return r, Ended
	case r.Status == Interrupted:
		return r, Mine
	case !r.Status.Live() || r.LastSignal`,
		"	case r.LastSignal", byChecker},
	{"give up against a new signal", giveUp,
		"r.LastSignal != seen.LastSignal || ",
		"", byTables},
	{"give up against a new deadline", giveUp,
		" || r.Deadline != seen.Deadline",
		"", byTables},
	{"give up moves the epoch", giveUp,
		`	at := At(now)
	r.Status, r.Reason, r.GivenUpAt = Interrupted, reason, at
`,
		`	at := At(now)
	r.Exec.Epoch++
	r.Status, r.Reason, r.GivenUpAt = Interrupted, reason, at
`, byChecker},
	{"give up takes a held run for torn down", giveUp,
		`r.Torn = r.Exec.Holder == ""`,
		"r.Torn = true", byChecker},
	{"a window shorter than the lease", giveUp,
		`	shortest := t.Lease + 2*t.Skew
`,
		`	shortest := time.Duration(0)
`, byTables},
	{"cancel over a hard end", giveUp,
		`	case r.Status == Aborted:
		return r, Mine
	case r.Status.Hard():
		return r, Ended
	case r.Status == Void:`,
		`	case r.Status == Aborted:
		return r, Mine
	case r.Status == Void:`, byChecker},
	{"cancel does not know its own success", giveUp,
		`	case r.Status == Aborted:
		return r, Mine
	case`,
		"	case", byChecker},
	{"cancel after the finish is closed", giveUp,
		`	case r.Finish.State != Open:
		return r, Closed
	}
	r.Status, r.Reason, r.Problem, r.EndedAt = Aborted`,
		`	}
	r.Status, r.Reason, r.Problem, r.EndedAt = Aborted`, byEither},
	{"fail without the executions", giveUp,
		" || r.Exec.Epoch != executions",
		"", byChecker},
	{"fail a run that has ended", giveUp,
		`	case r.Status.Hard():
		return r, Ended
	case !r.Status.Live() || r.Exec`,
		"	case r.Exec", byEither},
	{"silent before give_up is closed", giveUp,
		"!r.Torn || r.GiveUp.State == Open:",
		"!r.Torn:", byEither},
	{"silent before the teardown", giveUp,
		"r.Status != Interrupted || !r.Torn || ",
		"r.Status != Interrupted || ", byEither},
	{"abandon before give_up is closed", giveUp,
		`r.Status != Interrupted || r.GiveUp.State == Open,
`,
		`r.Status != Interrupted,
`, byEither},
	{"abandon within the window", giveUp,
		`		at <= r.WatchUntil.Add(t.Skew),
`,
		"", byEither},
	{"abandon within the lease", giveUp,
		`		at <= r.WatchUntil.Add(t.Skew),
		r.Exec.Holder != "" && at <= r.Exec.Until.Add(t.Skew):`,
		"		at <= r.WatchUntil.Add(t.Skew):", byEither},
	{"abandon without skew", giveUp,
		"at <= r.WatchUntil.Add(t.Skew),",
		"at <= r.WatchUntil,", byTables},
	{"never abandon", giveUp,
		`	r.Finish = Delivery{State: Abandoned, At: at}
	return r, Apply`,
		"	return r, NotDue", byChecker},
}

var claimMutants = []mutant{
	{"claim without the lease", claim,
		`	case !r.Claim.Free(at, t):
		return r, Held
	case d.Attempts`,
		"	case d.Attempts", byChecker},
	{"claim give_up after the real end", claim,
		`	case slot == GiveUp && r.Status.Hard():
		return r, Superseded
	case slot == GiveUp && r.Status != Interrupted, slot`,
		"	case slot", byChecker},
	{"claim finish without an end", claim,
		`, slot == Finish && !r.Status.Hard():
`,
		`:
`, byEither},
	{"claim a closed slot", claim,
		`	case d.State != Open:
		return r, Closed
	case slot == GiveUp && r.Status.Hard():
		return r, Superseded
	case slot == GiveUp && r.Status != I`,
		`	case slot == GiveUp && r.Status.Hard():
		return r, Superseded
	case slot == GiveUp && r.Status != I`, byEither},
	{"claim does not know its own success", claim,
		`	case r.Claim.Token == token:
		return r, Mine
	case !r.Claim.Free(at, t):`,
		"	case !r.Claim.Free(at, t):", byTables},
	{"a repeated claim starts anew", claim,
		`	case r.Claim.Token == token:
		return r, Mine
	case !r.Claim.Free(at, t):`,
		"	case r.Claim.Token != token && !r.Claim.Free(at, t):", byEither},
	{"claim without end", claim,
		`	case d.Attempts >= MaxAttempts:
		return r, NotDue
	}
	r.Claim =`,
		`	}
	r.Claim =`, byTables},
	{"claims are not counted", claim,
		"N: r.Claim.N + 1}",
		"N: r.Claim.N}", byTables},
	{"renew another's claim", claim,
		"if r.Claim.Token != token || r.Delivery(slot).State != Open {",
		"if r.Delivery(slot).State != Open {", byChecker},
	{"renew the claim of a closed slot", claim,
		"if r.Claim.Token != token || r.Delivery(slot).State != Open {",
		"if r.Claim.Token != token {", byTables},
	{"mark with another's claim", claim,
		`case d.State != Open || r.Claim.Token != token:
		return r, Stale`,
		`case d.State != Open:
		return r, Stale`, byChecker},
	{"mark does not know its own success", claim,
		`	case d.State == Delivered && r.Claim.Token == token:
		return r, Mine
`,
		"", byChecker},
	{"mark keeps the claim", claim,
		`	d.State, d.At = Delivered, At(now)
	r.Claim.Until = 0
	return r, Apply
}

// MarkInjected`,
		`	d.State, d.At = Delivered, At(now)
	return r, Apply
}

// MarkInjected`, byTables},
	{"mark a message of another status", claim,
		`	case r.Status != status:
		return r, Superseded
`,
		"", byEither},
	{"mark a closed slot's message", claim,
		`	case d.State != Open:
		return r, Closed
	case r.Status != status:`,
		"	case r.Status != status:", byEither},
	{"release another's claim", claim,
		`	if r.Claim.Token != token || d.State != Open {
		return r, Stale
	}
	r.Claim.Token = ""`,
		`	if d.State != Open {
		return r, Stale
	}
	r.Claim.Token = ""`, byChecker},
	{"release a closed slot", claim,
		`	if r.Claim.Token != token || d.State != Open {
		return r, Stale
	}
	r.Claim.Token = ""`,
		`	if r.Claim.Token != token {
		return r, Stale
	}
	r.Claim.Token = ""`, byEither},
	{"release without back-off", claim,
		"r.Claim.Until = At(now).Add(backoff)",
		"r.Claim.Until = 0", byTables},
	{"release never gives up", claim,
		`	if d.Attempts >= MaxAttempts {
		d.State, d.At = Dead, At(now)
	}
`,
		"", byTables},
	{"bury under a claim", claim,
		"case d.Attempts < MaxAttempts || !r.Claim.Free(At(now), t):",
		"case d.Attempts < MaxAttempts:", byEither},
	{"bury before the last attempt", claim,
		"case d.Attempts < MaxAttempts || !r.Claim.Free(At(now), t):",
		"case !r.Claim.Free(At(now), t):", byTables},
	{"redrive without the count", claim,
		`	case r.Redrives != seen:
		return r, Stale
`,
		"", byChecker},
	{"redrive give_up after the real end", claim,
		`	case slot == GiveUp && r.Status.Hard():
		return r, Superseded
	case d.State != Dead:`,
		"	case d.State != Dead:", byTables},
	{"redrive a live slot", claim,
		`	case d.State != Dead:
		return r, Closed
`,
		"", byEither},
	{"redrive give_up leaves finish closed", claim,
		"if slot == GiveUp && (r.Finish.State == Silent || r.Finish.State == Abandoned) {",
		"if false {", byTables},
}

var rowMutants = []mutant{
	{"take a lease over at once", row,
		"return now > l.Until.Add(t.Skew) || t.dead(l.Holder)",
		"return now > l.Until || t.dead(l.Holder)", byChecker},
	{"take a lease over at its bound", row,
		"return now > l.Until.Add(t.Skew) || t.dead(l.Holder)",
		"return now >= l.Until.Add(t.Skew) || t.dead(l.Holder)", byEither},
	{"take a claim over at once", row,
		"now > c.Until.Add(t.Skew) || c.Token",
		"now > c.Until || c.Token", byChecker},
	{"take a claim over at its bound", row,
		"now > c.Until.Add(t.Skew) || c.Token",
		"now >= c.Until.Add(t.Skew) || c.Token", byEither},
	{"a lease that was given back is not free", row,
		`		return now >= l.Until
`,
		`		return now > l.Until.Add(t.Skew)
`, byTables},
	{"a settled run is outstanding", row,
		"return r.Status != Void && r.Finish.State == Open",
		"return r.Status != Void", byEither},
	{"a given-up run holds its place", row,
		"!r.Status.Hard() && r.Status != Interrupted }",
		"!r.Status.Hard() }", byEither},
}

var decideMutants = []mutant{
	{"the tick does not resend the job", decide,
		`	return ResendJob, ""
`,
		`	return Keep, ""
`, byEither},
	{"the tick does not send what is owed", decide,
		`	return send
`,
		`	return Keep
`, byChecker},
	{"the tick does not bury", decide,
		`		return bury
`,
		`		return Keep
`, byChecker},
	{"the tick does not give up", decide,
		`	if reason := r.overBudget(at); reason != "" {`,
		`	if reason := r.overBudget(at); reason == "never" {`, byTables},
	{"the tick does not fail a hopeless run", decide,
		`	case r.Exhausted(t):
		return FailNow, ReasonExecutorLost
`,
		"", byTables},
	{"the tick does not close silently", decide,
		`	case r.Torn:
		return Silence, ""
`,
		"", byTables},
	{"the tick resends under a lease", decide,
		`	if !r.Exec.Free(at, t) {
		return Keep, ""
	}
`,
		"", byTables},
	{"the tick delivers under a claim", decide,
		`	case !r.Claim.Free(at, t):
		return Keep
`,
		"", byTables},
	{"silence counts before the first signal", decide,
		" && r.LastSignal != 0",
		"", byTables},
}

var backboneMutants = []mutant{
	{"reserve without the epoch", backbone,
		`	case a.Sent != 0 && b.Epoch != a.Sent-1:
		return b, Stale
`,
		"", byChecker},
	{"reserve on a disarmed backbone", backbone,
		"case a.Sent == 0 && (!b.Armed || b.Due > a.By):",
		"case a.Sent == 0 && b.Due > a.By:", byChecker},
	{"reserve beyond the first rung", backbone,
		"case a.Sent == 0 && (!b.Armed || b.Due > a.By):",
		"case a.Sent == 0 && !b.Armed:", byTables},
	{"reserve over the cap", backbone,
		"case b.Live() >= limit && !replaced, size >= MaxOpen:",
		"case size >= MaxOpen:", byChecker},
	{"reserve over the size of the item", backbone,
		"case b.Live() >= limit && !replaced, size >= MaxOpen:",
		"case b.Live() >= limit && !replaced:", byTables},
	{"reserve does not know its own success", backbone,
		"if have, ok := b.Open[id]; ok && (voided == 0 || have.Generation != voided) {",
		"if have, ok := b.Open[id]; ok && voided != 0 && have.Generation != voided {", byTables},
	{"reserve keeps a voided reservation", backbone,
		"if have, ok := b.Open[id]; ok && (voided == 0 || have.Generation != voided) {",
		"if _, ok := b.Open[id]; ok {", byEither},
	{"reserve keeps the epoch", backbone,
		"b.Armed, b.Epoch, b.Rung, b.Due = true, a.Sent, 0, a.Due",
		"b.Armed, b.Rung, b.Due = true, 0, a.Due", byChecker},
	{"given-up runs count against the cap", backbone,
		`		if !r.Soft {
			n++
		}`,
		`		if r.At >= 0 {
			n++
		}`, byTables},
	{"prune a newer reservation", backbone,
		"if have, ok := next[id]; ok && have.Generation == generation {",
		"if _, ok := next[id]; ok && generation > 0 {", byChecker},
	{"soften a newer reservation", backbone,
		"have.Generation == generation && !have.Soft {",
		"!have.Soft && generation > 0 {", byEither},
	{"a tick is stale if its number is not the epoch", backbone,
		"return k >= b.Epoch }",
		"return k == b.Epoch }", byChecker},
	{"no fence for a disarmed backbone", backbone,
		`	b.Epoch = k + 1
	return b, Apply
}

// Rearm`,
		`	return b, Mine
}

// Rearm`, byChecker},
	{"fence without the version", backbone,
		"if b.Version != read.Version || b.Armed {",
		"if b.Armed {", byEither},
	{"fence an armed backbone", backbone,
		"if b.Version != read.Version || b.Armed {",
		"if b.Version != read.Version {", byTables},
	{"re-arm without the version", backbone,
		`	if b.Version != read.Version {
		return b, Stale
	}
	b, _ = b.Prune(gone, soft)`,
		"	b, _ = b.Prune(gone, soft)", byChecker},
	{"re-arm on the epoch instead of the version", backbone,
		`	if b.Version != read.Version {
		return b, Stale
	}
	b, _ = b.Prune(gone, soft)`,
		`	if b.Epoch != read.Epoch {
		return b, Stale
	}
	b, _ = b.Prune(gone, soft)`, byChecker},
	{"re-arm keeps the epoch", backbone,
		"b.Epoch, b.Rung, b.Due = k+1, rung, due",
		"b.Rung, b.Due = rung, due", byChecker},
	{"disarm without the version", backbone,
		`	if b.Version != read.Version {
		return b, Stale
	}
	b, _ = b.Prune(gone, nil)`,
		"	b, _ = b.Prune(gone, nil)", byEither},
	{"disarm over a newer reservation", backbone,
		`	if b.Version != read.Version {
		return b, Stale
	}
	b, _ = b.Prune(gone, nil)
	if len(b.Open) > 0 {
		return b, Stale
	}
`,
		`	b, _ = b.Prune(gone, nil)
`, byChecker},
	{"disarm keeps the epoch", backbone,
		"b.Armed, b.Epoch, b.Rung, b.Due = false, k+1, 0, 0",
		"b.Armed, b.Rung, b.Due = false, 0, 0", byChecker},
	{"settle disarms over another reservation", backbone,
		"if len(b.Open) == 0 && b.Armed {",
		"if b.Armed {", byChecker},
	{"settle keeps the epoch", backbone,
		"b.Armed, b.Epoch, b.Rung, b.Due = false, b.Epoch+1, 0, 0",
		"b.Armed, b.Rung, b.Due = false, 0, 0", byEither},
	{"settle does not disarm", backbone,
		"if len(b.Open) == 0 && b.Armed {",
		"if false {", byTables},
	{"the row ignores its tombstone", backbone,
		`r.Status == "" || r.Status == Void && r.Generation < generation`,
		`r.Status == "" || r.Status == Void`, byChecker},
	{"a tombstone is final", backbone,
		`r.Status == "" || r.Status == Void && r.Generation < generation`,
		`r.Status == ""`, byChecker},
	{"a tombstone over a real run", backbone,
		`	if !r.replaceable(generation) {
		return r, Stale
	}
	return Run{Owner`,
		"	return Run{Owner", byChecker},
	{"a row over a real run", backbone,
		"	case r.replaceable(fresh.Generation):",
		"	case r.Status != Void || r.Generation < fresh.Generation:", byEither},
}
