package main

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestThePageHasTheListOfMutants keeps docs/mutants.md true.
func TestThePageHasTheListOfMutants(t *testing.T) {
	t.Chdir("..")
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	want, err := withTable(string(text))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, string(text)); d != "" {
		t.Errorf("write it with go run ./mutants -write (-want +got):\n%s", d)
	}
}

// TestEveryMutantChangesTheSourceAtOnePlace fails when a source has moved on.
func TestEveryMutantChangesTheSourceAtOnePlace(t *testing.T) {
	t.Chdir("..")
	names := map[string]bool{}
	for _, m := range mutants {
		if names[m.name] {
			t.Errorf("two mutants are named %q", m.name)
		}
		names[m.name] = true
		if _, ok := suites[m.suite]; !ok {
			t.Errorf("%s: there is no suite %q", m.name, m.suite)
		}
		source, err := os.ReadFile(m.file)
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(source), m.old); n != 1 {
			t.Errorf("%s: the text to change occurs %d times in %s", m.name, n, m.file)
		}
	}
}
