package attack

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

// waits are some that took so many milliseconds, one after the other.
func waits(took ...int) Waits {
	var all Waits
	at := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, ms := range took {
		all = append(all, Wait{at, time.Duration(ms) * time.Millisecond})
		at = at.Add(time.Second)
	}
	return all
}

// times repeats a wait.
func times(count, ms int) []int {
	all := make([]int, count)
	for i := range all {
		all[i] = ms
	}
	return all
}

func together(parts ...[]int) Waits {
	var all []int
	for _, part := range parts {
		all = append(all, part...)
	}
	return waits(all...)
}

func TestAQuantileOfWaitsIsOfWhatTheyTook(t *testing.T) {
	all := waits(5, 1, 3)
	if got := all.Quantile(1); got != 5*time.Millisecond || all.Median() != 3*time.Millisecond || all[0].Took != got {
		t.Errorf("the longest is %s, the median %s, of %v", got, all.Median(), all)
	}
}

func TestASampleThatFailedIsNoWait(t *testing.T) {
	n := &Neighbours{}
	n.Add("a", Wait{Took: time.Second})
	n.Miss("a", errors.New("there is no such tenant"))
	if len(n.Of("a")) != 1 || len(n.All()) != 1 {
		t.Errorf("its waits are %v", n.All())
	}
	if got := n.Unsampled(); !slices.Equal(got, []string{"a: there is no such tenant"}) {
		t.Errorf("unsampled are %q", got)
	}
}

func TestAShortSpikeIsInTheWorstWindow(t *testing.T) {
	const window = 5
	for name, test := range map[string]struct {
		of   Waits
		want int
	}{
		"in the middle":             {together(times(100, 1), times(5, 50), times(100, 1)), 50},
		"in the beginning":          {together(times(3, 50), times(100, 1)), 50},
		"in the end":                {together(times(100, 1), times(3, 50)), 50},
		"of half a window":          {together(times(100, 1), times(3, 50), times(100, 1)), 50},
		"of less is no spike":       {together(times(100, 1), times(2, 50), times(100, 1)), 1},
		"two, of which one is more": {together(times(10, 1), times(5, 40), times(10, 1), times(5, 60), times(10, 1)), 60},
		"of fewer than a window":    {waits(7, 8, 9), 8},
	} {
		t.Run(name, func(t *testing.T) {
			if got := test.of.Worst(window).Median(); got != time.Duration(test.want)*time.Millisecond {
				t.Errorf("got %s, want %d ms", got, test.want)
			}
			if median := test.of.Median(); len(test.of) > 100 && median != time.Millisecond {
				t.Errorf("the median of everything is %s, and hides nothing", median)
			}
		})
	}
}

func TestOneNeighbourThatWaitsIsNotHiddenByOthers(t *testing.T) {
	before, during := &Neighbours{}, &Neighbours{}
	add := func(to *Neighbours, name string, all Waits) {
		for _, wait := range all {
			to.Add(name, wait)
		}
	}
	for _, name := range []string{"a", "b", "c"} {
		add(before, name, together(times(40, 10)))
	}
	add(during, "a", together(times(100, 10)))
	add(during, "b", together(times(9, 40), times(100, 10)))
	add(during, "c", together(times(100, 20)))
	s, err := Slower(before, during, 9, "a", "b", "c")
	if err != nil || s.Name != "b" || s.Window != 4 || s.Median != 1 || s.P99 != 4 {
		t.Errorf("%+v, %v", s, err)
	}
	if want := "b waited longest from 00:00:00 to 00:00:08: 9 waits, median 40ms, p99 40ms, longest 40ms"; s.String() != want {
		t.Errorf("it says %q, want %q", s, want)
	}
	if _, err := Slower(before, during, 41, "a"); err == nil || !strings.Contains(err.Error(), "a has 40 waits before and 100 during") {
		t.Errorf("with fewer waits than a window: %v", err)
	}
	if _, err := Slower(before, during, 9, "a", "nobody"); err == nil {
		t.Error("a neighbour of whom nothing is known is judged")
	}
}
