//go:build !race

package simulation

const raceSlowdown = 1
