package load

import "time"

var origin = time.Now()

// Moment is a time on the monotonic clock of this process.
type Moment time.Duration

// Now is this moment.
func Now() Moment { return Moment(time.Since(origin)) }

// Forever is after all moments.
const Forever = Moment(1<<63 - 1)

// Add is the moment that much later.
func (m Moment) Add(d time.Duration) Moment { return m + Moment(d) }

// Until is the time to another moment.
func (m Moment) Until(other Moment) time.Duration { return time.Duration(other - m) }
