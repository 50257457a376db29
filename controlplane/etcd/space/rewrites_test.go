package space

import (
	"testing"
	"time"
)

// What was written anew before old versions were dropped says nothing of what they took. A full etcd has another revision when keys are deleted.
func TestAFileIsWrittenAnewAfterOldVersionsWereDropped(t *testing.T) {
	var r Rewrites
	now := time.Now()
	for i, step := range []struct {
		did         Action
		compactedAt int64
		want        bool
	}{
		{Action{Kind: Compact}, 7, false},
		{Action{Kind: Defragment, Member: "a"}, 7, true},
		{Action{Kind: Compact}, 0, false},
		{Action{Kind: Compact}, 8, false},
		{Action{Kind: Defragment, Member: "b"}, 8, false},
		{Action{Kind: Compact}, 7, true},
		{Action{Kind: Defragment, Member: "a"}, 0, true},
		{Action{Kind: Compact}, 8, true},
	} {
		now = now.Add(time.Minute)
		r.Note(step.did, step.compactedAt, now)
		if got := r.Lately("a", step.compactedAt, now); got != step.want {
			t.Errorf("step %d: %t", i, got)
		}
	}
	if r.Lately("a", 8, now.Add(RewritePeriod)) {
		t.Error("it is true for ever")
	}
	r.Note(Action{Kind: Defragment, Member: "a"}, 0, now.Add(RewritePeriod))
	if r.Lately("a", 0, now.Add(RewritePeriod)) {
		t.Error("a file with old versions is true")
	}
}
