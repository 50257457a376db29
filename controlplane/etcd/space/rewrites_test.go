package space

import (
	"testing"
	"time"
)

// What was written anew before old versions were dropped says nothing of what they took.
func TestAFileIsWrittenAnewAfterOldVersionsWereDropped(t *testing.T) {
	var r Rewrites
	now := time.Now()
	for i, step := range []struct {
		did  Action
		want bool
	}{
		{Action{}, false},
		{Action{Kind: Defragment, Member: "a"}, true},
		{Action{Kind: Compact}, false},
		{Action{Kind: Defragment, Member: "b"}, false},
		{Action{Kind: Defragment, Member: "a"}, true},
		{Action{Kind: Compact}, true},
	} {
		now = now.Add(time.Minute)
		r.Note(step.did, now)
		if got := r.Lately("a", now); got != step.want {
			t.Errorf("step %d: %t", i, got)
		}
	}
	if r.Lately("a", now.Add(RewritePeriod)) {
		t.Error("it is true for ever")
	}
}
