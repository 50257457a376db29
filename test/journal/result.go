package journal

import (
	"fmt"
	"slices"
	"time"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/load"
)

// Result is what came of the requests until now.
type Result struct {
	// Due is how many writes the rate asks for in the time until now, or until the journal was stopped. Acknowledged is
	// how many succeeded, Read how many of those were read back.
	Due, Acknowledged, Read int
	// Failed is what came of each of the other writes and reads.
	Failed []string
	// Raw counts what came over the wire and was no answer, what client-go tried again included.
	Raw load.Raw
	// ServerErrors are the first of its answers 5xx.
	ServerErrors []string
	// Slowest is how long the slowest request took that was answered.
	Slowest time.Duration
	// Still is the longest time in which no write was acknowledged. At a pace of many writes a second it is how long writes
	// stood still.
	Still time.Duration
	// WatchEnds is how often the watch ended and was opened again, WatchLists how often keys were listed for that.
	WatchEnds, WatchLists int
}

// String sums it up.
func (r *Result) String() string {
	text := fmt.Sprintf("%d of %d writes acknowledged, %d read back, %d requests failed, slowest %s, none acknowledged for %s, raw errors: %d answers 429, %d answers 5xx, %d broken connections; the watch was opened again %d times, after %d lists",
		r.Acknowledged, r.Due, r.Read, len(r.Failed), r.Slowest.Round(time.Millisecond), r.Still.Round(time.Millisecond), r.Raw.TooMany, r.Raw.ServerErrors, r.Raw.Broken, r.WatchEnds, r.WatchLists)
	for _, told := range r.ServerErrors {
		text += "\n  " + told
	}
	return text
}

// Result is what came of the requests until now.
func (j *Journal) Result() *Result {
	ends, lists := j.watch.endings()
	j.lock.Lock()
	defer j.lock.Unlock()
	return &Result{
		Due: j.due(), Acknowledged: len(j.acknowledged), Read: j.reads, Failed: slices.Clone(j.failed),
		Raw: j.raw, ServerErrors: slices.Clone(j.serverErrors), Slowest: j.slowest, Still: j.stillUntil(j.end()), WatchEnds: ends, WatchLists: lists,
	}
}

func (j *Journal) due() int { return int(j.end().Sub(j.began).Seconds() * float64(j.options.Rate)) }

// end is now, or when it was stopped.
func (j *Journal) end() time.Time {
	if j.ended.IsZero() {
		return time.Now()
	}
	return j.ended
}

// stillUntil is the longest time until a moment in which no write was acknowledged; its caller has the lock.
func (j *Journal) stillUntil(moment time.Time) time.Duration {
	return max(j.still, moment.Sub(j.advanced))
}
