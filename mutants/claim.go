package main

const claimFile = "shared/subagent/claim.go"

// claimMutants break the rules of who may deliver a slot.
var claimMutants = []mutant{
	{"claim without the lease", ledger, claimFile,
		`	case !r.Claim.Free(at, t):
		return r, Held
	case d.Attempts`,
		`	case d.Attempts`,
		checker, "two_heads_and_one_claim"},
	{"claim give_up after the real end", ledger, claimFile,
		`	case slot == GiveUp && r.Status.Hard():
		return r, Superseded
	case slot == GiveUp && r.Status != Interrupted, slot`,
		`	case slot`,
		checker, "lost_answers_and_a_handler"},
	{"claim finish without an end", ledger, claimFile,
		`, slot == Finish && !r.Status.Hard():
`,
		`:
`,
		tables, "TestTakeForEitherSlot"},
	{"claim a closed slot", ledger, claimFile,
		`	case d.State != Open:
		return r, Closed
	case slot == GiveUp && r.Status.Hard():
		return r, Superseded
	case slot == GiveUp && r.Status != I`,
		`	case slot == GiveUp && r.Status.Hard():
		return r, Superseded
	case slot == GiveUp && r.Status != I`,
		tables, "TestTakeForEitherSlot"},
	{"claim does not know its own success", ledger, claimFile,
		`	case r.Claim.Token == token:
		return r, Mine
	case !r.Claim.Free(at, t):`,
		`	case !r.Claim.Free(at, t):`,
		tables, "TestTakeForEitherSlot"},
	{"a repeated claim starts anew", ledger, claimFile,
		`	case r.Claim.Token == token:
		return r, Mine
	case !r.Claim.Free(at, t):`,
		`	case r.Claim.Token != token && !r.Claim.Free(at, t):`,
		tables, "TestTakeForEitherSlot"},
	{"claim without end", ledger, claimFile,
		`	case d.Attempts >= MaxAttempts:
		return r, NotDue
	}
	r.Claim =`,
		`	}
	r.Claim =`,
		tables, "TestTakeForEitherSlot"},
	{"claims are not counted", ledger, claimFile,
		"N: r.Claim.N + 1}",
		"N: r.Claim.N}",
		tables, "TestTakeForEitherSlot"},
	{"renew another's claim", ledger, claimFile,
		"if r.Claim.Token != token || r.Delivery(slot).State != Open {",
		"if r.Delivery(slot).State != Open {",
		tables, "TestAClaimIsItsHoldersAlone"},
	{"renew the claim of a closed slot", ledger, claimFile,
		"if r.Claim.Token != token || r.Delivery(slot).State != Open {",
		"if r.Claim.Token != token {",
		tables, "TestAClaimIsItsHoldersAlone"},
	{"mark with another's claim", ledger, claimFile,
		`case d.State != Open || r.Claim.Token != token:
		return r, Stale`,
		`case d.State != Open:
		return r, Stale`,
		checker, "two_heads_and_a_handler"},
	{"mark does not know its own success", ledger, claimFile,
		`	case d.State == Delivered && r.Claim.Token == token:
		return r, Mine
`,
		"",
		checker, "lost_answers_and_a_handler"},
	{"mark keeps the claim", ledger, claimFile,
		`	d.State, d.At = Delivered, At(now)
	r.Claim.Until = 0
	return r, Apply
}

// MarkInjected`,
		`	d.State, d.At = Delivered, At(now)
	return r, Apply
}

// MarkInjected`,
		tables, "TestAClaimIsItsHoldersAlone"},
	{"mark a message of another status", ledger, claimFile,
		`	case r.Status != status:
		return r, Superseded
`,
		"",
		tables, "TestAMessageIsMarkedForTheStatusItTells"},
	{"mark a closed slot's message", ledger, claimFile,
		`	case d.State != Open:
		return r, Closed
	case r.Status != status:`,
		`	case r.Status != status:`,
		tables, "TestAMessageIsMarkedForTheStatusItTells"},
	{"release another's claim", ledger, claimFile,
		`	if r.Claim.Token != token || d.State != Open {
		return r, Stale
	}
	r.Claim.Token = ""`,
		`	if d.State != Open {
		return r, Stale
	}
	r.Claim.Token = ""`,
		checker, "two_heads_and_a_handler"},
	{"release a closed slot", ledger, claimFile,
		`	if r.Claim.Token != token || d.State != Open {
		return r, Stale
	}
	r.Claim.Token = ""`,
		`	if r.Claim.Token != token {
		return r, Stale
	}
	r.Claim.Token = ""`,
		tables, "TestAClaimIsItsHoldersAlone"},
	{"release without back-off", ledger, claimFile,
		"r.Claim.Until = At(now).Add(backoff)",
		"r.Claim.Until = 0",
		tables, "TestAClaimIsItsHoldersAlone"},
	{"release never gives up", ledger, claimFile,
		`	if d.Attempts >= MaxAttempts {
		d.State, d.At = Dead, At(now)
	}
`,
		"",
		tables, "TestAClaimIsItsHoldersAlone"},
	{"bury under a claim", ledger, claimFile,
		"case d.Attempts < MaxAttempts || !r.Claim.Free(At(now), t):",
		"case d.Attempts < MaxAttempts:",
		tables, "TestBuryAndRedrive"},
	{"bury before the last attempt", ledger, claimFile,
		"case d.Attempts < MaxAttempts || !r.Claim.Free(At(now), t):",
		"case !r.Claim.Free(At(now), t):",
		tables, "TestBuryAndRedrive"},
	{"redrive without the count", ledger, claimFile,
		`	case r.Redrives != seen:
		return r, Stale
`,
		"",
		checker, "a_dead_slot_and_two_redrives"},
	{"redrive give_up after the real end", ledger, claimFile,
		`	case slot == GiveUp && r.Status.Hard():
		return r, Superseded
	case d.State != Dead:`,
		`	case d.State != Dead:`,
		tables, "TestBuryAndRedrive"},
	{"redrive a live slot", ledger, claimFile,
		`	case d.State != Dead:
		return r, Closed
`,
		"",
		tables, "TestBuryAndRedrive"},
	{"redrive give_up leaves finish closed", ledger, claimFile,
		"if slot == GiveUp && (r.Finish.State == Silent || r.Finish.State == Abandoned) {",
		"if false {",
		tables, "TestBuryAndRedrive"},
	{"finish does not wait for the claim of give_up", ledger, claimFile,
		`	case !r.Claim.Free(at, t):
		return r, Held
	case d.Attempts`,
		`	case !r.Claim.Free(at, t) && (slot == GiveUp || r.GiveUp.Attempts == 0):
		return r, Held
	case d.Attempts`,
		checker, "two_heads_and_one_claim"},
}
