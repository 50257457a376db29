package noise

import (
	"errors"
	"testing"
	"time"
)

func TestReadsOfSeveralTimesAreOne(t *testing.T) {
	first := Reads{Times: []time.Duration{1}, Failed: []error{errors.New("failed")}}
	both := first.Plus(Reads{Times: []time.Duration{3, 2}})
	if len(both.Times) != 3 || len(both.Failed) != 1 || both.Quantile(0.5) != 2 || len(first.Times) != 1 {
		t.Errorf("got %+v", both)
	}
}
