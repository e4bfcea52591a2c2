package main

const (
	accountFile = "shared/subagent/account.go"
	spendFile   = "shared/executor/spend.go"
)

// moneyMutants break the rules of accounts, and the order of their writes.
var moneyMutants = []mutant{
	{"a call is reserved whatever the limit", money, accountFile,
		`	if !limit.Plus(a.Raised).Covers(next`,
		`	if false && !limit.Plus(a.Raised).Covers(next`,
		tables, "TestACallIsReservedOnlyWithinTheLimit"},
	{"what is reserved does not count against the limit", money, accountFile,
		`Covers(next.Spent.Plus(next.Reserved()).Plus(estimate))`,
		`Covers(next.Spent.Plus(estimate))`,
		tables, "TestACallIsReservedOnlyWithinTheLimit"},
	{"a limit of money is none", money, accountFile,
		` && (a.Cost == 0 || s.Cost <= a.Cost)`,
		``,
		tables, "TestACallIsReservedOnlyWithinTheLimit"},
	{"a call that a dead execution has left is forgotten", money, accountFile,
		`		next = a.book(key, left.Estimate.Doubted())`,
		`		next = a.without(key)`,
		tables, "TestAReservationOfADeadExecutionIsBookedInDoubt"},
	{"a call in doubt counts as certain", money, accountFile,
		`	s.Uncertain = s.Calls
	return s`,
		`	return s`,
		cases, "TestAProcessThatDiesInACallLeavesItInDoubtAndTheNextMakesIt"},
	{"a tree books a call that is not reserved", money, accountFile,
		`	if _, ok := a.Open[key]; !ok {
		return a, Mine
	}
	return a.book(key, actual), Apply`,
		`	return a.book(key, actual), Apply`,
		tables, "TestASettledCallCostsWhatItCostAndNotTwice"},
	{"a run books a call that it has settled", money, accountFile,
		`	if a.Settled.Has(key) {
		return a, Mine
	}
`,
		``,
		tables, "TestASettledCallCostsWhatItCostAndNotTwice"},
	{"an execution gives back what another has reserved", money, accountFile,
		`; !ok || left.By != by {
		return a, Mine
	}
	return a.book(key, lost), Apply`,
		`; !ok || left.By == "" {
		return a, Mine
	}
	return a.book(key, lost), Apply`,
		tables, "TestAReservationOfADeadExecutionIsBookedInDoubt"},
	{"an allowed question raises the limit each time", money, accountFile,
		`	if a.Asked.Has(question) {
		return a, Mine
	}
`,
		``,
		tables, "TestAnAllowedQuestionRaisesTheLimitOnce"},
	{"a refused call stays reserved where it was not refused", money, spendFile,
		`	if err := p.Release(ctx, key); err != nil {
		return err
	}
	of :=`,
		`	of :=`,
		accounts, "TestARefusedCallLeavesNothingReserved"},
	{"a call whose answer is kept is not settled by the next execution", money, spendFile,
		`	if err != nil || !accounts[0].Settled.Has(c.Key) {
		return false, err
	}`,
		`	if err != nil || !accounts[0].Settled.Has(c.Key) {
		return true, err
	}`,
		accounts, "TestMoneyIsCountedOnceWhereverAnExecutionDies"},
	{"an execution trusts that the payers have settled what its run has", money, spendFile,
		`		if _, open := accounts[i+1].Open[p.key(tree, c.Key)]; open {
			return false, nil
		}`,
		`		if _, open := accounts[i+1].Open[p.key(tree, c.Key)]; open {
			continue
		}`,
		accounts, "TestMoneyIsCountedOnceWhereverAnExecutionDies"},
	{"a spend is booked by its payers without a reservation first", money, spendFile,
		`	if !accounts[0].Settled.Has(c.Key) {
		for`,
		`	if true {
		for`,
		accounts, "TestASpendThatWasNotReservedIsBookedOnceAndToldWhenItPassesALimit"},
	{"what a cancelled call cost is not told apart", money, spendFile,
		`	case errors.Is(cause, agent.ErrCancelled):
		return x.purse.behindFence(ctx, row.EndedAt)
`,
		``,
		cases, "TestWhatACallCostsThatACancelCutsOffIsBooked"},
	{"a child is paid for by nobody above it", money, "shared/dispatch/dispatch.go",
		`		payers = slices.Clone(s.req.Parent.Payers)`,
		`		payers = slices.Clone(s.req.Parent.Payers)[:0]`,
		cases, "TestATreeSpendsNoMoreThanItsLimit"},
	{"a call that failed in the background stays reserved", money, spendFile,
		`	if !p.made(key) {
		return p.unmake(`,
		`	if !p.made(key) && p.by == "" {
		return p.unmake(`,
		accounts, "TestACallInTheBackgroundThatFailsIsBookedByWhoeverHearsOfIt"},
	{"a clear leaves the accounts of those who paid", money, "shared/executor/run.go",
		`	if err := x.purse.erase(ctx); err != nil {
		return true, err
	}
`,
		``,
		cases, "TestAClearLeavesNoAccountAlsoOfACallUnderWay"},
}
