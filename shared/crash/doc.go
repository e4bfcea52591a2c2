// Package crash proves from the outside that `errand serve` may be killed at any
// moment: it starts the real binary, loads it over HTTP, kills it with SIGKILL again
// and again, and checks what came of everything that was acknowledged. Its tests know
// nothing of the code but the API.
package crash
