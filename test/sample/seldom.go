package sample

import (
	"os"
	"testing"
)

// OneIn skips a long test in most gates: of n commits, the gate of about one runs it. make test-all always runs it, and so does
// go test by hand, where [Variable] is not set.
func OneIn(t testing.TB, n int) {
	t.Helper()
	seed := os.Getenv(Variable)
	if seed == "" || seed == Every || source(seed, t.Name()).IntN(n) == 0 {
		return
	}
	t.Skipf("the gate of one commit in %d runs this test, and that of %s=%q does not; %s=%s runs it", n, Variable, seed, Variable, Every)
}
