package main

const giveUpFile = "shared/subagent/giveup.go"

// giveUpMutants break the rules of when a run is given up, cancelled, failed or closed.
var giveUpMutants = []mutant{
	{"give up without the status", ledger, giveUpFile,
		`	case r.Status.Hard():
		return r, Ended
	case r.Status == Interrupted:
		return r, Mine
	case !r.Status.Live() || r.LastSignal`,
		`	case r.LastSignal`,
		checker, "lost_answers_and_a_handler"},
	{"give up against a new signal", ledger, giveUpFile,
		"r.LastSignal != seen.LastSignal || ",
		"",
		tables, "TestInterrupt"},
	{"give up against a new deadline", ledger, giveUpFile,
		" || r.Deadline != seen.Deadline",
		"",
		tables, "TestInterrupt"},
	{"give up moves the epoch", ledger, giveUpFile,
		`	at := At(now)
	r.Status, r.Reason, r.GivenUpAt = Interrupted, reason, at
`,
		`	at := At(now)
	r.Exec.Epoch++
	r.Status, r.Reason, r.GivenUpAt = Interrupted, reason, at
`,
		checker, "lost_answers_and_a_handler"},
	{"give up takes a held run for torn down", ledger, giveUpFile,
		"r.Torn = r.Exec.Holder == \"\"",
		"r.Torn = true",
		checker, "lost_answers_and_a_handler"},
	{"a window shorter than the lease", ledger, giveUpFile,
		`	shortest := t.Lease + 2*t.Skew
`,
		`	shortest := time.Duration(0)
`,
		tables, "TestInterrupt"},
	{"cancel over a hard end", ledger, giveUpFile,
		`	case r.Status == Aborted:
		return r, Mine
	case r.Status.Hard():
		return r, Ended
	case r.Status == Void:`,
		`	case r.Status == Aborted:
		return r, Mine
	case r.Status == Void:`,
		checker, "a_message_and_a_cancel"},
	{"cancel does not know its own success", ledger, giveUpFile,
		`	case r.Status == Aborted:
		return r, Mine
	case`,
		`	case`,
		checker, "a_cancel_whose_answer_is_lost"},
	{"cancel after the finish is closed", ledger, giveUpFile,
		`	case r.Finish.State != Open:
		return r, Closed
	}
	r.Status, r.Reason, r.Problem, r.EndedAt = Aborted`,
		`	}
	r.Status, r.Reason, r.Problem, r.EndedAt = Aborted`,
		tables, "TestCancelFailAndClear"},
	{"fail without the executions", ledger, giveUpFile,
		" || r.Exec.Epoch != executions",
		"",
		tables, "TestCancelFailAndClear"},
	{"fail a run that has ended", ledger, giveUpFile,
		`	case r.Status.Hard():
		return r, Ended
	case !r.Status.Live() || r.Exec`,
		`	case r.Exec`,
		tables, "TestCancelFailAndClear"},
	{"silent before give_up is closed", ledger, giveUpFile,
		"!r.Torn || r.GiveUp.State == Open:",
		"!r.Torn:",
		tables, "TestCloseSilentlyAndStopWatching"},
	{"silent before the teardown", ledger, giveUpFile,
		"r.Status != Interrupted || !r.Torn || ",
		"r.Status != Interrupted || ",
		tables, "TestCloseSilentlyAndStopWatching"},
	{"abandon before give_up is closed", ledger, giveUpFile,
		`r.Status != Interrupted || r.GiveUp.State == Open,
`,
		`r.Status != Interrupted,
`,
		tables, "TestCloseSilentlyAndStopWatching"},
	{"abandon within the window", ledger, giveUpFile,
		`		at <= r.WatchUntil.Add(t.Skew),
`,
		"",
		tables, "TestCloseSilentlyAndStopWatching"},
	{"abandon within the lease", ledger, giveUpFile,
		`		at <= r.WatchUntil.Add(t.Skew),
		r.Exec.Holder != "" && at <= r.Exec.Until.Add(t.Skew):`,
		`		at <= r.WatchUntil.Add(t.Skew):`,
		tables, "TestCloseSilentlyAndStopWatching"},
	{"abandon without skew", ledger, giveUpFile,
		"at <= r.WatchUntil.Add(t.Skew),",
		"at <= r.WatchUntil,",
		tables, "TestCloseSilentlyAndStopWatching"},
	{"never abandon", ledger, giveUpFile,
		`	r.Finish = Delivery{State: Abandoned, At: at}
	return r, Apply`,
		`	return r, NotDue`,
		checker, "two_executors_and_a_handler"},
}
