package protocol

import (
	"os"
	"testing"
)

// size says how much is explored. A plain go test explores the quick size; the larger
// ones take gigabytes and minutes, and are asked for with ERRAND_PROTOCOLS=usual or full
// in the environment.
type size int

const (
	quick size = iota
	usual
	full
)

func wanted() size {
	switch os.Getenv("ERRAND_PROTOCOLS") {
	case "full":
		return full
	case "usual":
		return usual
	}
	return quick
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
