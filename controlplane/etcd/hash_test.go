package etcd

import (
	"testing"
)

func TestWhoIsAskedForHashesAndAtWhichRevision(t *testing.T) {
	health := &Health{Members: []Member{
		{Name: "a", Listed: true, Leader: true, Answered: true, Revision: 12},
		{Name: "b", Listed: true, Answered: true, Revision: 10},
		{Name: "c", Listed: true, Revision: 0},
		{Name: "d", Listed: true, Learner: true, Answered: true, Revision: 3},
		{Name: "e", Answered: true, Revision: 2},
	}}
	voters, revision := health.comparable()
	asked := ""
	for _, m := range voters {
		asked += m.Name
	}
	if asked != "bca" || revision != 10 {
		t.Errorf("%s are asked at revision %d", asked, revision)
	}
}
