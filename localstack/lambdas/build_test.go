package lambdas

import (
	"crypto/sha256"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestABuildIsTheSameBitForBit builds each function for AWS here and from a copy of the
// module elsewhere: one that did not change must not be deployed again.
func TestABuildIsTheSameBitForBit(t *testing.T) {
	if testing.Short() {
		t.Skip("NOT TESTED in -short: it builds six programs")
	}
	elsewhere := copyModule(t)
	for _, function := range functions {
		here := built(t, ".", function)
		t.Logf("%-9s linux/arm64 %.1f MB, sha256 %x", function, float64(len(here))/(1<<20), sha256.Sum256(here))
		if there := built(t, elsewhere, function); sha256.Sum256(there) != sha256.Sum256(here) {
			t.Errorf("%s: two builds differ", function)
		}
	}
}

func built(t *testing.T, dir, function string) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "bootstrap")
	if err := build(dir, function, path, "linux", "arm64"); err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return program
}

// copyModule copies what the functions are built of.
func copyModule(t *testing.T) string {
	t.Helper()
	output, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		t.Fatal(err)
	}
	root, copied := filepath.Dir(strings.TrimSpace(string(output))), t.TempDir()
	for _, folder := range []string{"functions", "shared"} {
		if err := os.CopyFS(filepath.Join(copied, folder), os.DirFS(filepath.Join(root, folder))); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{"go.mod", "go.sum"} {
		data, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(copied, file), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return copied
}
