package main

const leaseFile = "shared/subagent/lease.go"

// leaseMutants break the rules of who may execute a run, and what an executor may write.
var leaseMutants = []mutant{
	{"acquire without the lease", ledger, leaseFile,
		"case !r.Exec.Free(at, t) || r.Exhausted(t):",
		"case r.Exhausted(t):",
		checker, "two_executors_and_a_job_that_comes_twice"},
	{"acquire a run that has ended", ledger, leaseFile,
		`	case !r.Status.Live():
		return r, Ended
	case r.Exec.Holder == token:`,
		`	case r.Exec.Holder == token:`,
		checker, "two_executors_and_a_job_that_comes_twice"},
	{"acquire a run that was given up", ledger, leaseFile,
		`	case r.Status == Interrupted:
		return r, TornDown
	case !r.Status.Live():
		return r, Ended
	case r.Exec.Holder`,
		`	case r.Status.Hard():
		return r, Ended
	case r.Exec.Holder`,
		checker, "two_executors_and_a_job_that_comes_twice"},
	{"acquire does not know its own success", ledger, leaseFile,
		`	case r.Exec.Holder == token:
		return r, Mine
	case !r.Exec.Free(at, t) ||`,
		`	case !r.Exec.Free(at, t) ||`,
		tables, "TestAcquire"},
	{"acquire keeps the epoch", ledger, leaseFile,
		"Epoch: r.Exec.Epoch + 1",
		"Epoch: max(r.Exec.Epoch, 1)",
		checker, "two_executors_and_a_job_that_comes_twice"},
	{"a run is executed for ever", ledger, leaseFile,
		"case !r.Exec.Free(at, t) || r.Exhausted(t):",
		"case !r.Exec.Free(at, t):",
		tables, "TestAcquire"},
	{"step without the status", ledger, leaseFile,
		`	case r.Status.Hard():
		return Ended
	case r.Status == Interrupted:
		return TornDown
	case r.Status != Running:
		return Stale
	}`,
		`	}`,
		checker, "two_executors_and_a_job_that_comes_twice"},
	{"step of a given-up run", ledger, leaseFile,
		`	case r.Status == Interrupted:
		return TornDown
	case r.Status != Running:
		return Stale
	}`,
		`	case r.Status == Queued || r.Status == Waiting:
		return Stale
	}`,
		checker, "two_executors_and_a_job_that_comes_twice"},
	{"step without the epoch", ledger, leaseFile,
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
`,
		checker, "two_executors_and_a_job_that_comes_twice"},
	{"a late renewal shortens the lease", ledger, leaseFile,
		"r.Exec.Until = max(r.Exec.Until, At(now).Add(t.Lease))",
		"r.Exec.Until = At(now).Add(t.Lease)",
		tables, "TestStepsAndSignalsNeedTheLease"},
	{"a step does not renew", ledger, leaseFile,
		`	r.Exec.Until = max(r.Exec.Until, At(now).Add(t.Lease))
`,
		"",
		tables, "TestStepsAndSignalsNeedTheLease"},
	{"end without the epoch", ledger, leaseFile,
		"case r.Exec.Epoch != epoch || r.Status == Queued || r.Status == Waiting:",
		"case r.Status == Queued || r.Status == Waiting:",
		checker, "two_executors_and_a_job_that_comes_twice"},
	{"end over a hard end", ledger, leaseFile,
		`	case r.Status.Hard():
		return r, Ended
	case r.Exec.Epoch != epoch || r.Status == Queued`,
		`	case r.Exec.Epoch != epoch || r.Status == Queued`,
		checker, "a_message_and_a_cancel"},
	{"end only while running", ledger, leaseFile,
		`r.Status == Queued || r.Status == Waiting:
		return r, Stale
	case r.Finish`,
		`r.Status != Running:
		return r, Stale
	case r.Finish`,
		checker, "lost_answers_and_a_handler"},
	{"end does not know its own success", ledger, leaseFile,
		`	case r.Status.Hard() && r.Status != Aborted && r.Exec.Epoch == epoch:
		return r, Mine
`,
		"",
		checker, "lost_answers_and_a_handler"},
	{"end after the finish is closed", ledger, leaseFile,
		`	case r.Finish.State != Open:
		return r, Closed
	case r.Inbox`,
		`	case r.Inbox`,
		tables, "TestEnd"},
	{"end with an unread inbox", ledger, leaseFile,
		`	case r.Inbox > max(inboxRead, r.InboxRead):
		return r, Unread
`,
		"",
		tables, "TestEnd"},
	{"a teardown is an end", ledger, leaseFile,
		`	r.Torn = true
	return r, Apply`,
		`	r.Torn, r.Status = true, Aborted
	return r, Apply`,
		checker, "lost_answers_and_a_handler"},
	{"a teardown closes finish", ledger, leaseFile,
		`	r.Torn = true
	return r, Apply`,
		`	r.Torn, r.Finish.State = true, Silent
	return r, Apply`,
		checker, "lost_answers_and_a_handler"},
	{"teardown without the epoch", ledger, leaseFile,
		"case r.Exec.Epoch != epoch || r.Status != Interrupted:",
		"case r.Status != Interrupted:",
		tables, "TestTearDownAndReceive"},
	{"a message into an ended run", ledger, leaseFile,
		`	case !r.Status.Live():
		return r, Ended
	}
	r.Inbox++`,
		`	}
	r.Inbox++`,
		tables, "TestTearDownAndReceive"},
}
