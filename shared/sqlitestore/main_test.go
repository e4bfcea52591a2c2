package sqlitestore_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(victimDir); dir != "" {
		beKilled(dir, os.Getenv(victimTask))
		return
	}
	goleak.VerifyTestMain(m)
}
