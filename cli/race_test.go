//go:build race

package cli

// underRace: the race detector makes SQLite, which is Go here, some twenty times slower.
const underRace = true
