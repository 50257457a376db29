package space

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

const gib = int64(1) << 30

// full is a full etcd of three members, of which the first leads. Its files are full of old versions.
func full(edits ...func(*State)) State {
	s := State{Full: true, CompactedAt: 9, Quota: "spec.etcd.data.quotaBackendSize"}
	for i := range 3 {
		s.Members = append(s.Members, Member{
			Name: fmt.Sprintf("blue-etcd-data-%d", i), Ordinal: i, Started: true, Works: true, Leader: i == 0, Size: 2 * gib, InUse: gib, Quota: 2 * gib, Volume: 8 * gib,
		})
	}
	for _, edit := range edits {
		edit(&s)
	}
	return s
}

func of(i int, edit func(*Member)) func(*State) { return func(s *State) { edit(&s.Members[i]) } }

func packed(m *Member) { m.InUse, m.Rewritten = 2*gib, true }

func huge(s *State) {
	for i := range s.Members {
		s.Members[i].Size, s.Members[i].InUse, s.Members[i].Quota, s.Members[i].Volume = 8*gib, 5*gib, 8*gib, 32*gib
	}
}

func small(m *Member) { m.Size = gib }

func TestDecide(t *testing.T) {
	for name, test := range map[string]struct {
		state State
		want  Action
		says  string
	}{
		"it takes writes":     {state: full(func(s *State) { s.Full = false })},
		"it has old versions": {state: full(of(0, packed), of(1, packed), of(2, packed), func(s *State) { s.CompactedAt = 0 }), want: Action{Kind: Compact}, says: "full"},
		"it has old versions, and free pages that suffice": {state: full(func(s *State) { s.CompactedAt = 0 }), want: Action{Kind: Defragment, Member: "blue-etcd-data-1"}},
		"a member does not work":                           {state: full(of(1, func(m *Member) { m.Works = false })), want: Action{Kind: Wait}, says: "blue-etcd-data-1"},
		"all files are too large":                          {state: full(), want: Action{Kind: Defragment, Member: "blue-etcd-data-1"}},
		"one is small already":                             {state: full(of(1, small)), want: Action{Kind: Defragment, Member: "blue-etcd-data-2"}},
		"the leader's is left":                             {state: full(of(1, small), of(2, small)), want: Action{Kind: Defragment, Member: "blue-etcd-data-0"}},
		"all are small":                                    {state: full(of(0, small), of(1, small), of(2, small)), want: Action{Kind: Disarm}},
		"a member has not started":                         {state: full(of(1, func(m *Member) { *m = Member{Name: m.Name, Ordinal: 1} })), want: Action{Kind: Defragment, Member: "blue-etcd-data-2"}},
		"one has not dropped old versions":                 {state: full(of(1, packed)), want: Action{Kind: Defragment, Member: "blue-etcd-data-2"}},
		"data in use fill it":                              {state: full(of(0, packed), of(1, packed), of(2, packed)), want: Action{Kind: NeedsDecision}, says: "2Gi of 2Gi in member blue-etcd-data-1: delete objects, or raise spec.etcd.data.quotaBackendSize"},
		"data seem to fill it, and a file was not written anew": {
			state: full(of(0, packed), of(1, packed), of(2, packed), of(2, func(m *Member) { m.Rewritten = false })), want: Action{Kind: Defragment, Member: "blue-etcd-data-2"},
		},
		"a volume has no room for the copy":  {state: full(of(1, func(m *Member) { m.Volume = 3 * gib })), want: Action{Kind: NeedsDecision}, says: "the volume of member blue-etcd-data-1, of 3Gi"},
		"nobody knows how large a volume is": {state: full(of(1, func(m *Member) { m.Volume = 0 })), want: Action{Kind: Defragment, Member: "blue-etcd-data-1"}},
		"what is in use is too much to be written anew while kubelet waits": {state: full(huge), want: Action{Kind: NeedsDecision},
			says: "to write the 5Gi in use of member blue-etcd-data-1 anew may take longer than kubelet waits for an answer: delete objects, or raise spec.etcd.data.quotaBackendSize"},
		"it is too much, and some is old versions": {state: full(huge, func(s *State) { s.CompactedAt = 0 }), want: Action{Kind: Compact}},
		"the quota was raised": {state: full(func(s *State) {
			for i := range s.Members {
				s.Members[i].Quota = 4 * gib
			}
		}), want: Action{Kind: Disarm}},
	} {
		t.Run(name, func(t *testing.T) {
			got := Decide(test.state)
			if got.Kind != test.want.Kind || got.Member != test.want.Member || !strings.Contains(got.Reason, test.says) || (got.Reason == "") != (got.Kind == None) {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// Whatever the sizes are, a full etcd ends with room, or with a person who is asked, and no member is defragmented twice.
func TestAFullEtcdEndsWithRoomOrWithAPerson(t *testing.T) {
	ended := map[Kind]int{}
	for seed := range uint64(1000) {
		random := rand.New(rand.NewPCG(seed, 1))
		s := full(func(s *State) { s.CompactedAt = random.Int64N(2) })
		for i := range s.Members {
			m := &s.Members[i]
			m.Size, m.Volume = random.Int64N(3*gib), random.Int64N(9*gib)
			m.InUse, m.Leader = random.Int64N(m.Size+1), i == int(seed%3)
		}
		done := map[string]bool{}
		for i := range s.Members { // All have the same data, and each its own free pages.
			s.Members[i].InUse = s.Members[0].InUse
			s.Members[i].Size = max(s.Members[i].Size, s.Members[i].InUse)
		}
		steps, action := 0, Decide(s)
		for ; action.Kind != None && action.Kind != NeedsDecision; action = Decide(s) {
			if steps++; steps > 10 {
				t.Fatalf("seed %d: it does not end: %+v", seed, s)
			}
			switch action.Kind {
			case Compact:
				s.CompactedAt = 1
			case Defragment:
				if done[action.Member] {
					t.Fatalf("seed %d: %s is defragmented twice", seed, action.Member)
				}
				done[action.Member] = true
				for i := range s.Members {
					if s.Members[i].Name == action.Member {
						s.Members[i].Size, s.Members[i].Rewritten = s.Members[i].InUse, true
					}
				}
			case Disarm:
				s.Full = false
			}
		}
		ended[action.Kind]++
	}
	if ended[None] == 0 || ended[NeedsDecision] == 0 {
		t.Errorf("it ended as %v", ended)
	}
}
