package lead

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// three are members that are fine, of which the first leads from a cordoned node.
func three() State {
	var s State
	for i := range 3 {
		s.Members = append(s.Members, Member{
			Name: fmt.Sprintf("etcd-%d", i), Ordinal: i, Voter: true, Leader: i == 0, InQuorum: true, Ready: true, Cordoned: i == 0,
		})
	}
	return s
}

const nobody = "no other member that works is on a node that takes pods"

func TestWhoLeads(t *testing.T) {
	for name, test := range map[string]struct {
		is   func(*State)
		want Action
	}{
		"the first that is able":              {func(*State) {}, Action{To: "etcd-1"}},
		"the same without a cordon":           {func(s *State) { s.Members[0].Cordoned = false }, Action{}},
		"the same when others are cordoned":   {func(s *State) { s.Members[0].Cordoned, s.Members[1].Cordoned = false, true }, Action{}},
		"none that is cordoned too":           {func(s *State) { s.Members[1].Cordoned = true }, Action{To: "etcd-2"}},
		"none that is not in the quorum":      {func(s *State) { s.Members[1].InQuorum = false }, Action{To: "etcd-2"}},
		"none that is not ready":              {func(s *State) { s.Members[1].Ready = false }, Action{To: "etcd-2"}},
		"none that stops":                     {func(s *State) { s.Members[1].Stopping = true }, Action{To: "etcd-2"}},
		"none that does not vote":             {func(s *State) { s.Members[1].Voter = false }, Action{To: "etcd-2"}},
		"the lowest, in any order":            {func(s *State) { s.Members[1], s.Members[2] = s.Members[2], s.Members[1] }, Action{To: "etcd-1"}},
		"the one that was created last":       {func(s *State) { s.Members[2].Created = time.Unix(1, 0) }, Action{To: "etcd-2"}},
		"none that is not ready, if youngest": {func(s *State) { s.Members[2].Created, s.Members[2].Ready = time.Unix(1, 0), false }, Action{To: "etcd-1"}},
		"the same when all are cordoned":      {func(s *State) { s.Members[1].Cordoned, s.Members[2].Cordoned = true, true }, Action{Reason: nobody}},
		"the same when no other works":        {func(s *State) { s.Members[1].InQuorum, s.Members[2].Ready = false, false }, Action{Reason: nobody}},
		"the same while members change":       {func(s *State) { s.Changing = "its members change" }, Action{Reason: "its members change"}},
		"the same when it stops":              {func(s *State) { s.Members[0].Stopping = true }, Action{}},
		"the same when it is the only one":    {func(s *State) { s.Members = s.Members[:1]; s.Changing = "its members change" }, Action{}},
		"the same when others are learners":   {func(s *State) { s.Members[1].Voter, s.Members[2].Voter = false, false }, Action{}},
		"nobody knows while there is none":    {func(s *State) { s.Members[0].Leader = false }, Action{}},
		"nobody knows when nobody is listed":  {func(s *State) { s.Members = nil }, Action{}},
	} {
		t.Run(name, func(t *testing.T) {
			s := three()
			test.is(&s)
			if got := Decide(s); got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

// Whatever happens in whatever order, the lead goes to one that works on a node that takes pods, and one step is
// enough: the next decision is to do nothing.
func TestTheLeadMovesOnceAndToOneThatWorks(t *testing.T) {
	moved := 0
	for seed := range uint64(1000) {
		random := rand.New(rand.NewPCG(seed, 1))
		s := State{}
		for i := range []int{1, 3, 5, 7}[random.IntN(4)] {
			s.Members = append(s.Members, Member{Name: fmt.Sprintf("etcd-%d", i), Ordinal: i, Voter: true, InQuorum: true, Ready: true, Leader: i == 0})
		}
		for range 100 {
			m := &s.Members[random.IntN(len(s.Members))]
			flag := []*bool{&m.Voter, &m.InQuorum, &m.Ready, &m.Stopping, &m.Cordoned, &m.Cordoned}[random.IntN(6)]
			*flag = !*flag
			action := Decide(s)
			if action.To == "" {
				continue
			}
			moved++
			for i := range s.Members {
				m := &s.Members[i]
				if m.Leader && !m.Cordoned {
					t.Fatalf("seed %d: the lead is taken from %+v", seed, *m)
				}
				if m.Leader = m.Name == action.To; m.Leader && (!m.Voter || !m.InQuorum || !m.Ready || m.Stopping || m.Cordoned) {
					t.Fatalf("seed %d: the lead goes to %+v", seed, *m)
				}
			}
			if again := Decide(s); again != (Action{}) {
				t.Fatalf("seed %d: after a move it says %+v", seed, again)
			}
		}
	}
	if moved < 500 {
		t.Errorf("the lead moved only %d times", moved)
	}
}

// The nodes are cordoned and drained one by one, in any order; each drain has the member's pod created anew.
func TestTheLeadMovesTwiceAtMostWhileNodesAreDrainedOneByOne(t *testing.T) {
	for seed := range uint64(1000) {
		random := rand.New(rand.NewPCG(seed, 2))
		s := State{}
		members := []int{3, 5, 7}[random.IntN(3)]
		leads := random.IntN(members)
		for i := range members {
			s.Members = append(s.Members, Member{
				Name: fmt.Sprintf("etcd-%d", i), Ordinal: i, Voter: true, InQuorum: true, Ready: true, Leader: i == leads, Created: time.Unix(int64(random.IntN(3)), 0),
			})
		}
		moved := 0
		for drained, i := range random.Perm(members) {
			s.Members[i].Cordoned = true
			if to := Decide(s).To; to != "" {
				moved++
				for j := range s.Members {
					s.Members[j].Leader = s.Members[j].Name == to
				}
			}
			s.Members[i].Cordoned, s.Members[i].Created = false, time.Unix(int64(100+drained), 0)
		}
		if moved == 0 || moved > 2 {
			t.Fatalf("seed %d: the lead of %d members moved %d times", seed, members, moved)
		}
	}
}
