package membership

import (
	"slices"
	"strings"
	"testing"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/byhand"
)

// cluster is a state with some healthy voters, of which the first leads, and all that belongs to them.
func cluster(voters, desired int) State {
	s := State{Name: "blue-etcd-data", Desired: desired, Hosts: 9}
	for i := range voters {
		s.Members = append(s.Members, Member{Name: name(i), Ordinal: i, Started: true, Healthy: true, Leader: i == 0})
		s.Pods, s.Claims = append(s.Pods, i), append(s.Claims, i)
	}
	return s
}

// gap is a cluster of which etcd does not list one member, whose pod and volume are there.
func gap(voters, desired, missing int) State {
	s := cluster(voters, desired)
	s.Members = append(s.Members[:missing:missing], s.Members[missing+1:]...)
	return s
}

func name(ordinal int) string { return "blue-etcd-data-" + string(rune('0'+ordinal)) }

// with is the state with a learner more, which has come as far as the changes say.
func (s State) with(changes ...func(*State, *Member)) State {
	ordinal := len(s.Members)
	learner := Member{Name: name(ordinal), Ordinal: ordinal, Learner: true}
	for _, change := range changes {
		change(&s, &learner)
	}
	s.Members = append(s.Members, learner)
	return s
}

func started(s *State, m *Member) {
	m.Started, s.Pods, s.Claims = true, append(s.Pods, m.Ordinal), append(s.Claims, m.Ordinal)
}
func answers(_ *State, m *Member) { m.Healthy = true }
func open(s *State, m *Member)    { s.Open = append(s.Open, m.Ordinal) }

