package machine

import (
	"math"
	"slices"
	"testing"
)

func TestAMeasurementBeginsWhenTheMachineIsIdleOrStaysAsItIs(t *testing.T) {
	seconds := func(n int, share float64) []float64 { return slices.Repeat([]float64{share}, n) }
	falling := make([]float64, 60)
	for i := range falling {
		falling[i] = 1 - float64(i)/100
	}
	for name, test := range map[string]struct {
		shares  []float64
		settled bool
		rest    float64
	}{
		"nothing is known yet":                        {nil, false, 0},
		"an idle second is enough":                    {[]float64{0.9, 0.5, 0.1}, true, 0.1},
		"a busy second is not":                        {[]float64{0.1, 0.5}, false, 0.3},
		"what is steady is not known after one span":  {seconds(span, 0.4), false, 0.4},
		"tenants that run beside it are steady":       {seconds(2*span, 0.4), true, 0.4},
		"also when single seconds differ":             {slices.Repeat([]float64{0.3, 0.5}, span), true, 0.4},
		"what ended just before does not count":       {slices.Concat(seconds(30, 1), seconds(2*span, 0.3)), true, 0.3},
		"what winds down is waited for":               {falling, false, 0.455},
		"what begins is waited for":                   {slices.Concat(seconds(span, 0.3), seconds(span, 0.9)), false, 0.9},
		"an idle second ends the wait for the steady": {slices.Concat(seconds(span, 0.3), []float64{0.05}), true, 0.05},
	} {
		t.Run(name, func(t *testing.T) {
			if got := settled(test.shares, 0.15); got != test.settled {
				t.Errorf("settled is %t", got)
			}
			if got := rest(test.shares, 0.15); math.Abs(got-test.rest) > 1e-9 {
				t.Errorf("%.3f of the processors are busy, want %.3f", got, test.rest)
			}
		})
	}
}
