package main

const (
	rowFile    = "shared/subagent/run.go"
	decideFile = "shared/subagent/decide.go"
	termsFile  = "shared/subagent/subagent.go"
)

// decideMutants break the rules of what is free, what is outstanding, and what a tick decides.
var decideMutants = []mutant{
	{"take a lease over at once", ledger, rowFile,
		"return now > l.Until.Add(t.Skew) || t.dead(l.Holder)",
		"return now > l.Until || t.dead(l.Holder)",
		checker, "two_executors_and_a_job_that_comes_twice"},
	{"take a lease over at its bound", ledger, rowFile,
		"return now > l.Until.Add(t.Skew) || t.dead(l.Holder)",
		"return now >= l.Until.Add(t.Skew) || t.dead(l.Holder)",
		checker, "two_executors_and_a_job_that_comes_twice"},
	{"take a claim over at once", ledger, rowFile,
		"now > c.Until.Add(t.Skew) || c.Token",
		"now > c.Until || c.Token",
		checker, "two_heads_and_one_claim"},
	{"take a claim over at its bound", ledger, rowFile,
		"now > c.Until.Add(t.Skew) || c.Token",
		"now >= c.Until.Add(t.Skew) || c.Token",
		checker, "two_heads_and_one_claim"},
	{"a lease that was given back is not free", ledger, rowFile,
		`		return now >= l.Until
`,
		`		return now > l.Until.Add(t.Skew)
`,
		tables, "TestAcquire"},
	{"a settled run is outstanding", ledger, rowFile,
		"return r.Status != Void && r.Finish.State == Open",
		"return r.Status != Void",
		tables, "TestDecide"},
	{"a given-up run holds its place", ledger, rowFile,
		"!r.Status.Hard() && r.Status != Interrupted }",
		"!r.Status.Hard() }",
		cases, "TestC42AGivenUpRunHoldsNoPlace"},
	{"the tick does not resend the job", ledger, decideFile,
		`	return ResendJob, ""
`,
		`	return Keep, ""
`,
		tables, "TestDecide"},
	{"the tick does not send what is owed", ledger, decideFile,
		`	return send
`,
		`	return Keep
`,
		checker, "a_dead_slot_and_two_redrives"},
	{"the tick does not bury", ledger, decideFile,
		`		return bury
`,
		`		return Keep
`,
		checker, "a_dead_slot_and_two_redrives"},
	{"the tick does not give up", ledger, decideFile,
		`	if reason := r.overBudget(at, t); reason != "" {`,
		`	if reason := r.overBudget(at, t); reason == "never" {`,
		tables, "TestDecide"},
	{"the tick does not fail a hopeless run", ledger, decideFile,
		`	case r.Exhausted(t):
		return FailNow, ReasonExecutorLost
`,
		"",
		tables, "TestDecide"},
	{"the tick does not close silently", ledger, decideFile,
		`	case r.Torn:
		return Silence, ""
`,
		"",
		tables, "TestDecide"},
	{"the tick resends under a lease", ledger, decideFile,
		`	if !r.Exec.Free(at, t) {
		return Keep, ""
	}
`,
		"",
		tables, "TestDecide"},
	{"the tick delivers under a claim", ledger, decideFile,
		`	case !r.Claim.Free(at, t):
		return Keep
`,
		"",
		tables, "TestDecide"},
	{"silence counts before the first signal", ledger, decideFile,
		"r.LastSignal != 0 && !r.Exec.Free(at, t) && at-r.LastSignal",
		"!r.Exec.Free(at, t) && at-r.LastSignal",
		tables, "TestDecide"},
	{"silence counts while nobody executes", ledger, decideFile,
		"r.LastSignal != 0 && !r.Exec.Free(at, t) && at-r.LastSignal",
		"r.LastSignal != 0 && at-r.LastSignal",
		tables, "TestDecide"},
	{"a machine that is off is silent", ledger, leaseFile,
		"	if r.LastSignal != 0 && at > r.Exec.Until {",
		"	if r.LastSignal < 0 {",
		tables, "TestSilenceCountsOnlyWhileSomebodyHoldsTheLease"},
	{"a holder begins work without a margin", ledger, termsFile,
		"{ return At(now) >= until.Add(-t.Margin) }",
		"{ return At(now) >= until }",
		tables, "TestNothingBeginsWithinTheMarginOfALease"},
	{"a holder whose renewals fail works on without a margin", ledger, termsFile,
		`>= until.Add(-t.Margin)
`,
		`>= until
`,
		tables, "TestAHolderStopsBeforeItsLeaseEnds"},
}