func TestDecide(t *testing.T) {
	sick := func(s State, ordinal int) State { s.Members[ordinal].Healthy = false; return s }
	for what, test := range map[string]struct {
		state State
		want  Action
		// says is a part of the reason to wait.
		says string
	}{
		"all members there shall be are there":    {state: cluster(3, 3)},
		"a single member is all there shall be":   {state: cluster(1, 1)},
		"a sick member is no reason for a change": {state: sick(cluster(3, 3), 1)},
		"etcd told no member":                     {state: State{Desired: 3}, want: Action{Kind: Wait}, says: "does not tell"},
		"an unknown member is listed": {state: func() State {
			s := cluster(3, 5)
			s.Members = append(s.Members, Member{Name: "red", ID: 0x1f, Ordinal: -1})
			s.ByHand = byhand.Etcdctl{name(0): "etcdctl in " + name(0)}
			return s
		}(), want: Action{Kind: Wait}, says: `the member "red" (1f), which is not of this control plane. To remove it, run: etcdctl in blue-etcd-data-0 member remove 1f`},
		"an unknown member is listed, and no other one works": {state: func() State {
			s := cluster(3, 3)
			s.Members = append(s.Members, Member{Name: "red", ID: 0x1f, Ordinal: -1})
			return s
		}(), want: Action{Kind: Wait}, says: "To remove it, bring back another member that votes"},

		"the second member is added": {state: cluster(1, 3), want: Action{Kind: AddLearner, Ordinal: 1}},
		"the fifth member is added":  {state: cluster(4, 5), want: Action{Kind: AddLearner, Ordinal: 4}},
		"the file of the member that is to be added is not there": {
			state: func() State { s := cluster(3, 5); s.Open = []int{3}; return s }(), want: Action{Kind: Wait}, says: "member 3 has no configuration file"},
		"the file of another one is not there": {
			state: func() State { s := cluster(3, 5); s.Open = []int{4}; return s }(), want: Action{Kind: AddLearner, Ordinal: 3}},
		"a member that is missing in the middle is added in its place": {state: func() State {
			s := cluster(3, 3)
			s.Members, s.Pods, s.Claims = append(s.Members[:1:1], s.Members[2]), []int{0, 2}, []int{0, 2}
			return s
		}(), want: Action{Kind: AddLearner, Ordinal: 1}},
		"a member that is missing in the middle has a new pod and a new volume": {
			state: func() State { s := gap(3, 3, 1); s.Blank = []int{1}; return s }(), want: Action{Kind: AddLearner, Ordinal: 1}},
		"a member that is missing in the middle has its old pod":    {state: gap(3, 3, 1), want: Action{Kind: Wait}, says: "pod blue-etcd-data-1"},
		"a member that is missing in the middle has its old volume": {state: func() State { s := gap(3, 3, 1); s.Pods = []int{0, 2}; return s }(), want: Action{Kind: DeleteClaim, Ordinal: 1}},
		"the first member is missing, and is the only one that is wanted": {
			state: func() State { s := gap(2, 1, 0); s.Blank = []int{0}; return s }(), want: Action{Kind: AddLearner, Ordinal: 0}},
		"a member is missing in the middle, and one too many is there": {
			state: func() State { s := gap(5, 3, 1); s.Blank = []int{1}; return s }(), want: Action{Kind: Remove, Ordinal: 4}},
		"a member is missing in the middle, and the last one takes its place until it is back": {
			state: func() State { s := gap(4, 3, 1); s.Blank = []int{1}; return s }(), want: Action{Kind: AddLearner, Ordinal: 1}},
		"what is left of a member that is not wanted stays as long as one after it": {
			state: func() State {
				s := gap(5, 3, 3)
				s.Members = append(s.Members[:1:1], s.Members[2:]...)
				s.Blank = []int{1}
				return s
			}(), want: Action{Kind: AddLearner, Ordinal: 1}},
		"there is no host node for a member that is missing in the middle and one that goes after it": {
			state: func() State { s := gap(4, 3, 1); s.Blank, s.Hosts = []int{1}, 3; return s }(), want: Action{Kind: Wait}, says: "4 members need"},

		"a new volume of a member that is not wanted any more": {
			state: func() State { s := cluster(3, 3); s.Claims, s.Blank = append(s.Claims, 3), []int{3}; return s }(), want: Action{Kind: DeleteClaim, Ordinal: 3}},
		"as many members as host nodes are fine":                             {state: func() State { s := cluster(1, 3); s.Hosts = 3; return s }(), want: Action{Kind: AddLearner, Ordinal: 1}},
		"more members than host nodes":                                       {state: func() State { s := cluster(3, 5); s.Hosts = 4; return s }(), want: Action{Kind: Wait}, says: "there are 4"},
		"a member is sick when another shall be added":                       {state: sick(cluster(3, 5), 2), want: Action{Kind: Wait}, says: "blue-etcd-data-2 does not answer"},
		"a volume of the member that was there before is left":               {state: func() State { s := cluster(3, 5); s.Claims = append(s.Claims, 3); return s }(), want: Action{Kind: DeleteClaim, Ordinal: 3}},
		"a pod of the member that was there before is left":                  {state: func() State { s := cluster(3, 5); s.Pods = append(s.Pods, 3); return s }(), want: Action{Kind: Wait}, says: "pod blue-etcd-data-3"},
		"a pod whose volume is left too":                                     {state: func() State { s := cluster(3, 5); s.Pods, s.Claims = append(s.Pods, 3), append(s.Claims, 3); return s }(), want: Action{Kind: Wait}, says: "stopping"},
		"a volume from before a restore in place is left":                    {state: func() State { s := cluster(1, 3); s.Claims, s.Former = append(s.Claims, 1, 2), []int{1, 2}; return s }(), want: Action{Kind: AddLearner, Ordinal: 1}},
		"a volume from before a restore in place is that of nobody any more": {state: func() State { s := cluster(3, 3); s.Claims, s.Former = append(s.Claims, 3), []int{3}; return s }(), want: Action{Kind: DeleteClaim, Ordinal: 3}},
		"a volume of a member far away is left, and a member is missing":     {state: func() State { s := cluster(1, 3); s.Claims = append(s.Claims, 4); return s }(), want: Action{Kind: DeleteClaim, Ordinal: 4}},

		"a learner's pod is not there":                         {state: cluster(3, 5).with(), want: Action{Kind: Wait}, says: "when its pod has started"},
		"a learner has not started and could without data":     {state: cluster(3, 5).with(open), want: Action{Kind: Wait}, says: "when its pod has started"},
		"a learner could still start without data":             {state: cluster(3, 5).with(started, answers, open), want: Action{Kind: Wait}, says: "configuration file"},
		"a learner does not answer":                            {state: cluster(3, 5).with(started), want: Action{Kind: Wait}, says: "set replicas back"},
		"a learner is ready":                                   {state: cluster(3, 5).with(started, answers), want: Action{Kind: Promote, Ordinal: 3}},
		"the first learner is ready":                           {state: cluster(1, 3).with(started, answers), want: Action{Kind: Promote, Ordinal: 1}},
		"a learner is ready and a voter is sick":               {state: sick(cluster(3, 5), 1).with(started, answers), want: Action{Kind: Wait}, says: "blue-etcd-data-1 does not answer"},
		"a learner is ready, and host nodes are fewer now":     {state: func() State { s := cluster(3, 5).with(started, answers); s.Hosts = 1; return s }(), want: Action{Kind: Promote, Ordinal: 3}},
		"a learner is wanted no more":                          {state: cluster(3, 3).with(started, answers), want: Action{Kind: Remove, Ordinal: 3}},
		"a learner that never started is wanted no more":       {state: cluster(3, 1).with(open), want: Action{Kind: Remove, Ordinal: 3}},
		"a learner is wanted no more although a voter is sick": {state: sick(cluster(3, 3), 0).with(started), want: Action{Kind: Remove, Ordinal: 3}},

		"the fifth member goes":                       {state: cluster(5, 3), want: Action{Kind: Remove, Ordinal: 4}},
		"the fourth member goes":                      {state: cluster(4, 3), want: Action{Kind: Remove, Ordinal: 3}},
		"the second member goes":                      {state: cluster(2, 1), want: Action{Kind: Remove, Ordinal: 1}},
		"an API server uses the member that is to go": {state: func() State { s := cluster(5, 3); s.Used = []int{0, 4}; return s }(), want: Action{Kind: Wait}, says: "no kube-apiserver uses it"},
		"API servers use others":                      {state: func() State { s := cluster(5, 3); s.Used = []int{0, 1, 2}; return s }(), want: Action{Kind: Remove, Ordinal: 4}},
		"a member that stays is sick":                 {state: sick(cluster(5, 3), 0), want: Action{Kind: Wait}, says: "the quorum would be at risk"},
		"a member that goes later is sick":            {state: sick(cluster(5, 3), 3), want: Action{Kind: Wait}, says: "blue-etcd-data-3 does not answer"},
		"a member that stays has other data":          {state: func() State { s := cluster(3, 1); s.Members[0].Differs = true; return s }(), want: Action{Kind: Wait}, says: "data of member blue-etcd-data-0"},
		"a pod may be new or left": {state: func() State {
			s := cluster(3, 3)
			s.Members, s.BlankUnknown = slices.Delete(s.Members, 1, 2), true
			return s
		}(), want: Action{Kind: Wait}, says: "pod blue-etcd-data-1 may be new or left"},
		"a volume may be new or left": {state: func() State {
			s := cluster(3, 3)
			s.Members, s.Pods, s.BlankUnknown = slices.Delete(s.Members, 1, 2), []int{0, 2}, true
			return s
		}(), want: Action{Kind: Wait}, says: "the volume of blue-etcd-data-1 may be new or left"},
		"no majority has the same data, and one is missing": {state: func() State { s := cluster(2, 3); s.Disagree = true; return s }(), want: Action{Kind: Wait}, says: "no majority agrees: another one is added when it is decided whose is right"},
		"no majority has the same data, and one learns":     {state: func() State { s := cluster(3, 3); s.Members[2].Learner, s.Disagree = true, true; return s }(), want: Action{Kind: Wait}, says: "no majority agrees: blue-etcd-data-2 votes when it is decided whose is right"},
		"no majority has the same data":                     {state: func() State { s := cluster(3, 1); s.Disagree = true; return s }(), want: Action{Kind: Wait}, says: "no majority agrees: blue-etcd-data-2 goes when it is decided whose is right"},
		"the member that is to go has other data":           {state: func() State { s := cluster(5, 3); s.Members[4].Differs = true; return s }(), want: Action{Kind: Remove, Ordinal: 4}},
		"the member that is to go is sick":                  {state: sick(cluster(5, 3), 4), want: Action{Kind: Remove, Ordinal: 4}},
		"the next one goes while a pod still stops":         {state: func() State { s := cluster(4, 3); s.Pods = append(s.Pods, 4); return s }(), want: Action{Kind: Remove, Ordinal: 3}},
		"the last volume is left":                           {state: func() State { s := cluster(3, 3); s.Claims = append(s.Claims, 3); return s }(), want: Action{Kind: DeleteClaim, Ordinal: 3}},
		"a pod of the first member is stuck, and the second one is missing": {state: func() State {
			s := gap(3, 3, 0)
			s.Members, s.Pods, s.Claims, s.Stuck = s.Members[1:], []int{0, 2}, []int{0, 2}, map[int]string{0: "h1"}
			return s
		}(), want: Action{Kind: AddLearner, Ordinal: 1}},
		"a pod of the last member is stuck, and the second one is missing": {state: func() State {
			s := cluster(1, 3)
			s.Pods, s.Claims, s.Stuck = []int{0, 2}, []int{0, 2}, map[int]string{2: "h1"}
			return s
		}(), want: Action{Kind: AddLearner, Ordinal: 1}},
		"nothing is missing but a member whose pod is stuck": {state: func() State {
			s := gap(3, 3, 1)
			s.Stuck = map[int]string{1: "h1"}
			return s
		}(), want: Action{Kind: Wait}, says: "pod blue-etcd-data-1, which is no member any more, cannot stop while host node h1 is not heard from"},
		"a pod that is not wanted is stuck": {state: func() State {
			s := cluster(3, 3)
			s.Pods, s.Claims, s.Stuck = append(s.Pods, 3), append(s.Claims, 3), map[int]string{3: "h1"}
			return s
		}(), want: Action{Kind: Wait}, says: "delete its Node if it is gone for good"},
		"a pod is stuck, and another one stops": {state: func() State {
			s := cluster(3, 3)
			s.Pods, s.Stuck = append(s.Pods, 3, 4), map[int]string{3: "h1"}
			return s
		}(), want: Action{Kind: Wait}, says: "pod blue-etcd-data-4, which is no member any more, is stopping"},
		"a new pod is on a host node that is not heard from": {state: func() State {
			s := gap(3, 3, 1)
			s.Blank, s.Stuck = []int{1}, map[int]string{1: "h1"}
			return s
		}(), want: Action{Kind: AddLearner, Ordinal: 1}},
		"the last pod stops": {state: func() State { s := cluster(3, 3); s.Pods = append(s.Pods, 3); return s }(), want: Action{Kind: Wait}, says: "stopping"},
		"the leader is to go": {state: func() State {
			s := cluster(5, 3)
			s.Members[0].Leader, s.Members[4].Leader = false, true
			return s
		}(), want: Action{Kind: MoveLeader, Ordinal: 0}},
	} {
		t.Run(what, func(t *testing.T) {
			got := Decide(test.state)
			if got.Kind != test.want.Kind || got.Ordinal != test.want.Ordinal || (got.Kind == Wait) != (got.Reason != "") || !strings.Contains(got.Reason, test.says) {
				t.Errorf("got %+v, want %+v %q", got, test.want, test.says)
			}
		})
	}
}
