package registers

import (
	"math"
	"time"
)

// Operation is a write or a read of a register by a client.
type Operation struct {
	// Register and Client are numbers.
	Register, Client int
	Write            bool
	// Value is what was written, or what a read brought. The value that a register begins with is empty.
	Value string
	// Called and Returned are moments since the history began; the latter says nothing of an open write.
	Called, Returned time.Duration
	// Open is true for a write that failed: it may have happened, and may happen later.
	Open bool
}

// forever is when an open write returns.
const forever = time.Duration(math.MaxInt64)

// closed is the history of one register without what makes its judgement take long, and with the same judgement: open writes that
// nobody read are left out, as they may have happened never. One that was read happened before the first read of it returned.
func closed(history []Operation) []Operation {
	seen := map[string]time.Duration{}
	for _, o := range history {
		if first, there := seen[o.Value]; !o.Write && (!there || o.Returned < first) {
			seen[o.Value] = o.Returned
		}
	}
	var kept []Operation
	for _, o := range history {
		if o.Open {
			first, there := seen[o.Value]
			if !there {
				continue
			}
			// A read that returned before the call stays what it is: one of a value that nobody has written.
			if o.Returned = forever; first > o.Called {
				o.Returned = first
			}
		}
		kept = append(kept, o)
	}
	return kept
}
