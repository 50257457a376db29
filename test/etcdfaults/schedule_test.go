package etcdfaults

import (
	"slices"
	"testing"
	"time"
)

// first are the first steps of a soak.
func first(count int, seed uint64, faults ...string) (steps []Step) {
	for step := range Schedule(seed, faults) {
		if steps = append(steps, step); len(steps) == count {
			break
		}
	}
	return steps
}

func TestASoakIsTheSameForTheSameSeed(t *testing.T) {
	faults := []string{"a", "b", "c", "d", "e", "f"}
	one := first(60, 1, faults...)
	if again := first(60, 1, faults...); !slices.Equal(one, again) {
		t.Errorf("%v, and then %v", one, again)
	}
	if other := first(60, 2, faults...); slices.Equal(one, other) {
		t.Errorf("another seed draws the same, %v", one)
	}
	for round := range slices.Chunk(one, len(faults)) {
		var drawn []string
		for _, step := range round {
			drawn = append(drawn, step.Fault)
			if step.Pause < 0 || step.Pause > longest {
				t.Errorf("a pause of %s", step.Pause)
			}
		}
		if slices.Sort(drawn); !slices.Equal(drawn, faults) {
			t.Errorf("%v come before others come again", drawn)
		}
	}
	if slices.Equal(one[:6], one[6:12]) {
		t.Error("the order is not drawn anew")
	}
}

// A seed that somebody was told of draws the same wherever it is given again.
func TestASoakIsTheSameEverywhere(t *testing.T) {
	want := []Step{{3 * time.Second, "b"}, {5 * time.Second, "c"}, {25 * time.Second, "a"}, {16 * time.Second, "a"}}
	if got := first(len(want), 7, "a", "b", "c"); !slices.Equal(got, want) {
		t.Errorf("seed 7 draws %v", got)
	}
}

func TestASoakWithoutFaultsIsOver(t *testing.T) {
	for step := range Schedule(1, nil) {
		t.Fatalf("it has %v", step)
	}
}
