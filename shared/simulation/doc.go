// Package simulation runs whole conversations over the real use cases on a platform
// in memory that fails as a seed says: calls that are lost before or after they took
// place, messages that come twice or late, processes that die, stall or are cut off at
// any call, clocks that are wrong, users who cancel, repeat and clear.
//
// The tests are the simulation: one goroutine goes on at a time, chosen by the seed,
// in virtual time, so a seed replays exactly. After each step the rows and what the
// agents have seen are held against the invariants of the design (checker_test.go).
// Begin with world_test.go (the scheduler), process_test.go (what can go wrong) and
// workload_test.go (what users do). Store is the platform, and usable on its own.
package simulation
