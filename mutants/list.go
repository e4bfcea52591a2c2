package main

import "slices"

// mutant is one change of a source, and what must notice it.
type mutant struct {
	name string
	// page is the protocol whose condition or order of steps it breaks: ledger, backbone,
	// execution for what the models leave out, money for the accounts of model calls,
	// schedules or waits.
	page           string
	file, old, new string
	// suite is the cheapest that kills it; which is the test, setup or seed that does.
	suite, which string
}

const (
	ledger    = "ledger"
	backbone  = "backbone"
	execution = "execution"
	money     = "money"
	schedules = "schedules"
	waits     = "waits"
)

// quick mutants are those of the protocols, of money, schedules and waits that die without a search for a rare seed.
func (m mutant) quick() bool {
	return m.page != execution && (m.suite != simulation || m.which == "")
}

// mutants is the whole list.
var mutants = slices.Concat(leaseMutants, giveUpMutants, claimMutants, decideMutants, backboneMutants, stepMutants, moneyMutants, scheduleMutants, waitMutants)
