package sample

import (
	"slices"
	"strconv"
	"testing"
)

func TestOf(t *testing.T) {
	cases := []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}

	t.Run("every case is chosen when that is asked for", func(t *testing.T) {
		t.Setenv(Variable, Every)
		if got := Of(t, 3, cases); !slices.Equal(got, cases) {
			t.Error(got)
		}
	})
	t.Run("a few cases are all chosen", func(t *testing.T) {
		if got := Of(t, 10, cases); !slices.Equal(got, cases) {
			t.Error(got)
		}
	})
	t.Run("a seed always chooses the same, in their order", func(t *testing.T) {
		t.Setenv(Variable, "abc")
		first := Of(t, 4, cases)
		if len(first) != 4 || !slices.IsSorted(first) || len(slices.Compact(slices.Clone(first))) != 4 {
			t.Error(first)
		}
		if again := Of(t, 4, cases); !slices.Equal(first, again) {
			t.Errorf("%v, then %v", first, again)
		}
	})
	t.Run("over many seeds every case is chosen", func(t *testing.T) {
		seen := map[int]bool{}
		for seed := range 100 {
			t.Setenv(Variable, strconv.Itoa(seed))
			for _, c := range Of(t, 2, cases) {
				seen[c] = true
			}
		}
		if len(seen) != len(cases) {
			t.Errorf("only %v were chosen", seen)
		}
	})
}

func TestOfManyCommitsAboutOneRunsALongTest(t *testing.T) {
	for _, seed := range []string{"", Every} { // By hand, and where every case is asked for.
		if !runs(seed, "TestLong", 4) {
			t.Errorf("it is skipped with %q", seed)
		}
	}
	count := 0
	for seed := range 100 {
		if runs(strconv.Itoa(seed), "TestLong", 4) {
			count++
		}
	}
	if count < 10 || count > 45 {
		t.Errorf("%d of 100 run it", count)
	}
}
