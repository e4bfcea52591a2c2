package protocol

import (
	"os"
	"testing"
)

// size says how much is explored: go test -short, go test, or all of it with
// ERRAND_PROTOCOLS=full in the environment.
type size int

const (
	quick size = iota
	usual
	full
)

func wanted() size {
	switch {
	case os.Getenv("ERRAND_PROTOCOLS") == "full":
		return full
	case testing.Short():
		return quick
	}
	return usual
}

// most bounds the memory that an exploration takes, to about 2 GB.
const most = 8_000_000

// explore fails the test if the model breaks a promise or is not explored to its end.
func explore[S comparable](t *testing.T, m Model[S]) {
	t.Helper()
	r := Explore(m, most)
	if r.Broken != "" || !r.Complete {
		t.Fatal(r)
	}
	t.Log(r)
}
