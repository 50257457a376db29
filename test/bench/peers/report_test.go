package main

import (
	"testing"
	"time"
)

func TestFiguresAreRatiosOfMedians(t *testing.T) {
	own, peer := &product{Name: "KOK"}, &product{Name: "Other"}
	b := &bench{own: own, peer: peer, took: samples{}, failed: map[*product]int{peer: 5}}
	for _, seconds := range []int{9, 2, 4} {
		all := func(factor int) map[measure]time.Duration {
			d := time.Duration(factor*seconds) * time.Second
			return map[measure]time.Duration{creation: d, upgrade: 2 * d, deletion: d}
		}
		b.took.add(own, all(1))
		b.took.add(peer, all(2))
	}
	b.took.add(own, map[measure]time.Duration{together: 3 * time.Second})
	b.took.add(peer, map[measure]time.Duration{together: 4 * time.Second})
	if got := b.took.seconds(creation, own); got != 4 {
		t.Errorf("the median of ours is %v s", got)
	}
	want := map[string]string{
		"peer_create_ratio": "0.50", "peer_create_many_ratio": "0.75", "peer_upgrade_ratio": "0.50", "peer_delete_ratio": "0.50",
		"peer_upgrade_failed_requests": "0", "peer_upgrade_failed_requests_of_peer": "5",
	}
	for _, figure := range b.figures() {
		if figure.Value.String() != want[figure.Name] {
			t.Errorf("%s is %s, want %s", figure.Name, figure.Value, want[figure.Name])
		}
	}
}
