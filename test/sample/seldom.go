package sample

import (
	"os"
	"testing"
)

// OneIn skips a test in most gates: of n commits, the gate of about one runs it. The gate's table lists each test that was skipped, and
// why: what it costs, and what else finds the same defects at every commit, if anything does. make test-all always runs it, and so does
// go test by hand, where [Variable] is not set.
func OneIn(t testing.TB, n int, why string) {
	t.Helper()
	if !runs(os.Getenv(Variable), t.Name(), n) {
		t.Skipf("one gate in %d runs it, for %s; %s=%s runs it", n, why, Variable, Every)
	}
}

// runs reports whether a test is run with a seed.
func runs(seed, test string, n int) bool {
	return seed == "" || seed == Every || source(seed, test).IntN(n) == 0
}
