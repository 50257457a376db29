package space

import (
	"slices"
	"time"
)

// Rewrites is when the files of an etcd cluster's members were written anew, and when old versions were dropped. A program that starts
// anew knows of nothing, and at worst a file is written once more.
type Rewrites struct {
	files     map[string][]time.Time
	compacted time.Time
}

const (
	// RewritePeriod and rewritesEach bound how often a file is written anew to find out what is in use: a full etcd whose keys
	// are deleted all the time is compacted all the time.
	RewritePeriod = time.Hour
	rewritesEach  = 2
)

// Lately reports whether what a member says of its file is true: it was written anew since old versions were dropped, or often enough.
func (r *Rewrites) Lately(member string, now time.Time) bool {
	files := slices.DeleteFunc(r.files[member], func(at time.Time) bool { return now.Sub(at) >= RewritePeriod })
	if len(files) == 0 {
		delete(r.files, member)
		return false
	}
	r.files[member] = files
	return len(files) >= rewritesEach || files[len(files)-1].After(r.compacted)
}

// Note remembers a step that was taken.
func (r *Rewrites) Note(action Action, now time.Time) {
	switch action.Kind {
	case Compact:
		r.compacted = now
	case Defragment:
		if r.files == nil {
			r.files = map[string][]time.Time{}
		}
		r.files[action.Member] = append(r.files[action.Member], now)
	}
}
