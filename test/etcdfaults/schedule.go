package etcdfaults

import (
	"iter"
	"math/rand/v2"
	"time"
)

// Step is one fault of a soak.
type Step struct {
	// Pause is how long nothing is done before it.
	Pause time.Duration
	Fault string
}

// longest is the longest pause of a soak.
const longest = 30 * time.Second

// Schedule draws the steps of a soak, without an end, from a seed: the same each time. All faults come, in an order that is drawn
// anew, before any of them comes again.
func Schedule(seed uint64, faults []string) iter.Seq[Step] {
	return func(yield func(Step) bool) {
		drawn := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // It has to be the same each time.
		for len(faults) > 0 {
			for _, i := range drawn.Perm(len(faults)) {
				if !yield(Step{Pause: time.Duration(drawn.Int64N(int64(longest))).Truncate(time.Second), Fault: faults[i]}) {
					return
				}
			}
		}
	}
}
