package noise

import (
	"errors"
	"testing"
	"time"
)

func TestAQuantileIsATimeThatWasMeasured(t *testing.T) {
	hundred := make([]time.Duration, 100)
	for i := range hundred {
		hundred[i] = time.Duration(100-i) * time.Millisecond
	}
	for name, test := range map[string]struct {
		times []time.Duration
		part  float64
		want  time.Duration
	}{
		"of nothing":             {nil, 0.99, 0},
		"of one":                 {[]time.Duration{time.Second}, 0.99, time.Second},
		"all but one in hundred": {hundred, 0.99, 99 * time.Millisecond},
		"the slowest":            {hundred, 1, 100 * time.Millisecond},
		"the half":               {hundred, 0.5, 50 * time.Millisecond},
		"the quickest":           {hundred, 0, time.Millisecond},
		"of few, the slowest":    {hundred[:10], 0.99, 100 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			if got := (Reads{Times: test.times}).Quantile(test.part); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

func TestReadsOfSeveralTimesAreOne(t *testing.T) {
	first := Reads{Times: []time.Duration{1}, Failed: []error{errors.New("failed")}}
	both := first.Plus(Reads{Times: []time.Duration{3, 2}})
	if len(both.Times) != 3 || len(both.Failed) != 1 || both.Quantile(0.5) != 2 || len(first.Times) != 1 {
		t.Errorf("got %+v", both)
	}
}
