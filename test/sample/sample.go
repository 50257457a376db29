// Package sample chooses some of many cases of a test. The gate runs a sample that changes with the commit; make test-all
// runs every case.
package sample

import (
	"hash/fnv"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
)

const (
	// Variable is the environment variable with the seed, which the Makefile sets to the commit.
	Variable = "KOK_TEST_SAMPLE"
	// Every is the value of Variable that chooses every case.
	Every = "every"
)

// Of chooses n of the cases, in their order. The same seed and test choose the same cases.
func Of[T any](t testing.TB, n int, cases []T) []T {
	t.Helper()
	seed := os.Getenv(Variable)
	if seed == Every || n >= len(cases) {
		return cases
	}
	t.Logf("this is %d of %d cases, chosen by %s=%q; %s=%s runs them all", n, len(cases), Variable, seed, Variable, Every)
	var chosen []T
	for _, i := range slices.Sorted(slices.Values(source(seed, t.Name()).Perm(len(cases))[:n])) {
		chosen = append(chosen, cases[i])
	}
	return chosen
}

func source(seed, test string) *rand.Rand {
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(seed + "\n" + test))
	return rand.New(rand.NewPCG(sum.Sum64(), 0))
}
