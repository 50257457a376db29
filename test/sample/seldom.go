package sample

import (
	"os"
	"testing"
)

// OneIn skips a test in most gates, and why says what it costs and what finds the same defects at every commit: of n commits, the gate
// of about one runs it. The gate's table lists what was skipped. make test-all always runs it, and so does go test by hand, where
// [Variable] is not set.
func OneIn(t testing.TB, n int, why string) {
	t.Helper()
	seed := os.Getenv(Variable)
	if seed == "" || seed == Every || source(seed, t.Name()).IntN(n) == 0 {
		return
	}
	t.Skipf("one gate in %d runs it, for %s; %s=%s runs it", n, why, Variable, Every)
}
