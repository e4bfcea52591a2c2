package lambdas

import (
	"crypto/sha256"
	"os"
	"path/filepath"
	"testing"
)

// TestABuildIsTheSameBitForBit builds each function for AWS twice: one that did not
// change must not be deployed again.
func TestABuildIsTheSameBitForBit(t *testing.T) {
	if testing.Short() {
		t.Skip("NOT TESTED in -short: it builds six programs")
	}
	for _, function := range functions {
		var sums [2][sha256.Size]byte
		for i := range sums {
			path := filepath.Join(t.TempDir(), "bootstrap")
			if err := build(function, path, "linux", "arm64"); err != nil {
				t.Fatal(err)
			}
			program, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			sums[i] = sha256.Sum256(program)
			if i == 0 {
				t.Logf("%-9s linux/arm64 %.1f MB, sha256 %x", function, float64(len(program))/(1<<20), sums[i][:8])
			}
		}
		if sums[0] != sums[1] {
			t.Errorf("%s: two builds differ", function)
		}
	}
}
