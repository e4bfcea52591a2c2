package main

const backboneFile = "shared/subagent/backbone.go"

// backboneMutants break the rules of what keeps ticks coming.
var backboneMutants = []mutant{
	{"reserve without the epoch", backbone, backboneFile,
		`	case a.Sent != 0 && b.Epoch != a.Sent-1:
		return b, Stale
`,
		"",
		checker, "a_lost_tick"},
	{"reserve on a disarmed backbone", backbone, backboneFile,
		"case a.Sent == 0 && (!b.Armed || b.Due > a.By):",
		"case a.Sent == 0 && b.Due > a.By:",
		checker, "a_lost_tick"},
	{"reserve beyond the first rung", backbone, backboneFile,
		"case a.Sent == 0 && (!b.Armed || b.Due > a.By):",
		"case a.Sent == 0 && !b.Armed:",
		tables, "TestReserve"},
	{"reserve over the cap", backbone, backboneFile,
		"case b.Live() >= limit && !replaced && !a.Soft, size >= MaxOpen:",
		"case size >= MaxOpen:",
		checker, "cap_1,_runs_given_up"},
	{"reserve over the size of the item", backbone, backboneFile,
		"case b.Live() >= limit && !replaced && !a.Soft, size >= MaxOpen:",
		"case b.Live() >= limit && !replaced:",
		tables, "TestReserve"},
	{"reserve does not know its own success", backbone, backboneFile,
		"have.Redrives >= a.Redrives && (voided == 0 || have.Generation != voided) {",
		"have.Redrives >= a.Redrives && voided != 0 && have.Generation != voided {",
		tables, "TestThePlaceOfARedriveOutlivesWhatWasSeenBefore"},
	{"reserve keeps a voided reservation", backbone, backboneFile,
		"if have, ok := b.Open[id]; ok && have.Redrives >= a.Redrives && (voided == 0 || have.Generation != voided) {",
		"if have, ok := b.Open[id]; ok && have.Redrives >= a.Redrives {",
		tables, "TestReserve"},
	{"reserve keeps the epoch", backbone, backboneFile,
		"b.Armed, b.Epoch, b.Rung, b.Due = true, a.Sent, 0, a.Due",
		"b.Armed, b.Rung, b.Due = true, 0, a.Due",
		tables, "TestReserve"},
	{"given-up runs count against the cap", backbone, backboneFile,
		`		if !r.Soft {
			n++
		}`,
		`		if r.At >= 0 {
			n++
		}`,
		tables, "TestTicksMoveTheBackboneOn"},
	{"prune a newer reservation", backbone, backboneFile,
		"if have, ok := next[id]; ok && have.Generation == generation {",
		"if _, ok := next[id]; ok && generation > 0 {",
		checker, "the_same_run_twice"},
	{"soften a newer reservation", backbone, backboneFile,
		"have.Generation == generation && !have.Soft {",
		"!have.Soft && generation > 0 {",
		tables, "TestTicksMoveTheBackboneOn"},
	{"a tick is stale if its number is not the epoch", backbone, backboneFile,
		"return k >= b.Epoch }",
		"return k == b.Epoch }",
		checker, "a_lost_tick"},
	{"no fence for a disarmed backbone", backbone, backboneFile,
		`	b.Epoch = k + 1
	return b, Apply
}

// Rearm`,
		`	return b, Mine
}

// Rearm`,
		checker, "a_lost_tick"},
	{"fence without the version", backbone, backboneFile,
		"if b.Version != read.Version || b.Armed {",
		"if b.Armed {",
		tables, "TestTicksMoveTheBackboneOn"},
	{"fence an armed backbone", backbone, backboneFile,
		"if b.Version != read.Version || b.Armed {",
		"if b.Version != read.Version {",
		tables, "TestTicksMoveTheBackboneOn"},
	{"re-arm without the version", backbone, backboneFile,
		`	if b.Version != read.Version {
		return b, Stale
	}
	b, _ = b.Prune(gone, soft)`,
		`	b, _ = b.Prune(gone, soft)`,
		tables, "TestTicksMoveTheBackboneOn"},
	{"re-arm on the epoch instead of the version", backbone, backboneFile,
		`	if b.Version != read.Version {
		return b, Stale
	}
	b, _ = b.Prune(gone, soft)`,
		`	if b.Epoch != read.Epoch {
		return b, Stale
	}
	b, _ = b.Prune(gone, soft)`,
		tables, "TestTicksMoveTheBackboneOn"},
	{"re-arm keeps the epoch", backbone, backboneFile,
		"b.Epoch, b.Rung, b.Due = k+1, rung, due",
		"b.Rung, b.Due = rung, due",
		checker, "a_lost_tick"},
	{"disarm without the version", backbone, backboneFile,
		`	if b.Version != read.Version {
		return b, Stale
	}
	b, _ = b.Prune(gone, nil)`,
		`	b, _ = b.Prune(gone, nil)`,
		tables, "TestTicksMoveTheBackboneOn"},
	{"disarm over a newer reservation", backbone, backboneFile,
		`	if b.Version != read.Version {
		return b, Stale
	}
	b, _ = b.Prune(gone, nil)
	if len(b.Open) > 0 {
		return b, Stale
	}
`,
		`	b, _ = b.Prune(gone, nil)
`,
		checker, "a_lost_tick"},
	{"disarm keeps the epoch", backbone, backboneFile,
		"b.Armed, b.Epoch, b.Rung, b.Due = false, k+1, 0, 0",
		"b.Armed, b.Rung, b.Due = false, 0, 0",
		checker, "a_lost_tick"},
	{"settle disarms over another reservation", backbone, backboneFile,
		"if len(b.Open) == 0 && b.Armed {",
		"if b.Armed {",
		checker, "cap_1,_runs_given_up"},
	{"settle keeps the epoch", backbone, backboneFile,
		"b.Armed, b.Epoch, b.Rung, b.Due = false, b.Epoch+1, 0, 0",
		"b.Armed, b.Rung, b.Due = false, 0, 0",
		tables, "TestTicksMoveTheBackboneOn"},
	{"settle does not disarm", backbone, backboneFile,
		"if len(b.Open) == 0 && b.Armed {",
		"if false {",
		tables, "TestTicksMoveTheBackboneOn"},
	{"the row ignores its tombstone", backbone, backboneFile,
		"r.Status == \"\" || r.Status == Void && r.Generation < generation",
		"r.Status == \"\" || r.Status == Void",
		checker, "a_lost_tick"},
	{"a tombstone is final", backbone, backboneFile,
		"r.Status == \"\" || r.Status == Void && r.Generation < generation",
		"r.Status == \"\"",
		checker, "a_lost_tick"},
	{"a tombstone over a real run", backbone, backboneFile,
		`	if !r.replaceable(generation) {
		return r, Stale
	}
	return Run{Owner`,
		`	return Run{Owner`,
		tables, "TestTombstonesAndRows"},
	{"a row over a real run", backbone, backboneFile,
		`	case r.replaceable(fresh.Generation):`,
		`	case r.Status != Void || r.Generation < fresh.Generation:`,
		tables, "TestTombstonesAndRows"},
}
