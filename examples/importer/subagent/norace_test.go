//go:build !race

package importagent_test

// underRace: the race detector makes SQLite, which is Go here, some twenty times slower.
const underRace = false
