package machine

import (
	"strings"
	"testing"
)

func TestOnlyWhatHasRoomInMemoryIsMeasured(t *testing.T) {
	for name, test := range map[string]struct {
		available uint64
		want      int
	}{
		"a large machine has room for all":        {64 * Gibibyte, 10},
		"a small one for some":                    {6 * Gibibyte, 4},
		"the last must fit wholly":                {6*Gibibyte - 1, 3},
		"one fits beside what was there before":   {3 * Gibibyte, 1},
		"where not even one fits that is told":    {3*Gibibyte - 1, 0},
		"nothing is taken from what runs already": {0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Fit(10, Gibibyte, Gibibyte, test.available)
			if got != test.want || (err == nil) != (test.want > 0) {
				t.Errorf("%d, %v; want %d", got, err, test.want)
			}
			if err != nil && !strings.Contains(err.Error(), "3.0 GiB are needed") {
				t.Errorf("the error says %v", err)
			}
		})
	}
	if available, err := AvailableMemory(); err != nil || available == 0 {
		t.Errorf("this machine has %d bytes, %v", available, err)
	}
}
