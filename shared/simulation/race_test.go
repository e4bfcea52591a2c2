//go:build race

package simulation

// raceSlowdown is how many times fewer seeds a run with the race detector can afford.
const raceSlowdown = 6
