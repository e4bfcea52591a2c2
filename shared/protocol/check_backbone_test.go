package protocol

import "testing"

var conversations = []conversation{
	{size: quick, name: "one dispatch, tried again, a duplicate", ids: []int{0}, limit: 2, tickers: 1, crashes: 1, retries: 1, dups: 1},
	{size: quick, name: "cap 1, runs given up", ids: []int{0, 1}, limit: 1, tickers: 1, soften: true},
	{size: quick, name: "cap 1, a crash", ids: []int{0, 1}, limit: 1, tickers: 1, crashes: 1, near: true},
	{size: quick, name: "cap 2", ids: []int{0, 1}, limit: 2, tickers: 1, near: true},
	{size: quick, name: "the same run twice", ids: []int{0, 0}, limit: 1, tickers: 1},
	{size: quick, name: "the same run twice, a crash", ids: []int{0, 0}, limit: 1, tickers: 1, crashes: 1, near: true},
	{size: quick, name: "a lost tick", ids: []int{0}, limit: 1, tickers: 1, crashes: 1, losses: 1, repairs: 1},
	{size: quick, name: "a lost answer", ids: []int{0}, limit: 1, tickers: 1, crashes: 1, lost: 1, dups: 1},

	{size: usual, name: "cap 1, tried again", ids: []int{0, 1}, limit: 1, tickers: 1, retries: 1, near: true},
	{size: usual, name: "cap 2, slow ticks", ids: []int{0, 1}, limit: 2, tickers: 1},
	{size: usual, name: "two tick handlers and a duplicate", ids: []int{0}, limit: 2, tickers: 2, dups: 1},
	{size: usual, name: "two tick handlers and a crash", ids: []int{0}, limit: 2, tickers: 2, crashes: 1, near: true},

	{size: full, name: "two tick handlers, a duplicate and a crash", ids: []int{0}, limit: 2, tickers: 2, dups: 1, crashes: 1},
	{size: full, name: "cap 2, a crash", ids: []int{0, 1}, limit: 2, tickers: 1, crashes: 1},
	{size: full, name: "cap 1, a crash, tried again", ids: []int{0, 1}, limit: 1, tickers: 1, crashes: 1, retries: 1},
	{size: full, name: "cap 1, a lost answer and a duplicate", ids: []int{0, 1}, limit: 1, tickers: 1, lost: 1, dups: 1, near: true},
	{size: full, name: "the same run twice, a crash, tried again", ids: []int{0, 0}, limit: 1, tickers: 1, crashes: 1, retries: 1},
	{size: full, name: "losses and repairs", ids: []int{0, 1}, limit: 1, tickers: 1, losses: 2, repairs: 2, near: true},
	{size: full, name: "two crashes and two duplicates", ids: []int{0}, limit: 1, tickers: 1, crashes: 2, dups: 2, retries: 2},
}

func TestTheBackboneOfAConversationKeepsItsPromises(t *testing.T) {
	t.Parallel()
	for _, p := range conversations {
		if p.size > wanted() {
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			explore(t, p.model())
		})
	}
}
