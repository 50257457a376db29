package space

import (
	"slices"
	"time"
)

// Rewrites is when the files of an etcd cluster's members were written anew. A program that starts anew knows of nothing, and at worst a
// file is written once more.
type Rewrites struct {
	files map[string][]rewrite
}

// rewrite is when a file was written anew, and State.CompactedAt of that time.
type rewrite struct {
	at          time.Time
	compactedAt int64
}

const (
	// RewritePeriod and rewritesEach bound how often a file is written anew to find out what is in use: a full etcd whose keys
	// are deleted all the time is compacted all the time.
	RewritePeriod = time.Hour
	rewritesEach  = 2
)

// Lately reports whether what a member says of its file is true: it was written anew since old versions were dropped, or often enough.
// compactedAt is State.CompactedAt.
func (r *Rewrites) Lately(member string, compactedAt int64, now time.Time) bool {
	files := slices.DeleteFunc(r.files[member], func(file rewrite) bool { return now.Sub(file.at) >= RewritePeriod })
	if len(files) == 0 {
		delete(r.files, member)
		return false
	}
	r.files[member] = files
	return len(files) >= rewritesEach || compactedAt > 0 && files[len(files)-1].compactedAt == compactedAt
}

// Note remembers a step that was taken, if it wrote a file anew. compactedAt is State.CompactedAt of the state that it was decided by.
func (r *Rewrites) Note(action Action, compactedAt int64, now time.Time) {
	if action.Kind != Defragment {
		return
	}
	if r.files == nil {
		r.files = map[string][]rewrite{}
	}
	r.files[action.Member] = append(r.files[action.Member], rewrite{at: now, compactedAt: compactedAt})
}
